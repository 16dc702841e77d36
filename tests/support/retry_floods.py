"""Many clients call at a steady rate while their server rejects every call, and the retries are counted."""

import threading
import time
from dataclasses import dataclass, field

from in_process import run_runner
from steady_clients import SteadyCall, run_steady_clients
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.call_info import CallInfo

CALM_SECONDS = 2.0
"""Seconds before the server is busy, and seconds for which the clients continue afterwards."""

_PROCESSES = 2
_RECOVERY_SECONDS = 1.0


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
        return self._count_attempts(self.busy_from, self.busy_until) / self._count_calls(
            self.busy_from, self.busy_until
        )

    @property
    def retries(self) -> int:
        return len(self.attempts) - len(self.calls)

    @property
    def settled_attempts_per_call(self) -> float:
        """The average number of attempts in the second half of that time."""
        half = (self.busy_from + self.busy_until) / 2
        return self._count_attempts(half, self.busy_until) / self._count_calls(half, self.busy_until)

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

    def _count_calls(self, begin: float, end: float) -> int:
        return max(1, sum(begin <= call.began < end for call in self.calls))

    def _count_attempts(self, begin: float, end: float) -> int:
        return sum(begin <= at < end for at in self.attempts)

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
