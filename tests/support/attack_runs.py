"""Runs attacks on a server, and measures their effect on well-behaved clients, on the memory and on the log.

If you run this module as a program, it is an attacker, with the arguments NAME ADDRESS, until the end of its standard
input. It then prints why its connections ended, and how often.
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

import attacks
from attacks import ATTACKS, Attack, Bounds
from http_calls import find_http
from meters import Sampler, read_total_memory
from proxies import Proxy, run_proxy
from server_processes import Record, ServerProcess, run_server
from steady_clients import KINDS, Figures, SteadyCall, SteadyClients, run_steady_clients

SLOW_SECONDS = 0.1
"""Calls above this duration are slow. The server has recovered when no call is slow."""

_CALLS_PER_SECOND = 50.0
_AFTER_SECONDS, _RECOVERY_SECONDS = 1.0, 12.0  # shortest and longest observation after the end of an attack
_CALM_CALLS = 5
_STOP_SECONDS = 10.0
_MAX_KEPT_BYTES = 64 << 20  # of memory after an attack; above it, the next attack gets a new server
_MIB = 1 << 20
# The beginning of a line of gRPC's core at ERROR or FATAL: level, month and day, time.
_CORE_ERROR = re.compile(r"[EF][0-9]{4} [0-9:.]+ ")
_REJECTIONS = ("RESOURCE_EXHAUSTED", "LimitError", "AssertionError: 429")  # of a plain channel, of the SDK, over HTTP


@dataclass
class Row:
    """The effect of an attack on others. Names that end in `_ms` are times in milliseconds."""

    attack: str  # the name of the attack
    calls: int = 0  # number of calls of well-behaved clients during the attack, without health checks
    p50_ms: float = 0.0
    p99_ms: float = 0.0  # percentiles of the duration of these calls
    health_p99_ms: float = 0.0  # 99th percentile of the duration of health checks
    http_p99_ms: float = 0.0  # 99th percentile of the duration of calls over HTTP
    rejected: int = 0  # number of rejected calls of the plain channel
    rejected_sdk: int = 0  # number of rejected calls of the SDK
    lost: Counter[str] = field(default_factory=Counter)  # other errors of calls and health checks, with their numbers
    base_mib: int = 0  # memory of the server before the attack
    peak_mib: int = 0  # largest memory of the server
    # time from the end of the attack to the end of the last slow or failed call; infinite if such calls did not end
    recovery_seconds: float = 0.0
    errors: int = 0  # number of log lines at the level ERROR
    exit_code: int = 0  # exit code of the server; 0 while it runs
    began: float = 0.0  # start of the attack, by `time.monotonic`
    ended: float = 0.0  # end of the attack
    attacker: str = ""  # output of the attacker
    failure: str = ""  # why there is no measurement; empty if there is one

    def describe(self) -> str:
        if self.failure:
            return f"| {self.attack} | {self.failure} |"
        rejected = f"{self.rejected} + {self.rejected_sdk}" if self.rejected or self.rejected_sdk else "0"
        return (
            f"| {self.attack} | {self.p50_ms:.1f} | {self.p99_ms:.0f} | {self.health_p99_ms:.0f}"
            f" | {self.http_p99_ms:.0f} | {rejected} | {self.lost.total()} | {self.peak_mib}"
            f" | {self.recovery_seconds:.1f} |"
        )

    def find_misses(self, bounds: Bounds, slack: float = 1.0) -> list[str]:
        """Returns the exceeded bounds. Bounds of times are multiplied by `slack`."""
        if self.failure:
            return [self.failure]
        highest = {
            "p50 ms": (self.p50_ms, bounds.p50_ms * slack),
            "p99 ms": (self.p99_ms, bounds.p99_ms * slack),
            "health p99 ms": (self.health_p99_ms, bounds.health_p99_ms * slack),
            "HTTP p99 ms": (self.http_p99_ms, bounds.http_p99_ms * slack),
            "seconds to recover": (self.recovery_seconds, bounds.recovery_seconds * slack),
            "rejected": (self.rejected, bounds.rejections),
            "rejected with the SDK": (self.rejected_sdk, 0),
            f"lost {dict(self.lost)}": (self.lost.total(), 0),
            "MiB of memory": (self.peak_mib, self.base_mib + bounds.memory_mib),
            "errors in the log": (self.errors, 0),
            "exit code": (abs(self.exit_code), 0),
        }
        return [f"{name}: {have:g}, allowed {most:g}" for name, (have, most) in highest.items() if have > most]


def run_attacks(attacks: Iterable[Attack], seconds: float, *flags: str, proxy: Proxy | None = None) -> Iterator[Row]:
    """Runs attacks on a server, `seconds` each, while well-behaved clients call. Yields a row for each attack.

    If an attack leaves the server damaged, the next attack gets a new server. Errors are in the row. With a proxy, both
    attackers and well-behaved clients connect through it.
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
    """Attacks a running server or proxy. The rows have no figures of its memory and its log."""
    with run_steady_clients(address, calls_per_second=_CALLS_PER_SECOND) as clients:
        for attack in attacks:
            row = Row(attack.name)
            _attack(attack, address, clients, seconds, row)
            yield row


def _attack_one_server(waiting: deque[Attack], server: ServerProcess, address: str, seconds: float) -> Iterator[Row]:
    """Runs waiting attacks until one damages the server. `address` is that of the server or of its proxy."""
    pid = server.process.pid
    kinds = dict.fromkeys(KINDS, address) | {"http": find_http(server)}
    with run_steady_clients(kinds, calls_per_second=_CALLS_PER_SECOND) as clients:
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


def _attack(attack: Attack, address: str, clients: SteadyClients, seconds: float, row: Row) -> None:
    """Runs one attack and fills the row with the measurements of the clients."""
    with _run_attacker(attack, address, row):
        row.began = time.monotonic()
        time.sleep(max(seconds, attack.least_seconds))
        row.ended = time.monotonic()
    recovers = _await_recovery(clients, row.ended)
    figures = clients.get_figures()
    row.recovery_seconds = round(find_recovery(figures, row.ended), 2) if recovers else float("inf")
    seen = {kind: one.during(row.began, row.ended) for kind, one in figures.items()}
    both = Figures((*seen["raw"].calls, *seen["sdk"].calls))
    row.calls = len(both.calls)
    if both.calls:
        row.p50_ms, row.p99_ms = (round(both.find_quantile(share) * 1000, 2) for share in (0.5, 0.99))
    if seen["health"].calls:
        row.health_p99_ms = round(seen["health"].find_quantile(0.99) * 1000, 2)
    if "http" in seen and seen["http"].calls:
        row.http_p99_ms = round(seen["http"].find_quantile(0.99) * 1000, 2)
    row.rejected, row.rejected_sdk = (
        sum(name.startswith(_REJECTIONS) for name in seen[kind].failures) for kind in ("raw", "sdk")
    )
    row.lost = Counter(name for one in seen.values() for name in one.failures if not name.startswith(_REJECTIONS))


@contextmanager
def _run_attacker(attack: Attack, address: str, row: Row) -> Iterator[None]:
    """Runs an attack in a separate process until the end of the block."""
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


def _await_recovery(clients: SteadyClients, end: float) -> bool:
    """Waits until each client has made several good calls in a row. Returns whether that happened in time."""
    time.sleep(_AFTER_SECONDS)
    while time.monotonic() < end + _RECOVERY_SECONDS:
        last = [seen.since(end).calls[-_CALM_CALLS:] for seen in clients.get_figures().values()]
        if all(len(calls) == _CALM_CALLS and not any(map(_is_bad, calls)) for calls in last):
            return True
        time.sleep(SLOW_SECONDS)
    return False


def find_recovery(figures: dict[str, Figures], end: float) -> float:
    """Returns the time from `end` to the end of the last slow or failed call."""
    calls = [call for seen in figures.values() for call in seen.calls]
    return max([call.began + call.seconds - end for call in calls if _is_bad(call)] + [0.0])


def _is_bad(call: SteadyCall) -> bool:
    return bool(call.failure) or call.seconds > SLOW_SECONDS


def count_errors(records: Iterable[Record]) -> int:
    """Counts the lines at ERROR or above, including lines of gRPC's core."""
    return sum(
        record.get("level") in {"ERROR", "CRITICAL"} or _CORE_ERROR.match(str(record["message"])) is not None
        for record in records
    )


def main() -> None:
    attack, address = ATTACKS[sys.argv[1]], sys.argv[2]
    ends = Counter[str]()
    if attack.has_shared_address:
        attacks.attacker_host = None

    def go_on() -> None:
        while True:
            try:
                attack.attack(address)
                end = "closed"
            except Exception as error:  # noqa: BLE001 - every error is reported
                end = type(error).__name__ if isinstance(error, OSError) else repr(error)[:200]
            ends[end] += 1
            time.sleep(0.05)  # otherwise an attacker that is rejected at once would occupy the machine

    for _ in range(attack.connections):
        Thread(target=go_on, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    print(json.dumps(ends), flush=True)
    os._exit(0)  # without waiting for the threads


if __name__ == "__main__":
    main()
