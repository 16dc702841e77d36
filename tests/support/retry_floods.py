"""Many clients call at a steady rate while their server rejects every call, and the retries are counted.

If you run this module as a program, it is the clients. It prints a line when all are connected, and reads the start and
end of their calls. Each client begins its calls at fixed times, independent of the results of other calls. At the end,
it prints the result of each call in a line.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from in_process import ANY_PORT, hurry_stop
from tensor_reshape.client import AsyncClient, LimitError
from tensor_reshape.rules.errors import Reason, TensorReshapeError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner

CALM_SECONDS = 2.0
"""Seconds before the server is busy, and seconds for which the clients continue afterwards."""

_PROCESSES = 2
_CONNECTED = "connected\n"
_RECOVERY_SECONDS = 1.0


class Call(NamedTuple):
    """One call of the SDK: its start and end by `time.monotonic`, and its error."""

    began: float
    ended: float
    failure: str

    @property
    def is_answered(self) -> bool:
        return not self.failure


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
    """The results of a run.

    Attributes:
        calls: the calls of all clients.
        attempts: the time at which each attempt reached the server.
        busy_from: the time at which the server began to reject calls.
        busy_until: the time at which it accepted calls again.
    """

    calls: list[Call] = field(default_factory=list)
    attempts: list[float] = field(default_factory=list)
    busy_from: float = 0.0
    busy_until: float = 0.0

    @property
    def attempts_per_call(self) -> float:
        """The average number of attempts of a call while the server was busy, including calls that began before."""
        return self._count_attempts(self.busy_from, self.busy_until) / self._count_calls(
            self.busy_from, self.busy_until
        )

    @property
    def retries(self) -> int:
        """The number of retries of all calls."""
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
        return max(call.ended - call.began for call in self.calls if call.began > self.busy_until)

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
        return sum(call.is_answered and begin <= call.ended < end for call in self.calls)


def run_flood(clients: int, calls_per_second: float, busy_seconds: float) -> FloodFigures:
    """Runs a server that is busy for some seconds, and clients with the SDK's defaults.

    Args:
        clients: the number of clients, each with its own retry budget.
        calls_per_second: the rate of calls of each client.
        busy_seconds: the time for which the server rejects every call.
    """
    turnstile, figures = Turnstile(), FloodFigures()
    runner = Runner(Config(listen=(ANY_PORT,), drain_seconds=0, shutdown_grace_seconds=0), gates=[turnstile])
    runner.start()
    try:
        with _run_clients(runner.addresses[0], clients, calls_per_second) as (begin_calls, finish):
            begin = time.monotonic()
            begin_calls(begin, begin + 2 * CALM_SECONDS + busy_seconds)
            _sleep_until(begin + CALM_SECONDS)
            figures.busy_from = time.monotonic()
            turnstile.is_busy.set()
            _sleep_until(begin + CALM_SECONDS + busy_seconds)
            turnstile.is_busy.clear()
            figures.busy_until = time.monotonic()  # read again, because this thread may be late
            figures.calls = finish()
    finally:
        hurry_stop(runner)
    figures.attempts = turnstile.attempts
    return figures


@contextmanager
def _run_clients(
    address: str, clients: int, calls_per_second: float
) -> Iterator[tuple[Callable[[float, float], None], Callable[[], list[Call]]]]:
    """Runs the clients in separate processes, and waits until all are connected.

    Yields a function that starts their calls, with the start and end time, and a function that returns the calls.
    """
    shares = [clients // _PROCESSES + (number < clients % _PROCESSES) for number in range(_PROCESSES)]
    with ExitStack() as stack:
        processes = [stack.enter_context(_start_clients(address, share, calls_per_second)) for share in shares]
        for process in processes:
            stack.callback(process.kill)  # registered before the wait; killing an ended process has no effect
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == _CONNECTED

        def begin_calls(begin: float, end: float) -> None:
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(f"{begin} {end}\n")
                process.stdin.flush()

        yield (
            begin_calls,
            lambda: [
                Call(*json.loads(line)) for process in processes for line in process.communicate()[0].splitlines()
            ],
        )


def _start_clients(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


async def _call_all(address: str, count: int, calls_per_second: float) -> list[Call]:
    calls: list[Call] = []

    async def call(client: AsyncClient) -> None:
        began, failure = time.monotonic(), ""
        try:
            await client.infer_shape([2, 3], [6], special_zero=False)
        except TensorReshapeError as error:
            failure = str(error)
        calls.append(Call(began, time.monotonic(), failure))

    async def keep_beginning(client: AsyncClient, moment: float, end: float) -> None:
        async with asyncio.TaskGroup() as group:
            while moment < end:
                await asyncio.sleep(max(0.0, moment - time.monotonic()))
                group.create_task(call(client))
                moment += 1 / calls_per_second

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncClient(address)) for _ in range(count)]
        for client in clients:
            await client.wait_until_ready()
        print(_CONNECTED, end="", flush=True)
        begin, end = map(float, sys.stdin.readline().split())
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(clients):
                group.create_task(keep_beginning(client, begin + number / count / calls_per_second, end))  # spread
    return calls


def _main() -> None:
    address, count, calls_per_second = sys.argv[1:]
    for call in asyncio.run(_call_all(address, int(count), float(calls_per_second))):
        print(json.dumps(call))


if __name__ == "__main__":
    _main()
