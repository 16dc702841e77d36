"""Streams that stall or end early return their memory, and the next call is served."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import grpc
import pytest

from in_process import run_runner
from plain_requests import SIX, STRIDED, RawStream, begin, chunk, open_stream, read_retry_seconds
from tensor_reshape.client import LimitError, Reason
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.lifecycle import TRICKLE_BYTES_PER_SECOND
from tensor_reshape.server.runner import Runner

MIB = 1 << 20
STALL_SECONDS = 0.5
PATIENT_SECONDS = 2.0  # long enough that a busy machine does not make a stream stall
NEVER_SECONDS = 60.0


class Watched:
    """Makes it possible to wait until the engine of a server is idle."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._news = threading.Condition()
        for name in ("end", "release"):  # one of these events returns the memory of a call
            setattr(engine, name, self._watch(getattr(engine, name)))

    def _watch(self, event: Callable[..., Any]) -> Callable[..., Any]:
        def notify(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - the arguments of the event
            outcome = event(*args, **options)
            with self._news:
                self._news.notify_all()
            return outcome

        return notify

    def await_idle(self) -> int:
        """Returns the bytes that are still reserved when no call runs."""
        with self._news:
            assert self._news.wait_for(lambda: self._engine.is_idle, 60)
        return self._engine.used_bytes


class Scene(NamedTuple):
    """A server, its engine, and a channel to it."""

    runner: Runner
    engine: Watched
    channel: grpc.Channel


@contextmanager
def open_scene(stall_timeout_seconds: float) -> Iterator[Scene]:
    """Runs a server with this stall timeout. At the end, all memory must be free, whatever a test has done."""
    with (
        run_runner(stall_timeout_seconds=stall_timeout_seconds) as runner,
        grpc.insecure_channel(runner.addresses[0]) as channel,
    ):
        scene = Scene(runner, Watched(runner._engine), channel)
        yield scene
        # Several attempts, because on a busy machine, the pause before a message may exceed the timeout.
        assert any(is_served(channel) for _ in range(20))
        assert scene.engine.await_idle() == 0


def is_served(channel: grpc.Channel) -> bool:
    with suppress(grpc.RpcError), open_stream(channel, begin(), chunk(0, SIX)) as stream:
        assert (stream.accept(), stream.receive(6)) == ((6,), SIX)
        stream.finish()
        return True
    return False


def check_stalled(stream: RawStream) -> None:
    error = stream.reject()
    assert (type(error), getattr(error, "reason", error)) == (LimitError, Reason.STALLED)
    assert read_retry_seconds(stream.call) is None  # a stalled call would stall again


STANDSTILLS: dict[str, list[bytes]] = {
    "before the header": [],
    "after the header": [begin()],
    "within a tensor": [begin(), chunk(0, SIX[:3])],
    "within a strided tensor": [STRIDED, chunk(0, SIX[:3])],
    "between two tensors": [begin(), chunk(0, SIX)],
}


def test_stream_without_progress_is_aborted():
    with open_scene(STALL_SECONDS) as scene, ThreadPoolExecutor() as pool:

        def stand_still(messages: list[bytes]) -> None:
            with open_stream(scene.channel, *messages) as stream:
                check_stalled(stream)

        assert len(list(pool.map(stand_still, STANDSTILLS.values()))) == len(STANDSTILLS)


def test_server_frees_the_memory_of_cancelled_streams():
    with open_scene(NEVER_SECONDS) as scene:
        for messages in STANDSTILLS.values():
            with open_stream(scene.channel, *messages) as stream:
                assert not messages or stream.accept() == (6,)
                stream.call.cancel()
                assert scene.engine.await_idle() == 0


def is_answered(stream: RawStream) -> bool:
    with suppress(grpc.RpcError):
        return bool(next(stream.call))
    return False


def test_stream_below_the_minimum_rate_is_aborted():
    pause, part, number = threading.Event(), bytes(TRICKLE_BYTES_PER_SECOND), 0
    with open_scene(PATIENT_SECONDS) as scene, open_stream(scene.channel, begin((6 * len(part),))) as slow:
        slow.accept()
        with open_scene(STALL_SECONDS) as hasty, open_stream(hasty.channel, begin((1000,))) as trickle:
            trickle.accept()
            for offset in range(0, 6 * len(part), len(part)):
                slow.send(chunk(offset, part))
                assert next(slow.call) == chunk(offset, part)
                for _ in range(4):
                    assert not pause.wait(PATIENT_SECONDS / 16)  # a shorter pause than the timeout
                    trickle.send(chunk(number, b"x"))
                    number += is_answered(trickle)
            assert number < 24  # otherwise the stream was aborted only because it ended
            check_stalled(trickle)
        slow.finish()


def test_call_of_a_client_that_never_reads_is_aborted():
    payload = bytes(MIB)
    with open_scene(STALL_SECONDS) as scene, open_stream(scene.channel, begin((64 * MIB,))) as stream:
        stream.accept()  # before the stream can stall
        stream.send(*(chunk(number * MIB, payload) for number in range(64)))
        assert scene.engine.await_idle() == 0
        error = stream.reject()
        assert (type(error), getattr(error, "reason", error)) == (LimitError, Reason.STALLED)


def test_server_frees_the_memory_of_failed_streams(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        message = "secret"
        raise RuntimeError(message)

    with open_scene(NEVER_SECONDS) as scene:
        with open_stream(scene.channel, begin(), chunk(0, SIX[:3]), seconds=1) as stream:
            assert (stream.accept(), stream.receive(3)) == ((6,), SIX[:3])
            stream.reject()
            assert stream.call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert scene.engine.await_idle() == 0
        monkeypatch.setattr("tensor_reshape.server.service.stream_sessions.encode_accept", fail)
        with open_stream(scene.channel, begin()) as stream:
            error = stream.reject()
            assert (stream.call.code(), str(error)) == (grpc.StatusCode.INTERNAL, "INTERNAL: internal error")
        monkeypatch.undo()
        assert scene.engine.await_idle() == 0


def test_server_frees_the_memory_of_a_lost_connection():
    with open_scene(NEVER_SECONDS) as scene:
        with grpc.insecure_channel(scene.runner.addresses[0], [("grpc.use_local_subchannel_pool", 1)]) as lost:
            streams = [RawStream(lost, 20) for _ in range(20)]
            for stream in streams:
                stream.send(begin(), chunk(0, SIX[:3]))
                stream.accept()
        for stream in streams:
            stream.close()
        assert scene.engine.await_idle() == 0
