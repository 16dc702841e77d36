"""Calls that hold a thread: waking it, ending its waits, and what becomes of calls that never have one."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from admission_calls import make
from http2 import Connection
from in_process import ANY_PORT, run_runner
from tensor_reshape.client import Client
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.lifecycle import IllegalEventError, State
from tensor_reshape.server.calls.stalls import refuse_waiting
from tensor_reshape.server.calls.threaded import (
    CallThreads,
    ThreadedCall,
    ThreadedStream,
    ThreadedUnary,
    build_permissions,
)
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.methods import ReshapeService, Work
from tensor_reshape.wire.methods import INFER_SHAPE

SECONDS = 60.0


@pytest.fixture
def runner() -> Iterator[Runner]:
    with run_runner(Config(listen=(ANY_PORT,), serving="threads", drain_seconds=0, grace_seconds=0)) as runner:
        yield runner


def fail(*_: object, **__: object) -> None:
    message = "a secret"
    raise IllegalEventError(message)


@pytest.mark.parametrize("method", ["enter", "identify", "request_read", "message_received", "end"])
def test_a_bug_in_the_life_of_a_call_ends_the_call_and_nothing_else(
    runner: Runner, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(Admission, method, fail)
    with Connection(runner.addresses[0]) as connection, caplog.at_level(logging.ERROR):
        end = connection.call(INFER_SHAPE.path, b"\x08\x01\x10\x00\x1a\x02\x12\x00\x22\x00")
    assert not end.is_ok
    assert "secret" not in end.message
    assert caplog.records
    monkeypatch.undo()
    with Client(runner.addresses[0]) as client:
        assert client.infer_shape([6], [6], special_zero=False) == (6,)


def test_threads_are_short_when_calls_wait_for_one():
    threads, gate = CallThreads(1), threading.Event()
    met = threading.Barrier(2)

    def hold_the_thread() -> None:
        met.wait(SECONDS)
        gate.wait(SECONDS)

    try:
        threads.submit(hold_the_thread)
        met.wait(SECONDS)
        assert not threads.are_short()
        threads.submit(gate.wait, SECONDS)
        assert threads.are_short()
    finally:
        gate.set()
        threads.shutdown()


def build_calls(admission: Admission) -> list[ThreadedCall]:
    service = ReshapeService(DEFAULT_LIMITS)
    return [
        ThreadedUnary(service.methods.unary[0], build_permissions(1), admission),
        ThreadedStream(service.methods.streams[0], ThreadPoolExecutor(1), admission),
    ]


@pytest.mark.parametrize("kind", [0, 1], ids=["unary", "stream"])
def test_a_call_that_is_given_up_before_it_has_a_thread_gives_its_place_back_at_once(kind: int):
    admission = make(4)
    call = build_calls(admission)[kind]
    call.enter(())
    refusal = refuse_waiting(1.0)
    call.give_up(refusal, State.NEW)
    assert admission.is_idle
    with pytest.raises(LimitError) as caught:
        call.receive(iter(()))
    assert caught.value is refusal


@pytest.mark.parametrize("kind", [0, 1], ids=["unary", "stream"])
def test_room_that_comes_before_the_thread_asks_for_it_is_not_missed(kind: int):
    admission = make(4)
    call = build_calls(admission)[kind]
    call.enter(())
    admission.request_read(call._life)
    assert call.receive(iter([b"message"])) == b"message"
    call._on_over()


@pytest.mark.parametrize("kind", [0, 1], ids=["unary", "stream"])
def test_the_end_of_a_call_ends_the_wait_of_its_thread(kind: int):
    admission = make(1)
    call, other = build_calls(admission)[kind], build_calls(admission)[0]
    for one in (other, call):
        one.enter(())
        admission.request_read(one._life)
    assert call._life.state is State.WAITING
    call._on_over()
    with pytest.raises(LimitError) as caught:
        call.receive(iter(()))
    assert (caught.value.reason, admission.used_bytes) == (Reason.STALLED, other._life.reading)


def test_a_stream_whose_caller_goes_just_before_it_is_refused_gives_everything_back(monkeypatch: pytest.MonkeyPatch):
    admission = make(4)
    call = build_calls(admission)[1]
    assert isinstance(call, ThreadedStream)

    def receive(*_: object) -> Iterator[bytes]:
        call._on_over()
        message = "a bad chunk"
        raise ValueError(message)

    monkeypatch.setattr(call._session, "receive", receive)
    call.enter(())
    call._receive_all(iter([b"message"]))
    assert (call._life.state, admission.is_idle, admission.used_bytes) == (State.DONE, True, 0)


def test_a_call_that_waits_for_permission_to_work_hears_its_refusal():
    admission, permissions = make(4), build_permissions(0)
    call = ThreadedUnary(ReshapeService(DEFAULT_LIMITS).methods.unary[0], permissions, admission)
    call.enter(())
    refusal = refuse_waiting(1.0)
    call._signals.put(refusal)
    with pytest.raises(LimitError) as caught:
        call._await_permission(permissions[Work.TENSORS])
    assert caught.value is refusal
    call._on_over()
