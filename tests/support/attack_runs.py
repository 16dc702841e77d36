"""An attack on a server, and what polite clients, the server's memory and its log had to say about it.

Run as a program, this module is an attacker, with the arguments NAME ADDRESS, until its standard input ends: then it
says how often it has begun, and why its connections ended.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from attack_bounds import Attack, Bounds
from attacks import ATTACKS
from http_calls import find_http
from meters import Sampler, read_total_memory
from polite_clients import Figures, PoliteCall, PoliteClients, run_polite_clients
from proxies import Proxy, run_proxy
from server_processes import Record, ServerProcess, run_server

SLOW_SECONDS = 0.1
"""A call that takes longer is a slow one; the service has recovered when none of them is."""

_CALLS_PER_SECOND = 50.0
_AFTER_SECONDS, _RECOVERY_SECONDS = 1.0, 12.0  # how long is looked after the end: at least, and at the most
_CALM_CALLS = 5
_STOP_SECONDS = 10.0
_MAX_KEPT_BYTES = 64 << 20  # of memory after an attack; where it is more, the next one has a server of its own
_MIB = 1 << 20
# What gRPC's core writes by itself at ERROR and FATAL: the level, the month and day, the time.
_CORE_ERROR = re.compile(r"[EF][0-9]{4} [0-9:.]+ ")
_REJECTIONS = ("RESOURCE_EXHAUSTED", "LimitError")


@dataclass
class Row:
    """What an attack did to others. Times are in milliseconds where they end in `_ms`.

    Attributes:
        attack: its name.
        calls: how many the polite clients had under way during the attack, health checks besides.
        rejected: how many of the raw ones were rejected.
        rejected_sdk: how many of the SDK's were.
        lost: what other calls failed with, health checks too, and how many.
        base_mib: the server's memory before.
        peak_mib: the most there was.
        recovery_seconds: from the attack's end to that of the last slow or failed call; infinite: it did not end.
        errors: lines of level ERROR in the log.
        exit_code: of the server; 0 also while it goes on.
        began: when the attack began, by `time.monotonic`.
        ended: when it ended.
        attacker: what the attacker has to say.
        failure: why there is nothing more to say; empty where there is.
    """

    attack: str
    calls: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    health_p99_ms: float = 0.0
    rejected: int = 0
    rejected_sdk: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    base_mib: int = 0
    peak_mib: int = 0
    recovery_seconds: float = 0.0
    errors: int = 0
    exit_code: int = 0
    began: float = 0.0
    ended: float = 0.0
    attacker: str = ""
    failure: str = ""

    def describe(self) -> str:
        """Returns a row of the table in docs/attacks."""
        if self.failure:
            return f"| {self.attack} | {self.failure} |"
        rejected = f"{self.rejected} + {self.rejected_sdk}" if self.rejected or self.rejected_sdk else "0"
        return (
            f"| {self.attack} | {self.p50_ms:.1f} | {self.p99_ms:.0f} | {self.health_p99_ms:.0f} | {rejected}"
            f" | {self.lost.total()} | {self.peak_mib} | {self.recovery_seconds:.1f} |"
        )

    def find_misses(self, bounds: Bounds, slack: float = 1.0) -> list[str]:
        """Returns what is not as it must be; times may be so many times as long as the bounds say."""
        if self.failure:
            return [self.failure]
        highest = {
            "p50 ms": (self.p50_ms, bounds.p50_ms * slack),
            "p99 ms": (self.p99_ms, bounds.p99_ms * slack),
            "health p99 ms": (self.health_p99_ms, bounds.health_p99_ms * slack),
            "seconds to recover": (self.recovery_seconds, bounds.recovery_seconds * slack),
            "rejected": (self.rejected, bounds.rejections),
            "rejected with the SDK": (self.rejected_sdk, 0),
            f"lost {dict(self.lost)}": (self.lost.total(), 0),
            "MiB of memory": (self.peak_mib, self.base_mib + bounds.memory_mib),
            "errors in the log": (self.errors, 0),
            "exit code": (abs(self.exit_code), 0),
        }
        return [f"{name}: {have:g}, not {most:g}" for name, (have, most) in highest.items() if have > most]


def run_attacks(attacks: Iterable[Attack], seconds: float, *flags: str, proxy: Proxy | None = None) -> Iterator[Row]:
    """Attacks a server of its own beside polite clients, for so long each; one that is not whole after it is replaced.

    Whatever goes wrong is in the row. With a proxy, attackers and polite clients reach the server through it.
    """
    waiting = deque(attacks)
    trusts = () if proxy is None else ("--trusted-proxy", "127.0.0.1")
    while waiting:
        rows: list[Row] = []
        try:
            with ExitStack() as stack:
                server = stack.enter_context(run_server("--http-listen", "127.0.0.1:0", *trusts, *flags))
                address = server.address
                if proxy is not None:
                    folder = Path(stack.enter_context(TemporaryDirectory()))
                    address = stack.enter_context(run_proxy(proxy, [server.address], folder))
                rows.extend(_attack_one_server(waiting, server, address, seconds))
                rows[-1].exit_code = server.stop()
        except (AssertionError, OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            name = waiting.popleft().name if waiting else "stop"
            rows.append(Row(name, failure=f"{type(error).__name__}: {error}"[:300]))
        yield from rows


def attack_address(attacks: Iterable[Attack], seconds: float, address: str) -> Iterator[Row]:
    """Attacks whatever listens there, which may be a proxy: nothing is said of its memory and its log."""
    with run_polite_clients(address, calls_per_second=_CALLS_PER_SECOND) as clients:
        for attack in attacks:
            row = Row(attack.name)
            _attack(attack, address, clients, seconds, row)
            yield row


def _attack_one_server(waiting: deque[Attack], server: ServerProcess, address: str, seconds: float) -> Iterator[Row]:
    """Takes attacks from those that wait, as long as the server is whole; `address` is its own or its proxy's."""
    pid = server.process.pid
    with run_polite_clients(address, calls_per_second=_CALLS_PER_SECOND) as clients:
        base, is_whole = read_total_memory(pid), True
        while waiting and is_whole:
            attack, records = waiting[0], len(server.records)
            row = Row(attack.name, base_mib=base // _MIB)
            target = find_http(server) if attack.is_http else address
            with Sampler(lambda: read_total_memory(pid), 0.05) as memory:
                _attack(attack, target, clients, seconds, row)
            row.peak_mib, row.errors = max(memory.samples) // _MIB, count_errors(server.records[records:])
            kept = read_total_memory(pid) - base
            is_whole = row.recovery_seconds < _RECOVERY_SECONDS and not (row.errors or row.lost)
            is_whole &= kept < _MAX_KEPT_BYTES
            waiting.popleft()
            yield row


def _attack(attack: Attack, address: str, clients: PoliteClients, seconds: float, row: Row) -> None:
    """Attacks, and fills the row with what clients saw."""
    with _run_attacker(attack, address, row):
        row.began = time.monotonic()
        time.sleep(max(seconds, attack.least_seconds))
        row.ended = time.monotonic()
    recovers = _await_recovery(clients, row.ended)
    figures = clients.look()
    row.recovery_seconds = round(find_recovery(figures, row.ended), 2) if recovers else float("inf")
    seen = {kind: one.during(row.began, row.ended) for kind, one in figures.items()}
    both = Figures((*seen["raw"].calls, *seen["sdk"].calls))
    row.calls = len(both.calls)
    if both.calls:
        row.p50_ms, row.p99_ms = (round(both.find_quantile(share) * 1000, 2) for share in (0.5, 0.99))
    if seen["health"].calls:
        row.health_p99_ms = round(seen["health"].find_quantile(0.99) * 1000, 2)
    row.rejected, row.rejected_sdk = (
        sum(name.startswith(_REJECTIONS) for name in seen[kind].failures) for kind in ("raw", "sdk")
    )
    row.lost = Counter(name for one in seen.values() for name in one.failures if not name.startswith(_REJECTIONS))


@contextmanager
def _run_attacker(attack: Attack, address: str, row: Row) -> Iterator[None]:
    """Attacks from a process of its own until the end of the block."""
    command = [sys.executable, __file__, attack.name, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), f"the attacker ended with {process.wait()}"
        try:
            yield
        finally:
            try:
                row.attacker = process.communicate(timeout=_STOP_SECONDS)[0].strip()
            except subprocess.TimeoutExpired:
                process.kill()


def _await_recovery(clients: PoliteClients, end: float) -> bool:
    """Awaits that each client has been answered well some times in a row, and returns whether they were in time."""
    time.sleep(_AFTER_SECONDS)
    while time.monotonic() < end + _RECOVERY_SECONDS:
        last = [seen.since(end).calls[-_CALM_CALLS:] for seen in clients.look().values()]
        if all(len(calls) == _CALM_CALLS and not any(map(_is_bad, calls)) for calls in last):
            return True
        time.sleep(SLOW_SECONDS)
    return False


def find_recovery(figures: dict[str, Figures], end: float) -> float:
    """Returns how long after the end the last slow or failed call was over."""
    calls = [call for seen in figures.values() for call in seen.calls]
    return max([call.began + call.seconds - end for call in calls if _is_bad(call)] + [0.0])


def _is_bad(call: PoliteCall) -> bool:
    return bool(call.failure) or call.seconds > SLOW_SECONDS


def count_errors(records: Iterable[Record]) -> int:
    """Counts the lines of level ERROR or above, also those that gRPC's core has written by itself."""
    return sum(
        record.get("level") in {"ERROR", "CRITICAL"} or _CORE_ERROR.match(str(record["message"])) is not None
        for record in records
    )


def main() -> None:
    attack, address = ATTACKS[sys.argv[1]], sys.argv[2]
    ends = Counter[str]()

    def go_on() -> None:
        while True:
            try:
                attack.run(address)
                end = "closed"
            except Exception as error:  # noqa: BLE001 - what the attacker meets is what it reports
                end = type(error).__name__ if isinstance(error, OSError) else repr(error)[:200]
            ends[end] += 1
            time.sleep(0.05)  # an attacker that is rejected at once leaves the machine to others

    for _ in range(attack.connections):
        Thread(target=go_on, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    print(json.dumps(ends), flush=True)
    os._exit(0)  # whatever its threads are doing


if __name__ == "__main__":
    main()
