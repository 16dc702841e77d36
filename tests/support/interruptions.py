"""Restarts and kills servers under load, or lets one reject every call, and records the effect on callers."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import numpy as np

from certificates import issue_certificates
from in_process import run_runner
from meters import measure_lateness
from plain_requests import INFER, INFERRED
from server_processes import ServerProcess, run_server
from steady_clients import SteadyCall, run_steady_clients
from tensor_reshape.client import AsyncClient, Client
from tensor_reshape.client.transfers import Way
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.methods import SERVICE

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
_LEAST_INTERRUPTIONS = 2  # one of each server
_STOCK_CALLERS = 4
_STOCK_SECONDS = 30.0
_SOON = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 300))  # the SDK's settings
# A certificate cannot contain a target of several addresses.
_ONE_NAME = (("grpc.ssl_target_name_override", "localhost"),)
_ROUND_ROBIN: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
_HEALTH: dict[str, Any] = {**_ROUND_ROBIN, "healthCheckConfig": {"serviceName": SERVICE}}
# The settings of most clients.
_RETRIES: dict[str, Any] = {
    **_ROUND_ROBIN,
    "methodConfig": [
        {
            "name": [{"service": SERVICE}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
}
STOCK_CONFIGS = {"stock": _ROUND_ROBIN, "stock, watches health": _HEALTH, "stock, retries": _RETRIES}
"""Options of grpcio channels without the SDK: only round_robin, or additional settings."""

CALM_SECONDS = 2.0
"""Seconds before the server is busy, and seconds for which the clients continue afterwards."""

_PROCESSES = 2
_RECOVERY_SECONDS = 1.0


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
        _run_pair(flags) as pair,
        keep_calling(pair.target, figures, rest_seconds=rest_seconds, **settings),
    ):
        pair.rest_seconds = every_seconds
        _replace_all(pair, endings, end, figures)
    return figures


def run_stock_callers(seconds: float, settings: Mapping[str, Any], *flags: str) -> Figures:
    """Like `run_replicas` with SIGTERM, but with callers that do not use the SDK."""
    figures, end = Figures(has_replica=True), time.monotonic() + seconds
    with note_lateness(figures), _run_pair(flags) as pair, _keep_stock_callers(pair.target, settings, figures):
        _replace_all(pair, (signal.SIGTERM,), end, figures)
    return figures


@contextmanager
def serve_tls() -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yields the flags of servers with a certificate, and the settings of clients that trust it."""
    with TemporaryDirectory() as directory:
        files = issue_certificates(Path(directory))
        yield files.flags, {"credentials": files.trust, "options": _ONE_NAME}


def _replace_all(pair: Pair, endings: Sequence[signal.Signals], end: float, figures: Figures) -> None:
    while time.monotonic() < end or figures.interruptions < _LEAST_INTERRUPTIONS:
        count = figures.interruptions
        pair.replace(count % 2, endings[count % len(endings)], figures)


@contextmanager
def _run_pair(flags: Sequence[str]) -> Iterator[Pair]:
    with ExitStack() as stack:
        pair = Pair(flags, stack)
        pair.servers += [stack.enter_context(run_server(*flags, listen=(f"{HOST}:0",))) for _ in range(2)]
        yield pair


@contextmanager
def _keep_stock_callers(target: str, settings: Mapping[str, Any], figures: Figures) -> Iterator[None]:
    finished = threading.Event()
    with ExitStack() as stack:
        callers = [
            partial(_call, channel, kind, figures, finished)
            for kind, config in STOCK_CONFIGS.items()
            for channel in [stack.enter_context(_open_channel(target, config, **settings))]
            for _ in range(_STOCK_CALLERS)
        ]
        with keep_running(callers, finished):
            yield


def _open_channel(
    target: str,
    config: Mapping[str, Any],
    credentials: grpc.ChannelCredentials | None = None,
    options: Sequence[tuple[str, Any]] = (),
) -> grpc.Channel:
    all_options = [("grpc.service_config", json.dumps(config)), *_SOON, *options]
    if credentials is None:
        return grpc.insecure_channel(target, all_options)
    return grpc.secure_channel(target, credentials, all_options)


def _call(channel: grpc.Channel, kind: str, figures: Figures, finished: threading.Event) -> None:
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/InferShape")
    while not finished.wait(REST_SECONDS):
        with figures.measure(kind):
            assert call(INFER, timeout=_STOCK_SECONDS, wait_for_ready=True) == INFERRED


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
