"""Calls without a thread: what a bug does to them, and what is kept of a message that waits for one."""

import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import grpc
import pytest

from http2 import Connection, grpc_message
from in_process import ANY_PORT, run_runner
from raw_streams import begin, open_stream
from tensor_reshape.client import Client
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.inline import InlineCall, StreamCall, UnaryCall
from tensor_reshape.server.calls.lifecycle import IllegalEventError
from tensor_reshape.server.calls.places import refuse_busy
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner
from tensor_reshape.wire.methods import INFER_SHAPE

SECONDS = 60.0


@pytest.fixture
def runner() -> Iterator[Runner]:
    with run_runner(Config(listen=(ANY_PORT,), serving="inline", drain_seconds=0, grace_seconds=0)) as runner:
        yield runner


def fail(*_: object, **__: object) -> None:
    message = "a secret"
    raise IllegalEventError(message)


def check_serves(runner: Runner) -> None:
    with Client(runner.addresses[0]) as client:
        assert client.infer_shape([6], [6], special_zero=False) == (6,)


def call_in_vain(runner: Runner) -> None:
    """Makes a call whose time runs out."""
    with grpc.insecure_channel(runner.addresses[0]) as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/tensor_reshape.v1.ReshapeService/Reshape"
        )
        with pytest.raises(grpc.RpcError):
            method(bytes(1000), timeout=0.5)


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a call is over and has given all back."""
    over, leave = threading.Event(), InlineCall._on_over

    def note(call: InlineCall) -> None:
        leave(call)
        over.set()

    monkeypatch.setattr(InlineCall, "_on_over", note)
    return over


SHORT_QUESTION = b"\x08\x01\x10\x00\x1a\x02\x12\x00\x22\x00"
MALFORMED, LONG_QUESTION = b"\xff", bytes(8192)


@pytest.mark.parametrize(
    ("method", "request_bytes"),
    [
        ("enter", SHORT_QUESTION),
        ("answer_at_once", SHORT_QUESTION),
        ("message_received", MALFORMED),
        ("end", MALFORMED),
        ("message_received", LONG_QUESTION),
        ("request_work", LONG_QUESTION),
        ("take_up", LONG_QUESTION),
        ("end", LONG_QUESTION),
    ],
)
def test_a_bug_in_the_life_of_a_call_ends_the_call_and_nothing_else(
    runner: Runner,
    method: str,
    request_bytes: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(Admission, method, fail)
    with Connection(runner.addresses[0]) as connection, caplog.at_level(logging.ERROR):
        end = connection.call(INFER_SHAPE.path, request_bytes)
    assert end.status in {"1", "RST"}
    assert "secret" not in end.message
    assert {record.message for record in caplog.records} == {"bug"}
    monkeypatch.undo()
    check_serves(runner)


def fail_for_want(*_: object, **__: object) -> None:
    raise MemoryError


@pytest.mark.parametrize("method", ["_join", "_refuse"])
def test_a_call_for_which_there_is_no_memory_ends_alone(
    runner: Runner, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    with Connection(runner.addresses[0]) as connection, caplog.at_level(logging.ERROR):
        with monkeypatch.context() as patch:
            patch.setattr(Admission, "enter", refuse)
            patch.setattr(UnaryCall, method, fail_for_want)
            stream = connection.open(INFER_SHAPE.path)
            connection.send_data(stream, grpc_message(SHORT_QUESTION), end=True)
            assert connection.await_end(stream).status in {"1", "RST"}
        assert connection.call(INFER_SHAPE.path, SHORT_QUESTION).is_ok
    assert {record.message for record in caplog.records} == {"bug"}


def refuse(*_: object, **__: object) -> None:
    message = "no room"
    raise refuse_busy(message)


def test_what_the_server_cancels_is_no_reset(runner: Runner, over: threading.Event, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Admission, "answer_at_once", fail)
    with Connection(runner.addresses[0]) as connection:
        connection.call(INFER_SHAPE.path, SHORT_QUESTION)
        assert over.wait(SECONDS)
    assert not runner._admission.resets._buckets


def test_a_bug_when_a_call_is_over_harms_no_other_call(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    failed = threading.Event()

    def fail_once(*_: object, **__: object) -> None:
        monkeypatch.undo()
        failed.set()
        fail()

    monkeypatch.setattr(Admission, "release", fail_once)
    with Connection(runner.addresses[0]) as connection, caplog.at_level(logging.ERROR):
        assert connection.call(INFER_SHAPE.path, SHORT_QUESTION).is_ok
        assert failed.wait(SECONDS)
        assert connection.call(INFER_SHAPE.path, SHORT_QUESTION).is_ok
    assert [record.message for record in caplog.records] == ["bug"]


def test_a_call_for_which_there_is_no_thread_is_ended(
    runner: Runner, over: threading.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refuse_thread(*_: object) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(UnaryCall, "_answer_light", lambda *_: None)
    monkeypatch.setattr(runner._threads, "submit", refuse_thread)
    with Connection(runner.addresses[0]) as connection, caplog.at_level(logging.ERROR):
        end = connection.call("/tensor_reshape.v1.ReshapeService/Reshape", b"")
    assert end.status in {"1", "RST"}
    assert [record.message for record in caplog.records] == ["bug"]
    assert over.wait(SECONDS)
    assert (runner._admission.used_bytes, runner._admission.is_idle) == (0, True)
    monkeypatch.undo()
    check_serves(runner)


def test_a_call_that_is_over_is_freed_although_its_thread_has_not_come(runner: Runner, monkeypatch: pytest.MonkeyPatch):
    gate, messages = threading.Event(), list[bytes | None]()
    over = threading.Event()
    leave = InlineCall._on_over

    def note(call: InlineCall) -> None:
        messages.append(call._message)
        leave(call)
        messages.append(call._message)
        over.set()

    monkeypatch.setattr(InlineCall, "_on_over", note)
    monkeypatch.setattr(UnaryCall, "_answer_light", lambda *_: None)
    for _ in range(runner._config.threads):
        runner._threads.submit(gate.wait, SECONDS)
    try:
        call_in_vain(runner)
        assert over.wait(SECONDS)
        assert messages == [bytes(1000), None]
        assert (runner._admission.used_bytes, runner._admission.is_idle) == (0, True)
    finally:
        gate.set()


def test_a_call_whose_caller_goes_as_a_thread_takes_it_up_gives_everything_back(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
):
    submitted, over = list[partial[None]](), threading.Event()
    release = Admission.release

    def take_up_first(*arguments: Any, **keywords: Any) -> None:
        while submitted:
            submitted.pop()()
        release(*arguments, **keywords)
        over.set()

    monkeypatch.setattr(runner._threads, "submit", lambda *work: submitted.append(partial(*work)))
    monkeypatch.setattr(Admission, "release", take_up_first)
    monkeypatch.setattr(UnaryCall, "_answer_light", lambda *_: None)
    monkeypatch.setattr(UnaryCall, "_answer_long", lambda call, _: call._refuse(ValueError("bad")))
    call_in_vain(runner)
    assert over.wait(SECONDS)
    assert (runner._admission.used_bytes, runner._admission.is_idle) == (0, True)


def test_nothing_is_kept_of_a_stream_that_is_over(
    runner: Runner, over: threading.Event, monkeypatch: pytest.MonkeyPatch
):
    calls: list[weakref.ref[StreamCall]] = []
    begin_call = StreamCall.begin

    def begin_noted(call: StreamCall) -> None:
        calls.append(weakref.ref(call))
        begin_call(call)

    monkeypatch.setattr(StreamCall, "begin", begin_noted)
    with grpc.insecure_channel(runner.addresses[0]) as channel, open_stream(channel, begin()) as stream:
        stream.accept()
        stream.close()
        stream.refuse()
    assert over.wait(SECONDS)
    check_serves(runner)  # the thread that receives calls has gone on since
    gc.collect()
    assert calls[0]() is None
