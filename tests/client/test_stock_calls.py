"""Calls by grpcio's public means, and what its errors become."""

import threading
from collections.abc import Iterator
from contextvars import ContextVar

import grpc
import pytest
from grpc import _channel

from in_process import run_stock
from tensor_reshape.client import CallTimeoutError, ResponseError, ServiceError, UnavailableError
from tensor_reshape.client.stock_calls import StockCalls, check_answer, explain_one
from tensor_reshape.wire.methods import SERVICE

PATH = f"/{SERVICE}/InferShape"
SECONDS = 60.0


@pytest.fixture
def calls() -> Iterator[StockCalls]:
    """Of a channel whose server answers with what it is asked."""
    with run_stock({"InferShape": lambda request, _: request}) as address, grpc.insecure_channel(address) as channel:
        yield StockCalls(channel)


def test_a_call_is_answered(calls: StockCalls):
    assert calls.send(PATH, b"a question", SECONDS, ()) == b"a question"


def test_a_started_call_is_answered_later(calls: StockCalls):
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


def test_a_call_is_begun_in_the_context_of_its_caller(monkeypatch: pytest.MonkeyPatch):
    name, seen = ContextVar[str]("name"), list[str]()
    name.set("the caller's")
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        calls = StockCalls(channel)
        monkeypatch.setattr(calls, "_find_method", lambda _: Begun(name, seen))
        calls.start(PATH, b"", SECONDS, ())
    assert seen == ["the caller's"]


class Begun:
    """What begins a call, as an interceptor of a tracer does."""

    def __init__(self, name: ContextVar[str], seen: list[str]) -> None:
        self._name = name
        self._seen = seen

    def future(self, *_: object) -> None:
        self._seen.append(self._name.get())


def test_an_error_of_grpcio_becomes_one_of_this_package():
    with grpc.insecure_channel("127.0.0.1:1") as channel, pytest.raises(UnavailableError) as caught:
        StockCalls(channel).send(PATH, b"", SECONDS, ())
    assert caught.value.__suppress_context__  # of grpcio's error nothing is left to say


def test_a_call_that_waits_for_a_server_ends_with_its_time():
    with grpc.insecure_channel("127.0.0.1:1") as channel, pytest.raises(CallTimeoutError):
        StockCalls(channel).send(PATH, b"", 0.2, (), wait_for_ready=True)


def test_an_end_without_an_answer_is_no_answer():
    with pytest.raises(ResponseError, match="without an answer"):
        check_answer(None)


def test_an_empty_answer_is_an_answer():
    assert check_answer(b"") == b""


def test_a_call_for_which_there_is_no_thread_is_an_error_of_this_package(monkeypatch: pytest.MonkeyPatch):
    def refuse(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    with grpc.insecure_channel("127.0.0.1:1") as channel:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(ServiceError, match="not begun: can't start new thread") as caught:
            StockCalls(channel).start(PATH, b"", SECONDS, ())
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
