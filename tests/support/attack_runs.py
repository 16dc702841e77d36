"""One attack on one server, and what polite clients, the server's memory and its log had to say about it."""

import os
import re
import signal
import subprocess
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from attack_processes import run_attacker
from attackers.attacks import Attack, Interval
from meters import Sampler, list_children, read_total_memory
from polite_clients import Figures, PoliteCall, PoliteClients, run_polite_clients
from server_processes import Record, ServerProcess, run_server

BUDGET_MIB = 1024
"""What a server may take by default, besides what it takes by itself."""

MAX_OVER_BUDGET = 1.15
SLOW_SECONDS = 0.1
"""A call that takes longer is a slow one; the service has recovered when none of them is."""

_CALLS_PER_SECOND = 50.0
_AFTER_SECONDS, _RECOVERY_SECONDS = 1.0, 12.0  # how long is looked after the end: at least, and at the most
_CALM_CALLS = 5
_STOP_SECONDS = 20.0  # of a server that ends by itself, however busy the machine is
_SAMPLE_SECONDS = 0.05
_MAX_KEPT_BYTES = 64 << 20  # of memory after an attack; where it is more, the next one has a server of its own
_MIB = 1 << 20
# What gRPC's core writes by itself at ERROR and FATAL: the level, the month and day, the time.
_CORE_ERROR = re.compile(r"[EF][0-9]{4} [0-9:.]+ ")
_REFUSALS = ("RESOURCE_EXHAUSTED", "LimitError")


@dataclass
class Row:
    """What an attack did to others. Times are in milliseconds where they end in `_ms`.

    Attributes:
        attack: its name.
        serving: how the server served.
        workers: how many processes did.
        calls: how many the polite clients had under way during the attack, health checks besides.
        refused: how many of the raw ones were refused.
        refused_sdk: how many of the SDK's were.
        lost: what other calls failed with, health checks too, and how many.
        base_mib: the server's memory before.
        peak_mib: the most there was.
        recovery_seconds: from the attack's end to that of the last slow or failed call; None: it did not end.
        errors: lines of level ERROR in the log.
        lines: lines in the log.
        exit_code: of the server; 0 also while it goes on; None: it had to be killed.
        began: when the attack began, by `time.monotonic`.
        ended: when it ended.
        attacker: what the attacker has to say.
        failure: why there is nothing more to say; empty where there is.
    """

    attack: str
    serving: str
    workers: int
    calls: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    worst_ms: float = 0.0
    health_p99_ms: float = 0.0
    refused: int = 0
    refused_sdk: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    base_mib: int = 0
    peak_mib: int = 0
    recovery_seconds: float | None = 0.0
    errors: int = 0
    lines: int = 0
    exit_code: int | None = None
    began: float = 0.0
    ended: float = 0.0
    attacker: str = ""
    failure: str = ""

    @property
    def key(self) -> str:
        """Names the run: the same attack on the same kind of server has the same."""
        return f"{self.attack} {self.serving} {self.workers}"

    @property
    def lost_calls(self) -> int:
        """How many were lost."""
        return sum(self.lost.values())

    def to_json(self) -> dict[str, Any]:
        """Returns what `Row(**it)` takes."""
        return asdict(self)

    def describe(self) -> str:
        """Returns one line for people."""
        if self.failure:
            return f"FAILED: {self.failure}"
        recovery = "never" if self.recovery_seconds is None else f"{self.recovery_seconds:.1f} s"
        return (
            f"p50 {self.p50_ms:.1f} p99 {self.p99_ms:.0f} worst {self.worst_ms:.0f} health p99 {self.health_p99_ms:.0f}"
            f" ms, refused {self.refused} + {self.refused_sdk}, lost {self.lost_calls} of {self.calls}, memory"
            f" {self.base_mib} -> {self.peak_mib} MiB, recovery {recovery}, {self.errors} errors, exit {self.exit_code}"
        )


def run_attacks(attacks: Iterable[Attack], serving: str, workers: int, seconds: float) -> Iterator[Row]:
    """Attacks a server of its own beside polite clients, for so long each; one that is not whole after it is replaced.

    Whatever goes wrong is in the row.
    """
    waiting = deque(attacks)
    while waiting:
        yield from _attack_one_server(waiting, serving, workers, seconds)


def _attack_one_server(waiting: deque[Attack], serving: str, workers: int, seconds: float) -> Iterator[Row]:
    """Takes attacks from those that wait, as long as the server is whole."""
    attack = waiting.popleft()
    row = Row(attack.name, serving, workers)
    try:
        with run_server("--serving", serving, "--workers", str(workers)) as server, _run_clients(server) as clients:
            base = read_total_memory(server.process.pid)
            while _is_whole_after(attack, Scene(server, clients, base), seconds, row) and waiting:
                row.exit_code = 0  # it goes on
                yield row
                attack = waiting.popleft()
                row = Row(attack.name, serving, workers)
            row.exit_code = stop(server)
    except (AssertionError, OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        row.failure = f"{type(error).__name__}: {error}"[:300]
    yield row


def _run_clients(server: ServerProcess) -> AbstractContextManager[PoliteClients]:
    return run_polite_clients(server.address, calls_per_second=_CALLS_PER_SECOND)


class Scene(NamedTuple):
    """Where an attack takes place; `base` is the memory that the server took in the beginning."""

    server: ServerProcess
    clients: PoliteClients
    base: int


def _is_whole_after(attack: Attack, scene: Scene, seconds: float, row: Row) -> bool:
    """Attacks, fills the row, and returns whether the server is fit for another attack."""
    pid, records = scene.server.process.pid, len(scene.server.records)
    with Sampler(lambda: read_total_memory(pid), _SAMPLE_SECONDS) as memory:
        with run_attacker(attack, scene.server.address) as attacker:
            begin = time.monotonic()
            time.sleep(max(seconds, attack.least_seconds))
            end = time.monotonic()
        recovers = await_recovery(scene.clients, end)
    figures = scene.clients.look()
    row.attacker, row.began, row.ended = attacker.report, begin, end
    row.base_mib, row.peak_mib = scene.base // _MIB, max(memory.samples) // _MIB
    row.recovery_seconds = round(find_recovery(figures, end), 2) if recovers else None
    row.lines, row.errors = len(scene.server.records) - records, count_errors(scene.server.records[records:])
    _note(row, {kind: seen.during(begin, end) for kind, seen in figures.items()})
    kept = read_total_memory(pid) - scene.base
    return recovers and not row.errors and not row.lost and kept < _MAX_KEPT_BYTES


def await_recovery(clients: PoliteClients, end: float) -> bool:
    """Awaits that each client has been answered well some times in a row, and returns whether they were in time."""
    time.sleep(_AFTER_SECONDS)
    while time.monotonic() < end + _RECOVERY_SECONDS:
        last = [seen.between(end, float("inf")).calls[-_CALM_CALLS:] for seen in clients.look().values()]
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


def _note(row: Row, figures: dict[str, Figures]) -> None:
    both = Figures((*figures["raw"].calls, *figures["sdk"].calls))
    row.calls = len(both.calls)
    if both.calls:
        row.p50_ms, row.p99_ms, row.worst_ms = (round(both.find_quantile(share) * 1000, 2) for share in (0.5, 0.99, 1))
    if figures["health"].calls:
        row.health_p99_ms = round(figures["health"].find_quantile(0.99) * 1000, 2)
    row.refused, row.refused_sdk = (_count_refusals(figures[kind]) for kind in ("raw", "sdk"))
    lost = [name for seen in figures.values() for name in seen.failures if not name.startswith(_REFUSALS)]
    row.lost = dict(Counter(lost).most_common(5))


def _count_refusals(seen: Figures) -> int:
    return sum(name.startswith(_REFUSALS) for name in seen.failures)


def stop(server: ServerProcess) -> int | None:
    """Stops it, twice where once is not enough; None where it has to be killed, and its workers with it."""
    workers = list_children(server.process.pid)
    for _ in range(2):  # the second signal cuts a drain short
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGTERM)
        try:
            return server.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    server.process.kill()
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    return None


def count_errors(records: Iterable[Record]) -> int:
    """Counts the lines of level ERROR or above, also those that gRPC's core has written by itself."""
    return sum(
        record.get("level") in {"ERROR", "CRITICAL"} or _CORE_ERROR.match(str(record["message"])) is not None
        for record in records
    )


def find_misses(row: Row, bounds: Interval, slack: float = 1.0) -> list[str]:
    """Returns what is not as it must be; times may be so many times as long as the bounds say."""
    if row.failure:
        return [row.failure]
    recovery = float("inf") if row.recovery_seconds is None else row.recovery_seconds
    highest = {
        "p50 ms": (row.p50_ms, bounds.p50_ms * slack),
        "p99 ms": (row.p99_ms, bounds.p99_ms * slack),
        "health p99 ms": (row.health_p99_ms, bounds.health_p99_ms * slack),
        "seconds to recover": (recovery, bounds.recovery_seconds * slack),
        "refused": (row.refused, bounds.refusals),
        "refused with the SDK": (row.refused_sdk, 0),
        "lost": (row.lost_calls, 0),
        "MiB of memory": (row.peak_mib, row.base_mib + BUDGET_MIB * MAX_OVER_BUDGET),
        "errors in the log": (row.errors, 0),
    }
    misses = [f"{name}: {have:g}, not {most:g}" for name, (have, most) in highest.items() if have > most]
    return misses if row.exit_code == 0 else [*misses, f"exit code: {row.exit_code}"]
