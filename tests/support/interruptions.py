"""Restarts and kills servers under load, and records the effect on callers with the SDK.

This module imports no package of the tests, because `scripts/verify ray` does not install them.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meters import measure_lateness
from server_processes import ServerProcess, run_server
from tensor_reshape.client import AsyncClient, Client
from tensor_reshape.client.transfers import Way
from tensor_reshape.wire.arrays import Array

RESTART_SECONDS, _KILL_SECONDS, KILL_CALLS = 2.0, 1.5, 10_000
# The port is free while no server runs. No other program takes ports of this address.
HOST = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
_SMALL, _LARGE = np.arange(6, dtype=np.float32), np.arange(1 << 18, dtype=np.float32)
_CHUNK_BYTES = 1 << 16
_TASKS = 4
# A server that starts when its standard input ends.
_PREPARED = """
import sys

import tensor_reshape.server.runner
from tensor_reshape.server.__main__ import serve

print("prepared", flush=True)
sys.stdin.read()
serve(sys.argv[1:])
"""
_LEAST_RESTARTS = 2
_LEAST_UP_SECONDS = 0.5  # also on a slow machine
REST_SECONDS = 0.002
_LIMIT_SECONDS, _LOOK_SECONDS = 60.0, 0.02
_MAX_DELAY_SECONDS = 1.0  # after a server has started again, or while another one runs


@dataclass
class Figures:
    """The results of a run. Its methods may be called from any thread."""

    interruptions: int = 0  # number of restarts of the server, or of killed workers
    calls: Counter[str] = field(default_factory=Counter)  # number of successful calls, by the kind of caller
    # duration of the slowest of them, by the kind of caller
    slowest_seconds: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)  # the kind and the error of each failed call
    stop_seconds: float = 0.0  # longest time from the signal to the end of a server
    start_seconds: float = 0.0  # longest time from there until the next server listens
    lateness: float = 1.0  # factor by which the machine was slower than usual
    # whether another server runs at the same time, so that no call must wait for the missing one
    has_replica: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def away_seconds(self) -> float:
        """The longest time without a server."""
        return 0.0 if self.has_replica else self.stop_seconds + self.start_seconds

    def note_call(self, kind: str, seconds: float) -> None:
        with self._lock:
            self.calls[kind] += 1
            self.slowest_seconds[kind] = max(seconds, self.slowest_seconds.get(kind, 0.0))

    @contextmanager
    def measure(self, kind: str) -> Iterator[None]:
        """Counts the call of the block, which fails if the block raises an exception."""
        begin = time.monotonic()
        try:
            yield
        except Exception as error:  # noqa: BLE001 - every error is a failed call
            with self._lock:
                self.failures.append(f"{kind}: {type(error).__name__}: {error}")
        else:
            self.note_call(kind, time.monotonic() - begin)

    def await_calls(self, count: int) -> None:
        """Waits until `count` more calls have succeeded."""
        wanted, end = self.calls.total() + count, time.monotonic() + _LIMIT_SECONDS
        while self.calls.total() < wanted:
            assert time.monotonic() < end, self
            time.sleep(_LOOK_SECONDS)

    def note_restart(self, stop_seconds: float, start_seconds: float) -> None:
        self.interruptions += 1
        self.stop_seconds = max(stop_seconds, self.stop_seconds)
        self.start_seconds = max(start_seconds, self.start_seconds)

    def find_problems(self) -> list[str]:
        """Returns the problems: failed calls, and calls that found a running server too late."""
        away = self.away_seconds
        limit = away + _MAX_DELAY_SECONDS * self.lateness
        slow = [
            f"{kind}: a call took {seconds:.2f} s, and there never was no server for more than {away:.2f} s"
            for kind, seconds in self.slowest_seconds.items()
            if seconds > limit
        ]
        return [*self.failures, *slow]


def run_restarts(
    seconds: float, *flags: str, every_seconds: float = RESTART_SECONDS, rest_seconds: float = REST_SECONDS
) -> Figures:
    """Restarts a single server with `flags` every few seconds under load: SIGTERM, its end, then a new server.

    A caller pauses for `rest_seconds` between two calls.
    """
    figures, end = Figures(), time.monotonic() + seconds
    with note_lateness(figures), ExitStack() as stack:
        server = stack.enter_context(run_server(*flags, listen=(f"{HOST}:0",)))
        address = server.address
        with keep_calling(address, figures, rest_seconds=rest_seconds):
            begin = time.monotonic()
            while time.monotonic() < end or figures.interruptions < _LEAST_RESTARTS:
                following = stack.enter_context(prepare_server(address, *flags))
                time.sleep(max(begin + every_seconds - time.monotonic(), _LEAST_UP_SECONDS))
                begin = time.monotonic()
                server.stop()
                stopped, server = time.monotonic(), following
                let_listen(server)
                figures.note_restart(stopped - begin, time.monotonic() - stopped)
    return figures


@contextmanager
def note_lateness(figures: Figures) -> Iterator[None]:
    began = time.monotonic()
    with measure_lateness() as meter:
        yield
    figures.lateness = meter.find_lateness(began, time.monotonic())


def run_kills(calls: int, *flags: str) -> Figures:
    """Kills one of two workers with SIGKILL every few seconds, in turn, until enough calls have succeeded."""
    figures = Figures()
    with run_server("--workers", "2", *flags) as server, keep_calling(server.address, figures):
        while figures.calls.total() < calls:
            time.sleep(_KILL_SECONDS)
            server.await_records(figures.interruptions + 2, "worker serves")  # otherwise both could be dead
            os.kill(server.find_pid(figures.interruptions % 2 + 1), signal.SIGKILL)
            figures.interruptions += 1
    return figures


@contextmanager
def prepare_server(address: str, *flags: str) -> Iterator[ServerProcess]:
    """Starts a server process that has already imported everything, so that slow imports are not measured."""
    command = [sys.executable, "-c", _PREPARED, "--listen", address, "--log-format", "json", *flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "prepared\n"
        server = ServerProcess(process)
        try:
            yield server
        finally:
            if process.poll() is None:
                process.kill()
            server.wait()


def let_listen(server: ServerProcess) -> None:
    """Lets a prepared server start, and waits until it listens."""
    assert server.process.stdin is not None
    server.process.stdin.close()
    server.read_addresses(1)


@contextmanager
def keep_calling(
    target: str, figures: Figures, *, rest_seconds: float = REST_SECONDS, **settings: Any
) -> Iterator[None]:
    """Calls in threads, tasks and streams until the end of the block, with the SDK's defaults."""
    load = _Load(target, figures, rest_seconds, settings)
    with keep_running((load.call, load.call, load.call_streams, load.call_tasks), load.finished):
        yield


@contextmanager
def keep_running(callers: Iterable[Callable[[], None]], finished: threading.Event) -> Iterator[None]:
    """Runs each function in a thread until the end of the block, which sets `finished`."""
    threads = [threading.Thread(target=caller) for caller in callers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        finished.set()
        for thread in threads:
            thread.join()


@dataclass(frozen=True)
class _Load:
    """The callers, each in a thread until `finished` is set. The fields are those of `keep_calling`."""

    target: str
    figures: Figures
    rest_seconds: float
    settings: Mapping[str, Any]
    finished: threading.Event = field(default_factory=threading.Event)

    def call(self) -> None:
        with Client(self.target, **self.settings) as client:
            while not self.finished.wait(self.rest_seconds):
                with self.figures.measure("unary"):
                    _judge(client.static_reshape(_SMALL, [3, 2], special_zero=False))

    def call_streams(self) -> None:
        """The same with streams."""
        with Client(self.target, chunk_bytes=_CHUNK_BYTES, **self.settings) as client:
            while not self.finished.wait(self.rest_seconds):
                with self.figures.measure("stream"):
                    _judge(client.reshape(_LARGE, [-1, 2], special_zero=False, transfer="stream"))

    def call_tasks(self) -> None:
        """Calls in several tasks at once, one of them with streams."""
        asyncio.run(self._call_all())

    async def _call_all(self) -> None:
        async with AsyncClient(self.target, chunk_bytes=_CHUNK_BYTES, **self.settings) as client:
            kinds = ["asyncio"] * _TASKS + ["asyncio stream"]
            await asyncio.gather(*(self._keep_awaiting(client, kind) for kind in kinds))

    async def _keep_awaiting(self, client: AsyncClient, kind: str) -> None:
        way: Way = "stream" if kind == "asyncio stream" else "inline"
        array = _LARGE if way == "stream" else _SMALL
        while not self.finished.is_set():
            await asyncio.sleep(self.rest_seconds)
            with self.figures.measure(kind):
                _judge(await client.reshape(array, [-1, 2], special_zero=False, transfer=way))


def _judge(output: Array) -> None:
    expected = _SMALL if output.size == _SMALL.size else _LARGE
    assert np.array_equal(output, expected.reshape(-1, 2))
