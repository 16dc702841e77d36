"""Calls by grpcio's public means, and what its errors become."""

from collections.abc import Iterator

import grpc
import pytest

from in_process import run_stock
from tensor_reshape.client import CallTimeoutError, ResponseError, UnavailableError
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
