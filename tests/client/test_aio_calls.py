"""Calls of the asyncio client with interceptors of grpc.aio: the results and errors are the same."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import numpy as np
import pytest

from in_process import Metadata, lose_once, run_blocked, run_stock
from server_processes import ServerProcess
from tensor_reshape.client import (
    AsyncClient,
    CallTimeoutError,
    InvalidRequestError,
    ServiceError,
    ShapeQuery,
    UnavailableError,
)
from tensor_reshape.client.transfers import Way
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.inference import build_infer_response

SIX = np.arange(6, dtype=np.float32)
SIX_INFERRED = build_infer_response(ShapeAnswer((6,))).SerializeToString()
LARGE = np.zeros((64, 65536), np.float32)
QUERIES = [ShapeQuery(data_shape=[6], shape=[2, 3], special_zero=False)] * 3000
_Continuation = Callable[[grpc.aio.ClientCallDetails, object], Awaitable[object]]


class SeenUnary(grpc.aio.UnaryUnaryClientInterceptor):
    """Records the unary calls, and adds metadata to them."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    async def intercept_unary_unary(  # type: ignore[override] # the override accepts any arguments
        self, continuation: _Continuation, client_call_details: grpc.aio.ClientCallDetails, request: object
    ) -> object:
        self._seen.append(find_name(client_call_details))
        assert client_call_details.metadata is not None
        client_call_details.metadata.add("seen-by", "unary")
        return await continuation(client_call_details, request)


class SeenStream(grpc.aio.StreamStreamClientInterceptor):
    """Records the streams."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    async def intercept_stream_stream(  # type: ignore[override] # the override accepts any arguments
        self, continuation: _Continuation, client_call_details: grpc.aio.ClientCallDetails, request_iterator: object
    ) -> object:
        self._seen.append(find_name(client_call_details))
        return await continuation(client_call_details, request_iterator)


def find_name(details: grpc.aio.ClientCallDetails) -> str:
    method: object = details.method  # bytes, although its type stub differs
    return (method.decode() if isinstance(method, bytes) else str(method)).rpartition("/")[2]


async def test_aio_interceptors_see_every_call_and_its_errors(server: ServerProcess):
    seen = list[str]()
    async with AsyncClient(server.address, interceptors=[SeenUnary(seen), SeenStream(seen)]) as client:
        assert (await client.reshape(SIX, [2, 3], special_zero=False)).shape == (2, 3)
        assert (await client.reshape(LARGE, [-1], special_zero=False, transfer="stream")).shape == (LARGE.size,)
        assert await client.infer_shapes(QUERIES) == [(2, 3)] * len(QUERIES)
        await client.check_health()
        assert sorted(seen) == sorted(["Reshape", "StreamReshape", *["BatchInferShape"] * 3, "Check"])
        with pytest.raises(InvalidRequestError):
            await client.infer_shape([6], [4], special_zero=False)
        with pytest.raises(CallTimeoutError):
            await client.reshape(LARGE, [-1], special_zero=False, transfer="stream", timeout=1e-3)


async def test_refused_connection_raises_unavailable_error_with_aio_interceptors():
    async with AsyncClient("127.0.0.1:1", interceptors=[SeenUnary([]), SeenStream([])], timeout=0.5) as client:
        with pytest.raises(UnavailableError, match="refused"):
            await client.reshape(SIX, [6], special_zero=False, transfer="stream")


async def test_retried_async_calls_keep_metadata_added_by_interceptors():
    received: list[Metadata] = []
    with run_stock({"InferShape": lose_once(SIX_INFERRED, received)}) as address:
        async with AsyncClient(address, interceptors=[SeenUnary([])]) as client:
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)
    assert [{value for key, value in sent if key == "seen-by"} for sent in received] == [{"unary"}] * 2


@pytest.mark.parametrize("transfer", ["inline", "stream"])
async def test_async_client_with_interceptors_works_after_cancellation(transfer: Way):
    with run_blocked() as (runner, backend):
        async with AsyncClient(runner.addresses[0], interceptors=[SeenUnary([]), SeenStream([])]) as client:
            task = asyncio.create_task(client.reshape(SIX, [6], special_zero=False, transfer=transfer))
            await asyncio.sleep(0)  # the call has begun, and its first message is being sent
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            backend.released.set()
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)


async def test_async_client_keeps_no_reference_to_finished_streams(server: ServerProcess):
    async with AsyncClient(server.address) as client:
        await client.reshape(SIX, [6], special_zero=False, transfer="stream")
        with pytest.raises(CallTimeoutError):
            await client.reshape(LARGE, [-1], special_zero=False, transfer="stream", timeout=1e-3)
        assert client._calls._streams == set()


async def test_async_client_rejects_an_invalid_interceptor_on_creation():
    with pytest.raises(ValueError, match="must be"):
        AsyncClient("127.0.0.1:1", interceptors=[object()])  # type: ignore[list-item]


async def test_closing_an_async_client_ends_its_calls_with_an_error():
    with run_blocked() as (runner, blocked):
        async with AsyncClient(runner.addresses[0]) as client:
            call = asyncio.create_task(client.static_reshape(SIX, [6], special_zero=False))
            await asyncio.to_thread(blocked.entered.wait)
        with pytest.raises(ServiceError, match="the client was closed"):
            await call
