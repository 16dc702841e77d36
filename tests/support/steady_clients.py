"""Well-behaved clients that call at a steady rate and record how long each call took.

They show the effect of an attack on other clients. Each client is a process, so that an attacker in the interpreter of
the test cannot slow it down. If you run this module as a program, it is one client, with the arguments ADDRESS KIND
CALLS_PER_SECOND.
"""

import asyncio
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from threading import Condition, Thread
from typing import NamedTuple

from http_calls import INFER_PATH, QUESTION, write_json

KINDS = ("raw", "sdk", "health")
STOP_SECONDS = 60.0
CALL_SECONDS = 10.0


class SteadyCall(NamedTuple):
    began: float  # the time of `time.monotonic`, which is the same in all processes of a machine
    seconds: float  # the duration
    failure: str  # the error; empty if the call succeeded


@dataclass(frozen=True)
class Figures:
    calls: tuple[SteadyCall, ...]

    def since(self, begin: float) -> "Figures":
        return Figures(tuple(call for call in self.calls if begin <= call.began))

    def during(self, begin: float, end: float) -> "Figures":
        """Returns the calls that ran at any time between `begin` and `end`, also those that began before."""
        return Figures(tuple(call for call in self.calls if call.began < end and call.began + call.seconds > begin))

    @property
    def failures(self) -> list[str]:
        return [call.failure for call in self.calls if call.failure]

    def find_quantile(self, share: float) -> float:
        """Returns the duration in seconds that this share of the calls does not exceed."""
        ordered = sorted(call.seconds for call in self.calls)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


class SteadyClient:
    def __init__(self, address: str, kind: str, calls_per_second: float) -> None:
        self.kind = kind
        self._calls: list[SteadyCall] = []
        self._news = Condition()
        self._process = subprocess.Popen(
            [sys.executable, __file__, address, kind, str(calls_per_second)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), f"the client ended with {self._process.wait()}"
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def await_call(self, condition: Callable[[SteadyCall], bool]) -> None:
        """Waits for a call that fulfils `condition`."""
        with self._news:
            assert self._news.wait_for(lambda: any(map(condition, self._calls)), STOP_SECONDS), self._calls[-5:]

    def get_figures(self) -> Figures:
        with self._news:
            return Figures(tuple(self._calls))

    def stop(self) -> Figures:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(STOP_SECONDS)
        self._reader.join(STOP_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return Figures(tuple(self._calls))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._calls.append(SteadyCall(*json.loads(line)))
                self._news.notify_all()


class SteadyClients:
    def __init__(self, clients: list[SteadyClient]) -> None:
        self._clients = clients
        self.figures: dict[str, Figures] = {}  # the calls of each client, by its kind; empty before the block has ended

    def await_call(self, condition: Callable[[SteadyCall], bool]) -> None:
        """Waits until each client has made a call that fulfils `condition`."""
        for client in self._clients:
            client.await_call(condition)

    def get_figures(self) -> dict[str, Figures]:
        return {client.kind: client.get_figures() for client in self._clients}

    def stop(self) -> dict[str, Figures]:
        self.figures.update({client.kind: client.stop() for client in self._clients})
        self._clients = []
        return self.figures


@contextmanager
def run_steady_clients(
    address: str | Mapping[str, str], kinds: tuple[str, ...] = KINDS, *, calls_per_second: float = 20.0
) -> Iterator[SteadyClients]:
    """Runs a client of each kind until the end of the block. Each has made one call when the block begins."""
    # In parallel, because each needs seconds for its imports.
    found = dict.fromkeys(kinds, address) if isinstance(address, str) else address
    with ThreadPoolExecutor(len(found)) as threads:
        made = threads.map(lambda kind: SteadyClient(found[kind], kind, calls_per_second), found)
        clients = SteadyClients(list(made))
    try:
        yield clients
    finally:
        clients.stop()


def _call_steadily(make_call: Callable[[], object], calls_per_second: float) -> None:
    """Calls until the end of standard input, and prints each call as soon as it is over."""
    stopped = Thread(target=sys.stdin.read, daemon=True)
    stopped.start()
    make_call()
    print("ready", flush=True)
    # A slow call delays the next ones, because this measures one client and not a queue of clients.
    due = time.monotonic()
    while stopped.is_alive():
        began, failure = time.monotonic(), ""
        try:
            make_call()
        except Exception as error:  # noqa: BLE001 - every error is a result
            failure = _name(error)
        print(json.dumps([began, time.monotonic() - began, failure]), flush=True)
        due = max(due + 1 / calls_per_second, time.monotonic())
        stopped.join(max(0.0, due - time.monotonic()))


def _name(error: Exception) -> str:
    code = getattr(error, "code", None)
    status = code() if callable(code) else code
    return f"{getattr(status, 'name', type(error).__name__)}: {getattr(error, 'details', lambda: error)() or ''}"[:100]


def _build_http_call(address: str) -> Callable[[], object]:
    connection = http.client.HTTPConnection(address, timeout=CALL_SECONDS)

    def call() -> None:
        try:
            connection.request("POST", INFER_PATH, write_json(QUESTION), {"content-type": "application/json"})
            response = connection.getresponse()
            assert response.read(), response.status
        except Exception:
            connection.close()  # the next call opens it again
            raise
        assert response.status == HTTPStatus.OK, response.status

    return call


def _build_call(address: str, kind: str) -> Callable[[], object]:
    if kind == "http":
        return _build_http_call(address)
    # Imported here, because a test that only starts such processes does not need these modules.
    import grpc  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    from http2 import HEALTH_CHECK  # noqa: PLC0415
    from plain_requests import STATIC_RESHAPE, build_static_request  # noqa: PLC0415
    from tensor_reshape.client import Client  # noqa: PLC0415

    if kind in {"sdk", "mib"}:
        array = np.ones((2, 3) if kind == "sdk" else (512, 512), np.float32)
        client = Client(address, timeout=CALL_SECONDS)
        return lambda: client.static_reshape(array, [-1], special_zero=False)
    path, request = {"raw": (STATIC_RESHAPE, build_static_request()), "health": (HEALTH_CHECK, b"")}[kind]
    channel = grpc.insecure_channel(address, [("grpc.enable_retries", 0)])
    method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    return lambda: method(request, timeout=CALL_SECONDS)


async def _flood(address: str, count: int, calls_per_second: float) -> None:
    """Calls with many clients until the end of standard input, and then prints the calls."""
    from tensor_reshape.client import AsyncClient  # noqa: PLC0415

    stopped, calls = Thread(target=sys.stdin.read, daemon=True), list[SteadyCall]()

    async def call(client: AsyncClient) -> None:
        began, failure = time.monotonic(), ""
        try:
            await client.infer_shape([2, 3], [6], special_zero=False)
        except Exception as error:  # noqa: BLE001 - every error is a result
            failure = _name(error)
        calls.append(SteadyCall(began, time.monotonic() - began, failure))

    async def keep_beginning(client: AsyncClient, moment: float) -> None:
        async with asyncio.TaskGroup() as group:
            while stopped.is_alive():
                await asyncio.sleep(max(0.0, moment - time.monotonic()))
                group.create_task(call(client))
                moment += 1 / calls_per_second

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncClient(address)) for _ in range(count)]
        for client in clients:
            await client.wait_until_ready()
        stopped.start()
        print("ready", flush=True)
        begin = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(clients):
                group.create_task(keep_beginning(client, begin + number / count / calls_per_second))  # spread
    print(*map(json.dumps, calls), sep="\n")


def _main(address: str, kind: str, calls_per_second: str) -> None:
    name, *numbers = kind.split("-")
    if name == "flood":
        asyncio.run(_flood(address, int(numbers[0]), float(calls_per_second)))
    else:
        _call_steadily(_build_call(address, kind), float(calls_per_second))


if __name__ == "__main__":
    _main(*sys.argv[1:])
