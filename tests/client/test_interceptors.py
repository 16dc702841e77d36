"""Calls with interceptors of grpc or grpc.aio. Their results and errors are the same as without interceptors."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NoReturn

import grpc
import numpy as np
import pytest
from grpc._interceptor import _ClientCallDetails  # the argument of interceptors

from both_clients import CLIENTS, open_client
from in_process import WAIT_SECONDS, Metadata, lose_once, run_blocked, run_stock
from server_processes import ServerProcess
from tensor_reshape.client import (
    AsyncClient,
    CallTimeoutError,
    Client,
    InvalidRequestError,
    ShapeQuery,
    UnavailableError,
)
from tensor_reshape.client.transfers import Way
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.inference import build_infer_response
from tensor_reshape.wire.reshapes import encode_accept
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.float32)
SIX_INFERRED = build_infer_response(ShapeAnswer((6,))).SerializeToString()
LARGE = np.zeros((64, 65536), np.float32)
QUERIES = [ShapeQuery(data_shape=[6], shape=[2, 3], special_zero=False)] * 3000
NOBODY = "127.0.0.1:1"
Calls = list[tuple[str, str]]
"""The name of an interceptor and a method, for each call."""

_Continuation = Callable[[grpc.aio.ClientCallDetails, object], Awaitable[object]]
each_client = pytest.mark.parametrize("kind", CLIENTS)


class Recorder:
    """Has a name, and a list of calls that several interceptors may share."""

    def __init__(self, name: str, seen: Calls) -> None:
        self._name, self._seen = name, seen


class Seen(Recorder, grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Records the calls, and adds metadata to them."""

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


class SeenUnary(Recorder, grpc.aio.UnaryUnaryClientInterceptor):
    """Records the unary calls, and adds metadata to them."""

    async def intercept_unary_unary(  # type: ignore[override] # the override accepts any arguments
        self, continuation: _Continuation, client_call_details: grpc.aio.ClientCallDetails, request: object
    ) -> object:
        self._seen.append((self._name, find_name(client_call_details)))
        assert client_call_details.metadata is not None
        client_call_details.metadata.add("seen-by", self._name)
        return await continuation(client_call_details, request)


class SeenStream(Recorder, grpc.aio.StreamStreamClientInterceptor):
    """Records the streams."""

    async def intercept_stream_stream(  # type: ignore[override] # the override accepts any arguments
        self, continuation: _Continuation, client_call_details: grpc.aio.ClientCallDetails, request_iterator: object
    ) -> object:
        self._seen.append((self._name, find_name(client_call_details)))
        return await continuation(client_call_details, request_iterator)


def find_name(details: grpc.aio.ClientCallDetails) -> str:
    method: object = details.method  # bytes, although its type stub differs
    return (method.decode() if isinstance(method, bytes) else str(method)).rpartition("/")[2]


def make_interceptors(kind: str, seen: Calls) -> list[object]:
    """Returns an outer and an inner interceptor for each kind of call of a client."""
    kinds = (Seen,) if kind == "Client" else (SeenUnary, SeenStream)
    return [make(name, seen) for name in ("outer", "inner") for make in kinds]


class Failing(grpc.UnaryUnaryClientInterceptor):
    """An interceptor that rejects every call."""

    def intercept_unary_unary(self, *_: object) -> NoReturn:
        raise KeyError


class Generating(grpc.StreamStreamClientInterceptor):
    """An interceptor that returns a generator instead of a call, like that of OpenTelemetry 0.60."""

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:  # noqa: ANN401
        call = continuation(client_call_details, request_iterator)
        return (response for response in call)


@each_client
def test_interceptors_see_every_call_and_its_errors(kind: str, server: ServerProcess):
    seen = Calls()
    with open_client(kind, server.address, interceptors=make_interceptors(kind, seen)) as client:
        assert client.reshape(SIX, [2, 3]).shape == (2, 3)
        assert seen == [("outer", "Reshape"), ("inner", "Reshape")]
        assert client.reshape(LARGE, [-1], transfer="stream").shape == (LARGE.size,)
        assert client.infer_shapes(QUERIES) == [(2, 3)] * len(QUERIES)
        client.check_health()
        methods = ["Reshape", "StreamReshape", *["BatchInferShape"] * 3, "Check"]
        assert sorted(seen) == sorted((name, method) for method in methods for name in ("outer", "inner"))
        with pytest.raises(InvalidRequestError):
            client.infer_shape([6], [4])
        with pytest.raises(CallTimeoutError):
            client.reshape(LARGE, [-1], transfer="stream", timeout=1e-3)


@each_client
def test_refused_connection_raises_unavailable_error_with_interceptors(kind: str):
    with (
        open_client(kind, NOBODY, interceptors=make_interceptors(kind, []), timeout=0.5) as client,
        pytest.raises(UnavailableError, match="refused"),
    ):
        client.reshape(SIX, [6], transfer="stream")


@each_client
def test_retried_calls_keep_metadata_added_by_interceptors(kind: str):
    received: list[Metadata] = []
    with (
        run_stock({"InferShape": lose_once(SIX_INFERRED, received)}) as address,
        open_client(kind, address, interceptors=make_interceptors(kind, [])) as client,
    ):
        assert client.infer_shape([6], [6]) == (6,)
    assert [{value for key, value in sent if key == "seen-by"} for sent in received] == [{"outer", "inner"}] * 2


@each_client
def test_client_rejects_an_invalid_interceptor_on_creation(kind: str):
    with pytest.raises((TypeError, ValueError)), open_client(kind, NOBODY, interceptors=[object()]):
        pass


@pytest.mark.parametrize("transfer", ["inline", "stream"])
async def test_async_client_with_interceptors_works_after_cancellation(transfer: Way):
    interceptors: Any = make_interceptors("AsyncClient", [])
    with run_blocked() as (runner, backend):
        async with AsyncClient(runner.addresses[0], interceptors=interceptors) as client:
            task = asyncio.create_task(client.reshape(SIX, [6], special_zero=False, transfer=transfer))
            await asyncio.sleep(0)  # the call has begun, and its first message is being sent
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            backend.released.set()
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)


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
