"""Many connections of random HTTP/2 frames to a server, beside polite clients who must not notice.

What a connection sends follows from the seed and its number.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from random import Random
from typing import Any

from attack_runs import count_errors, stop
from attackers.random_frames import send_random_frames
from polite_clients import Figures, run_polite_clients
from server_processes import run_server
from tensor_reshape.server.calls.statuses import INTERNAL_ERROR
from verification.tasks import Progress, run_all

_BATCH = 500
_PROCESSES, _THREADS = 2, 32
_UNREACHABLE = "no connection"


@dataclass
class Frames:
    """What became of the connections.

    Attributes:
        serving: how the server served.
        connections: how many there were.
        unreachable: how many were not accepted, or not in time.
        statuses: of the calls that were answered: the number and the text, and how many; the most frequent.
        internal: how many said that the server has a bug.
        polite_calls: how many others made meanwhile.
        failed: what those ended with that failed, and how many.
        p99_ms: of theirs.
        errors: lines of level ERROR in the server's log.
        exit_code: of the server; None: it had to be killed.
    """

    serving: str
    connections: int = 0
    unreachable: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    internal: int = 0
    polite_calls: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    p99_ms: float = 0.0
    errors: int = 0
    exit_code: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns what `Frames(**it)` takes."""
        return asdict(self)

    def describe(self) -> str:
        """Returns one line for people."""
        return (
            f"{self.connections} connections, {self.unreachable} unreachable, {self.internal} internal errors,"
            f" {sum(self.failed.values())} of {self.polite_calls} polite calls failed {self.failed or ''},"
            f" p99 {self.p99_ms:.0f} ms, {self.errors} errors in the log, exit {self.exit_code}"
        )

    def find_misses(self) -> list[str]:
        """Returns what is not as it must be."""
        counts = {
            "internal errors": self.internal,
            "failed polite calls": sum(self.failed.values()),
            "errors in the log": self.errors,
        }
        misses = [f"{name}: {count}" for name, count in counts.items() if count]
        return misses if self.exit_code == 0 else [*misses, f"exit code: {self.exit_code}"]


def run_random_frames(serving: str, connections: int, seed: str) -> Frames:
    """Sends so many connections' frames to a server of its own."""
    with run_server("--serving", serving) as server, run_polite_clients(server.address) as clients:
        statuses = _send_all(server.address, connections, seed)
        seen = Figures(tuple(call for one in clients.stop().values() for call in one.calls))
        code = stop(server)
        return Frames(
            serving,
            connections,
            unreachable=statuses.pop(_UNREACHABLE, 0),
            statuses=dict(statuses.most_common(40)),
            internal=sum(count for status, count in statuses.items() if status == f"13 {INTERNAL_ERROR}"),
            polite_calls=len(seen.calls),
            failed=dict(Counter(seen.failures).most_common(5)),
            p99_ms=round(seen.find_quantile(0.99) * 1000, 2),
            errors=count_errors(server.records),
            exit_code=code,
        )


def _send_all(address: str, connections: int, seed: str) -> Counter[str]:
    batches = [range(begin, min(begin + _BATCH, connections)) for begin in range(0, connections, _BATCH)]
    progress, statuses = Progress(connections, "connections"), Counter[str]()
    for number, batch in enumerate(run_all(partial(send_batch, address, seed), batches, _PROCESSES), 1):
        statuses += batch
        progress.show(number * _BATCH)
    return statuses


def send_batch(address: str, seed: str, numbers: range) -> Counter[str]:
    """Sends the frames of some connections, several at once, and counts the statuses."""
    statuses: Counter[str] = Counter()
    with ThreadPoolExecutor(_THREADS) as threads:
        for found in threads.map(lambda number: _send(address, Random(f"{seed}-{number}")), numbers):
            statuses += found
    return statuses


def _send(address: str, random: Random) -> Counter[str]:
    try:
        return send_random_frames(address, random)
    except OSError:
        return Counter({_UNREACHABLE: 1})
