"""A worker says that it serves exactly as long as calls are taken up, whoever makes them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from queue import Empty, SimpleQueue

import grpc
import pytest

from tensor_reshape.server.process.heartbeats import BEAT_SECONDS, Heartbeat

SECONDS = 60.0


class Gate(grpc.GenericRpcHandler):
    """Counts calls as they are taken up, and holds up the thread that does so while it is closed."""

    def __init__(self) -> None:
        self.begun = 0
        self.open = threading.Event()
        self.open.set()
        self.reached = threading.Event()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        del handler_call_details
        if not self.open.is_set():
            self.reached.set()
            self.open.wait(SECONDS)
        self.begun += 1


@contextmanager
def run_beating(gate: Gate | None = None, *, address: str | None = None) -> Iterator[tuple[str, "SimpleQueue[None]"]]:
    """Runs a server that beats; yields its address and its beats."""
    gate, beats = gate or Gate(), SimpleQueue[None]()
    server = grpc.server(ThreadPoolExecutor(1), [gate])
    real = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    ended = threading.Event()
    with Heartbeat(lambda: gate.begun, address or real, lambda: beats.put(None)) as heartbeat:
        thread = threading.Thread(target=keep_beating, args=(heartbeat, ended))
        thread.start()
        try:
            yield real, beats
        finally:
            ended.set()
            thread.join(SECONDS)
    server.stop(None).wait(SECONDS)


def keep_beating(heartbeat: Heartbeat, ended: threading.Event) -> None:
    while not ended.wait(heartbeat.beat()):
        pass


def await_silence(beats: "SimpleQueue[None]") -> None:
    """Awaits that nothing is told for much longer than a beat takes."""
    for _ in range(100):
        try:
            beats.get(timeout=2 * BEAT_SECONDS)
        except Empty:
            return
    pytest.fail("it goes on beating")


def test_a_server_that_nobody_calls_beats():
    with run_beating() as (_, beats):
        for _ in range(3):
            beats.get(timeout=SECONDS)


def test_a_server_whose_thread_is_held_up_falls_silent_and_beats_again_afterwards():
    gate = Gate()
    with run_beating(gate) as (_, beats):
        beats.get(timeout=SECONDS)
        gate.open.clear()
        assert gate.reached.wait(SECONDS)
        await_silence(beats)
        gate.open.set()
        beats.get(timeout=SECONDS)


def test_any_call_is_a_beat_where_no_heartbeat_comes_through():
    with run_beating(address="127.0.0.1:1") as (address, beats), grpc.insecure_channel(address) as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/anything")
        for _ in range(3):
            with pytest.raises(grpc.RpcError):
                method(b"", timeout=SECONDS)
            beats.get(timeout=SECONDS)


def test_a_heartbeat_is_not_traced(monkeypatch: pytest.MonkeyPatch):
    original, wrapped = grpc.insecure_channel, threading.Event()

    @wraps(original)
    def instrumented(*arguments: object, **options: object) -> object:
        wrapped.set()
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(grpc, "insecure_channel", instrumented)
    with run_beating() as (_, beats):
        beats.get(timeout=SECONDS)
    assert not wrapped.is_set()
