"""Streams that stand still, and streams that are given up: what they took comes back, and the next call is served."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import grpc
import pytest

from in_process import ANY_PORT, run_runner
from raw_streams import SIX, STRIDED, RawStream, begin, chunk, open_stream
from remote_refusals import read_retry_seconds
from tensor_reshape.client import LimitError, Reason
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.lifecycle import TRICKLE_BYTES_PER_SECOND, Lifecycle
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner

MIB = 1 << 20
STALL_SECONDS = 0.5
PATIENT_SECONDS = 2.0  # where a machine that is late must not make a stream stand still


class Watched:
    """The real admission of a server, whose idleness can be awaited."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._release = admission.release
        self._news = threading.Condition()
        admission.release = self.release  # type: ignore[method-assign]

    def release(self, life: Lifecycle, *, gone: bool = False) -> None:
        self._release(life, gone=gone)
        with self._news:
            self._news.notify_all()

    def await_idle(self) -> int:
        """Returns what is still accounted when no call is under way."""
        with self._news:
            assert self._news.wait_for(lambda: self._admission.is_idle, 60)
        return self._admission.used_bytes


class Scene(NamedTuple):
    """A server, what its calls hold, and a channel to it."""

    runner: Runner
    admission: Watched
    channel: grpc.Channel


@contextmanager
def open_scene(serving: str, stall_seconds: float) -> Iterator[Scene]:
    """Runs a server that gives up what stands still for so long; whatever is done to it, all comes back."""
    config = Config(listen=(ANY_PORT,), serving=serving, stall_seconds=stall_seconds, drain_seconds=0, grace_seconds=0)
    with run_runner(config) as runner, grpc.insecure_channel(runner.addresses[0]) as channel:
        scene = Scene(runner, Watched(runner._admission), channel)
        yield scene
        # Several times, if need be: where the machine is busy, the pause before a message may be one too long.
        assert any(is_served(channel) for _ in range(20))
        assert scene.admission.await_idle() == 0


def is_served(channel: grpc.Channel) -> bool:
    with suppress(grpc.RpcError), open_stream(channel, begin(), chunk(0, SIX)) as stream:
        assert (stream.accept(), stream.receive(6)) == ((6,), SIX)
        stream.finish()
        return True
    return False


@pytest.fixture
def scene(serving: str) -> Iterator[Scene]:
    with open_scene(serving, STALL_SECONDS) as scene:
        yield scene


@pytest.fixture
def patient_scene(serving: str) -> Iterator[Scene]:
    """One whose server gives nothing up, however late this machine is."""
    with open_scene(serving, 60) as scene:
        yield scene


@pytest.fixture
def channel(scene: Scene) -> grpc.Channel:
    return scene.channel


@pytest.fixture
def patient_channel(patient_scene: Scene) -> grpc.Channel:
    return patient_scene.channel


@pytest.fixture
def admission(patient_scene: Scene) -> Watched:
    return patient_scene.admission


def check_stalled(stream: RawStream) -> None:
    error = stream.refuse()
    assert (type(error), getattr(error, "reason", error)) == (LimitError, Reason.STALLED)
    assert 0 < (read_retry_seconds(stream.call) or 0) < 1


STANDSTILLS: dict[str, list[bytes]] = {
    "before the header": [],
    "after the header": [begin()],
    "within a tensor": [begin(), chunk(0, SIX[:3])],
    "within a strided tensor": [STRIDED, chunk(0, SIX[:3])],
    "between two tensors": [begin(), chunk(0, SIX)],
}


@pytest.mark.parametrize("messages", STANDSTILLS.values(), ids=STANDSTILLS.keys())
def test_a_stream_that_stands_still_is_given_up(channel: grpc.Channel, messages: list[bytes]):
    with open_stream(channel, *messages) as stream:
        check_stalled(stream)


def test_a_stream_that_goes_on_now_and_then_is_left_alone(serving: str):
    pause, part = threading.Event(), bytes(TRICKLE_BYTES_PER_SECOND)
    with (
        open_scene(serving, PATIENT_SECONDS) as scene,
        open_stream(scene.channel, begin((6 * len(part),))) as stream,
    ):
        stream.accept()
        for offset in range(0, 6 * len(part), len(part)):
            assert not pause.wait(PATIENT_SECONDS / 4)  # late by three times that, it would still be left alone
            stream.send(chunk(offset, part))
            assert next(stream.call) == chunk(offset, part)
        stream.finish()


def test_a_stream_that_trickles_is_given_up(channel: grpc.Channel):
    pause = threading.Event()
    with open_stream(channel, begin((1000,))) as stream:
        stream.accept()
        with suppress(grpc.RpcError):
            for offset in range(20):
                assert not pause.wait(STALL_SECONDS / 4)
                stream.send(chunk(offset, b"x"))
                next(stream.call)
        check_stalled(stream)


def test_a_client_that_never_reads_is_not_read_from_and_given_up(scene: Scene):
    payload = bytes(MIB)
    with open_stream(scene.channel, begin((64 * MIB,))) as stream:
        stream.accept()  # before there is anything to stand still with
        stream.send(*(chunk(number * MIB, payload) for number in range(64)))
        assert scene.admission.await_idle() == 0
        with pytest.raises(grpc.RpcError):
            stream.receive(32 * MIB)  # what was under way when it stood still
        assert stream.call.code() in {grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED}


@pytest.mark.parametrize("messages", STANDSTILLS.values(), ids=STANDSTILLS.keys())
def test_what_a_cancelled_stream_took_comes_back(
    patient_channel: grpc.Channel, admission: Watched, messages: list[bytes]
):
    with open_stream(patient_channel, *messages) as stream:
        if messages:
            stream.accept()
        stream.call.cancel()
        assert admission.await_idle() == 0


def test_what_a_stream_beyond_its_deadline_took_comes_back(patient_channel: grpc.Channel, admission: Watched):
    with open_stream(patient_channel, begin(), chunk(0, SIX[:3]), seconds=1.5) as stream:
        assert (stream.accept(), stream.receive(3)) == ((6,), SIX[:3])
        stream.refuse()
        assert stream.call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert admission.await_idle() == 0


def test_what_streams_of_a_lost_connection_took_comes_back(patient_scene: Scene, admission: Watched):
    with grpc.insecure_channel(patient_scene.runner.addresses[0], [("grpc.use_local_subchannel_pool", 1)]) as lost:
        streams = [RawStream(lost, 20) for _ in range(20)]
        for stream in streams:
            stream.send(begin(), chunk(0, SIX[:3]))
            stream.accept()
    for stream in streams:
        stream.close()
    assert admission.await_idle() == 0


def test_what_a_stream_with_a_bug_took_comes_back(
    patient_channel: grpc.Channel, admission: Watched, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        message = "secret"
        raise RuntimeError(message)

    monkeypatch.setattr("tensor_reshape.server.service.stream_sessions.encode_accept", fail)
    with open_stream(patient_channel, begin()) as stream:
        error = stream.refuse()
        assert (stream.call.code(), str(error)) == (grpc.StatusCode.INTERNAL, "INTERNAL: internal error")
    monkeypatch.undo()
    assert admission.await_idle() == 0
