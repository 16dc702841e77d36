"""Calls of the blocking client with interceptors of grpc, which use grpcio's public API and have the same results."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc
import numpy as np
import pytest
from grpc._interceptor import _ClientCallDetails  # the argument of interceptors

from in_process import WAIT_SECONDS, Metadata, lose_once, run_stock
from server_processes import ServerProcess
from tensor_reshape.client import Client, InvalidRequestError, ShapeQuery, UnavailableError
from tensor_reshape.client.grpc_core import CoreTransport
from tensor_reshape.client.transports import Transport
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.inference import build_infer_response
from tensor_reshape.wire.streams import encode_accept
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.float32)
SIX_INFERRED = build_infer_response(ShapeAnswer((6,))).SerializeToString()
QUERIES = [ShapeQuery(data_shape=[6], shape=[2, 3], special_zero=False)] * 3000
NOBODY = "127.0.0.1:1"


class Seen(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Records the calls in a list that several interceptors may share, and adds metadata to them."""

    def __init__(self, name: str, seen: list[tuple[str, str]]) -> None:
        self._name, self._seen = name, seen

    def intercept_unary_unary(  # type: ignore[override] # the override accepts any arguments
        self, continuation: Callable[..., object], client_call_details: _ClientCallDetails, request: object
    ) -> object:
        return self._pass_on(continuation, client_call_details, request)

    def intercept_stream_stream(  # type: ignore[override] # the override accepts any arguments
        self, continuation: Callable[..., object], client_call_details: _ClientCallDetails, request_iterator: object
    ) -> object:
        return self._pass_on(continuation, client_call_details, request_iterator)

    def _pass_on(self, continuation: Callable[..., object], details: _ClientCallDetails, sent: object) -> object:
        self._seen.append((self._name, details.method.rpartition("/")[2]))
        return continuation(details._replace(metadata=[*(details.metadata or ()), ("seen-by", self._name)]), sent)


class Failing(grpc.UnaryUnaryClientInterceptor):
    """An interceptor that rejects every call."""

    def intercept_unary_unary(self, *_: object) -> NoReturn:
        raise KeyError


class Generating(grpc.StreamStreamClientInterceptor):
    """An interceptor that returns a generator instead of a call, like that of OpenTelemetry 0.60."""

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:  # noqa: ANN401
        call = continuation(client_call_details, request_iterator)
        return (response for response in call)


def test_interceptors_are_called_in_the_given_order(server: ServerProcess):
    seen, large = list[tuple[str, str]](), np.zeros((64, 65536), np.float32)
    with Client(server.address, interceptors=[Seen("outer", seen), Seen("inner", seen)]) as client:
        assert client.reshape(SIX, [2, 3], special_zero=False).shape == (2, 3)
        assert client.reshape(large, [-1], special_zero=False, transfer="stream").shape == (large.size,)
        assert client.infer_shapes(QUERIES) == [(2, 3)] * len(QUERIES)
        client.check_health()
        with pytest.raises(InvalidRequestError):
            client.infer_shape([6], [4], special_zero=False)
    methods = ["Reshape", "StreamReshape", *["BatchInferShape"] * 3, "Check", "InferShape"]
    assert seen == [(name, method) for method in methods for name in ("outer", "inner")]


def test_retried_calls_keep_metadata_added_by_interceptors():
    received: list[Metadata] = []
    with (
        run_stock({"InferShape": lose_once(SIX_INFERRED, received)}) as address,
        Client(address, interceptors=[Seen("outer", []), Seen("inner", [])]) as client,
    ):
        assert client.infer_shape([6], [6], special_zero=False) == (6,)
    assert [{value for key, value in sent if key == "seen-by"} for sent in received] == [{"outer", "inner"}] * 2


def test_exception_raised_by_an_interceptor_reaches_the_caller():
    with Client(NOBODY, interceptors=[Failing()]) as client:
        with pytest.raises(KeyError):
            client.infer_shape([6], [6], special_zero=False)
        with pytest.raises(KeyError):
            client.infer_shapes(QUERIES)


def test_stream_through_an_interceptor_with_a_generator_succeeds(server: ServerProcess):
    with Client(server.address, interceptors=[Generating()]) as client:
        assert client.reshape(SIX, [2, 3], special_zero=False, transfer="stream").shape == (2, 3)


def test_stream_through_an_interceptor_with_a_generator_is_cancelled():
    is_over = threading.Event()

    def accept(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        context.add_callback(is_over.set)
        next(requests)
        yield encode_accept(TensorView(DataType.F32, (6,), None, memoryview(b"")))
        is_over.wait(WAIT_SECONDS)

    def fail(*_: int) -> None:
        raise ZeroDivisionError

    with (
        run_stock({}, streams={"StreamReshape": accept}) as address,
        Client(address, interceptors=[Generating()]) as client,
    ):
        with pytest.raises(ZeroDivisionError):
            client.reshape(SIX, [6], special_zero=False, transfer="stream", progress=fail)
        assert is_over.wait(WAIT_SECONDS)


def test_refused_connection_raises_unavailable_error_with_interceptors():
    with Client(NOBODY, interceptors=[Seen("one", [])]) as client, pytest.raises(UnavailableError, match="refused"):
        client.wait_until_ready(timeout=0.3)


def test_sync_client_rejects_an_invalid_interceptor_on_creation():
    with pytest.raises(TypeError):
        Client(NOBODY, interceptors=[object()])  # type: ignore[list-item]


def test_client_with_interceptors_uses_the_public_grpc_api():
    with Client(NOBODY) as plain, Client(NOBODY, interceptors=[Failing()]) as intercepted:
        assert [type(client._calls.transport) for client in (plain, intercepted)] == [CoreTransport, Transport]
