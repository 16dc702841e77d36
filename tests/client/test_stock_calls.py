"""Calls by grpcio's public means, and what its errors become."""

import threading
from collections.abc import Iterator
from contextvars import ContextVar
from types import SimpleNamespace

import grpc
import pytest
from grpc import _channel

from in_process import run_stock
from tensor_reshape.client import ResponseError, ServiceError, UnavailableError
from tensor_reshape.client.stock_calls import StockCalls, check_answer, explain_one
from tensor_reshape.wire.methods import SERVICE

PATH = f"/{SERVICE}/InferShape"
SECONDS = 60.0


@pytest.fixture
def calls() -> Iterator[StockCalls]:
    """Of a channel whose server answers with what it is asked."""
    with run_stock({"InferShape": lambda request, _: request}) as address, grpc.insecure_channel(address) as channel:
        yield StockCalls(channel)


@pytest.fixture
def unanswered() -> Iterator[StockCalls]:
    """Of a channel without a server."""
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        yield StockCalls(channel)


def test_a_call_is_answered_at_once_or_later(calls: StockCalls):
    assert calls.send(PATH, b"a question", SECONDS, ()) == b"a question"
    started = [calls.start(PATH, request, SECONDS, ()) for request in (b"one", b"two")]
    assert [explain_one(call.result) for call in started] == [b"one", b"two"]


def test_a_signal_does_not_reach_grpcio_while_it_begins_a_call(calls: StockCalls, monkeypatch: pytest.MonkeyPatch):
    # There a signal is worst: the call is begun, and no thread awaits its events yet.
    run, here = _channel._run_channel_spin_thread, threading.current_thread()
    assert here is threading.main_thread()

    def run_or_interrupt(state: _channel._ChannelCallState) -> None:
        if threading.current_thread() is here:
            raise KeyboardInterrupt
        run(state)

    monkeypatch.setattr(_channel, "_run_channel_spin_thread", run_or_interrupt)
    assert calls.start(PATH, b"a question", SECONDS, ()).result(SECONDS) == b"a question"


def test_a_call_is_begun_in_the_context_of_its_caller(unanswered: StockCalls, monkeypatch: pytest.MonkeyPatch):
    name, seen = ContextVar[str]("name"), list[str]()
    name.set("the caller's")
    method = SimpleNamespace(future=lambda *_: seen.append(name.get()))  # as an interceptor of a tracer
    monkeypatch.setattr(unanswered, "_find_method", lambda _: method)
    unanswered.start(PATH, b"", SECONDS, ())
    assert seen == ["the caller's"]


def test_an_error_of_grpcio_becomes_one_of_this_package(unanswered: StockCalls):
    with pytest.raises(UnavailableError) as caught:
        unanswered.send(PATH, b"", SECONDS, ())
    assert caught.value.__suppress_context__  # of grpcio's error nothing is left to say


def test_an_empty_answer_is_an_answer_and_none_is_not():
    assert check_answer(b"") == b""
    with pytest.raises(ResponseError, match="without an answer"):
        check_answer(None)


def test_a_call_without_a_thread_is_an_error_of_this_package(unanswered: StockCalls, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ServiceError, match="not begun: can't start new thread") as caught:
        unanswered.start(PATH, b"", SECONDS, ())
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
