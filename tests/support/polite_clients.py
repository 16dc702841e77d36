"""Polite clients in processes of their own, who call at a steady pace and write down how long each call took.

What an attack does to others is what they see. A client is a process: an attacker must not slow it down by holding the
interpreter of the test. Run as a program, this module is one of them, with the arguments ADDRESS KIND CALLS_PER_SECOND.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Thread
from typing import NamedTuple

STOP_SECONDS = 60.0
CALL_SECONDS = 10.0


class PoliteCall(NamedTuple):
    """One call.

    Attributes:
        began: by `time.monotonic`, which is one clock for all processes of a machine.
        seconds: how long it took.
        failure: what it ended with; empty where it is an answer.
    """

    began: float
    seconds: float
    failure: str


@dataclass(frozen=True)
class Figures:
    """What one client saw."""

    calls: tuple[PoliteCall, ...]

    def since(self, begin: float) -> "Figures":
        """Returns what it saw of the calls that began after a time."""
        return Figures(tuple(call for call in self.calls if begin <= call.began))

    def during(self, begin: float, end: float) -> "Figures":
        """Returns what it saw of the calls that were under way in a time, also such as began before."""
        return Figures(tuple(call for call in self.calls if call.began < end and call.began + call.seconds > begin))

    @property
    def failures(self) -> list[str]:
        return [call.failure for call in self.calls if call.failure]

    def find_quantile(self, share: float) -> float:
        """Returns the seconds within which this share of the calls was over."""
        ordered = sorted(call.seconds for call in self.calls)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


class PoliteClient:
    def __init__(self, address: str, kind: str, calls_per_second: float) -> None:
        self.kind = kind
        self._calls: list[PoliteCall] = []
        self._news = Condition()
        self._process = subprocess.Popen(
            [sys.executable, __file__, address, kind, str(calls_per_second)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), f"the polite client ended with {self._process.wait()}"
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def await_call(self, condition: Callable[[PoliteCall], bool]) -> None:
        """Awaits a call for which `condition` holds."""
        with self._news:
            assert self._news.wait_for(lambda: any(map(condition, self._calls)), STOP_SECONDS), self._calls[-5:]

    def look(self) -> Figures:
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
                self._calls.append(PoliteCall(*json.loads(line)))
                self._news.notify_all()


class PoliteClients:
    """Several clients beside an attack.

    Attributes:
        figures: what each saw, by its kind; there when the block has ended.
    """

    def __init__(self, clients: list[PoliteClient]) -> None:
        self._clients = clients
        self.figures: dict[str, Figures] = {}

    def await_call(self, condition: Callable[[PoliteCall], bool]) -> None:
        """Awaits that each client has made a call for which `condition` holds."""
        for client in self._clients:
            client.await_call(condition)

    def look(self) -> dict[str, Figures]:
        return {client.kind: client.look() for client in self._clients}

    def stop(self) -> dict[str, Figures]:
        self.figures.update({client.kind: client.stop() for client in self._clients})
        self._clients = []
        return self.figures


@contextmanager
def run_polite_clients(
    address: str, kinds: tuple[str, ...] = ("raw", "sdk", "health"), *, calls_per_second: float = 20.0
) -> Iterator[PoliteClients]:
    """Runs a client of each kind until the end of the block; all of them have been answered once when it begins.

    Args:
        address: of the server.
        kinds: "raw" (a bare channel without retries), "sdk", "health" (bare), "mib" (the SDK, 1 MiB).
        calls_per_second: the pace of each.
    """
    # At once: each is slow to import what it needs.
    with ThreadPoolExecutor(len(kinds)) as threads:
        clients = PoliteClients(list(threads.map(lambda kind: PoliteClient(address, kind, calls_per_second), kinds)))
    try:
        yield clients
    finally:
        clients.stop()


def _call_steadily(make_call: Callable[[], object], calls_per_second: float) -> None:
    """Calls until standard input ends; each call is written as soon as it is over."""
    stopped = Thread(target=sys.stdin.read, daemon=True)
    stopped.start()
    make_call()
    print("ready", flush=True)
    # A call that takes long delays the next ones: what is measured is one caller, not a queue of callers.
    due = time.monotonic()
    while stopped.is_alive():
        began, failure = time.monotonic(), ""
        try:
            make_call()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the client saw
            failure = _name(error)
        print(json.dumps([began, time.monotonic() - began, failure]), flush=True)
        due = max(due + 1 / calls_per_second, time.monotonic())
        stopped.join(max(0.0, due - time.monotonic()))


def _name(error: Exception) -> str:
    code = getattr(error, "code", None)
    status = code() if callable(code) else code
    return f"{getattr(status, 'name', type(error).__name__)}: {getattr(error, 'details', lambda: error)() or ''}"[:100]


def _build_call(address: str, kind: str) -> Callable[[], object]:
    # Here, so that tests which only start processes do not import a channel.
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


if __name__ == "__main__":
    _call_steadily(_build_call(sys.argv[1], sys.argv[2]), float(sys.argv[3]))
