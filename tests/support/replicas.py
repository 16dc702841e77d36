"""Two servers with one target that are restarted or killed under load, and one that rejects every call for a while."""

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from certificates import issue_certificates
from in_process import run_runner
from interruptions import (
    HOST,
    REST_SECONDS,
    RESTART_SECONDS,
    Figures,
    keep_calling,
    let_listen,
    note_lateness,
    prepare_server,
)
from server_processes import ServerProcess, run_server
from steady_clients import SteadyCall, run_steady_clients
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.call_info import CallInfo

_LEAST_INTERRUPTIONS = 2  # one of each server
# A certificate cannot contain a target of several addresses.
_ONE_NAME = (("grpc.ssl_target_name_override", "localhost"),)
CALM_SECONDS = 2.0
"""Seconds before the server is busy, and seconds for which the clients continue afterwards."""

_PROCESSES = 2
_RECOVERY_SECONDS = 1.0


@dataclass
class Pair:
    """The servers, each on a fixed port."""

    flags: Sequence[str]  # the flags of each server
    stack: ExitStack  # stops them at the end
    servers: list[ServerProcess] = field(default_factory=list)  # the running servers
    rest_seconds: float = RESTART_SECONDS  # time for which both run before one is stopped

    @property
    def target(self) -> str:
        return "ipv4:" + ",".join(server.address for server in self.servers)

    def replace(self, number: int, ending: signal.Signals, figures: Figures) -> None:
        """After a while, ends one server with a signal, and starts another one on its port."""
        following = self.stack.enter_context(prepare_server(self.servers[number].address, *self.flags))
        time.sleep(self.rest_seconds)
        begin = time.monotonic()
        code = self.servers[number].stop(ending)
        stopped = time.monotonic()
        assert code == (0 if ending is signal.SIGTERM else -ending), code
        let_listen(following)
        self.servers[number] = following
        figures.note_restart(stopped - begin, time.monotonic() - stopped)


def run_replicas(
    endings: Sequence[signal.Signals],  # the signals, in turn: SIGTERM for a graceful restart, SIGKILL for a loss
    seconds: float,  # the duration; each server is ended at least once
    *flags: str,  # the flags of the servers
    every_seconds: float = RESTART_SECONDS,  # time for which both run in between
    rest_seconds: float = REST_SECONDS,  # see `keep_calling`
    **settings: Any,  # settings of the clients in addition to the SDK's defaults
) -> Figures:
    """Ends two servers in turn under load, and replaces each of them."""
    figures, end = Figures(has_replica=True), time.monotonic() + seconds
    with (
        note_lateness(figures),
        run_pair(flags) as pair,
        keep_calling(pair.target, figures, rest_seconds=rest_seconds, **settings),
    ):
        pair.rest_seconds = every_seconds
        replace_all(pair, endings, end, figures)
    return figures


@contextmanager
def serve_tls() -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yields the flags of servers with a certificate, and the settings of clients that trust it."""
    with TemporaryDirectory() as directory:
        files = issue_certificates(Path(directory))
        yield files.flags, {"credentials": files.trust, "options": _ONE_NAME}


def replace_all(pair: Pair, endings: Sequence[signal.Signals], end: float, figures: Figures) -> None:
    """Ends the servers in turn until a time of `time.monotonic`, and each of them at least once."""
    while time.monotonic() < end or figures.interruptions < _LEAST_INTERRUPTIONS:
        count = figures.interruptions
        pair.replace(count % 2, endings[count % len(endings)], figures)


@contextmanager
def run_pair(flags: Sequence[str]) -> Iterator[Pair]:
    """Runs both servers until the end of the block."""
    with ExitStack() as stack:
        pair = Pair(flags, stack)
        pair.servers += [stack.enter_context(run_server(*flags, listen=(f"{HOST}:0",))) for _ in range(2)]
        yield pair


class Turnstile:
    """A gate that rejects every call while the server is busy, and records all attempts."""

    def __init__(self) -> None:
        self.is_busy = threading.Event()
        self.attempts: list[float] = []

    def admit(self, info: CallInfo) -> None:
        """Counts a call, and rejects it while the server is busy."""
        del info
        self.attempts.append(time.monotonic())  # in one step: from any thread
        if self.is_busy.is_set():
            raise LimitError.of(Reason.SERVER_BUSY, "busy for a while")

    def leave(self, info: CallInfo) -> None:
        """Nothing is counted at the end."""


@dataclass
class FloodFigures:
    """The results of a run."""

    calls: list[SteadyCall] = field(default_factory=list)  # the calls of all clients
    attempts: list[float] = field(default_factory=list)  # the time at which each attempt reached the server
    busy_from: float = 0.0  # the time at which the server began to reject calls
    busy_until: float = 0.0  # the time at which it accepted calls again

    @property
    def attempts_per_call(self) -> float:
        """The average number of attempts of a call while the server was busy, including calls that began before."""
        return self._find_attempts_per_call(self.busy_from)

    @property
    def settled_attempts_per_call(self) -> float:
        """The average number of attempts in the second half of that time."""
        return self._find_attempts_per_call((self.busy_from + self.busy_until) / 2)

    @property
    def retries(self) -> int:
        return len(self.attempts) - len(self.calls)

    @property
    def lost_after(self) -> list[str]:
        """The errors of calls that began after the server accepted calls again."""
        return [call.failure for call in self.calls if call.began > self.busy_until and call.failure]

    @property
    def slowest_after_seconds(self) -> float:
        """The duration of the slowest of these calls."""
        return max(call.seconds for call in self.calls if call.began > self.busy_until)

    @property
    def recovered_share(self) -> float:
        """Successful calls in the first second after the busy time, relative to the last second before it."""
        after = self._count_answers(self.busy_until, self.busy_until + _RECOVERY_SECONDS)
        return after / max(1, self._count_answers(self.busy_from - _RECOVERY_SECONDS, self.busy_from))

    def _find_attempts_per_call(self, begin: float) -> float:
        calls = sum(begin <= call.began < self.busy_until for call in self.calls)
        return sum(begin <= at < self.busy_until for at in self.attempts) / max(1, calls)

    def _count_answers(self, begin: float, end: float) -> int:
        return sum(not call.failure and begin <= call.began + call.seconds < end for call in self.calls)


def run_flood(clients: int, calls_per_second: float, busy_seconds: float) -> FloodFigures:
    """Runs a server that is busy for some seconds, and clients with the SDK's defaults."""
    turnstile, figures = Turnstile(), FloodFigures()
    shares = [clients // _PROCESSES + (number < clients % _PROCESSES) for number in range(_PROCESSES)]
    with run_runner(gates=[turnstile]) as runner:
        kinds = {f"flood-{share}-{number}": runner.addresses[0] for number, share in enumerate(shares)}
        with run_steady_clients(kinds, calls_per_second=calls_per_second) as running:
            time.sleep(CALM_SECONDS)
            figures.busy_from = time.monotonic()
            turnstile.is_busy.set()
            time.sleep(busy_seconds)
            turnstile.is_busy.clear()
            figures.busy_until = time.monotonic()  # read again, because this thread may be late
            time.sleep(CALM_SECONDS)
    figures.calls = [call for one in running.figures.values() for call in one.calls]
    figures.attempts = turnstile.attempts
    return figures
