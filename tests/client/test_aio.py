"""The client that awaits: its calls, its life, and who may share it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

import grpc
import numpy as np
import pytest

from in_process import Behavior, run_blocked, run_stock
from server_processes import ServerProcess
from tensor_reshape.client import (
    AsyncClient,
    CallTimeoutError,
    HealthStatus,
    UnavailableError,
)
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.inference import build_infer_response

SIX = np.arange(6, dtype=np.float32)
GOOD = build_infer_response(ShapeAnswer((6,))).SerializeToString()


class Counted:
    """Aborts the first calls with a code, then answers; counts the attempts."""

    def __init__(self, code: grpc.StatusCode, failures: int) -> None:
        self.code, self.failures, self.attempts = code, failures, 0

    def __call__(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        del request
        self.attempts += 1
        if self.attempts <= self.failures:
            context.abort(self.code, "not now")
        return GOOD


class Recorder(grpc.ServerInterceptor):
    """Keeps the metadata of every call."""

    def __init__(self) -> None:
        self.metadata: list[tuple[str, str | bytes]] = []

    def intercept_service(  # type: ignore[override] # whatever comes next is passed on
        self, continuation: Callable[..., object], handler_call_details: grpc.HandlerCallDetails
    ) -> object:
        self.metadata += cast("list[tuple[str, str | bytes]]", handler_call_details.invocation_metadata)
        return continuation(handler_call_details)


def answer(raw: bytes) -> Behavior:
    return lambda request, context: raw  # noqa: ARG005 - the signature is grpc's


@pytest.fixture
def blocked_address() -> Iterator[str]:
    with run_blocked() as (runner, _):
        yield runner.addresses[0]


def test_an_asyncio_client_is_not_made_outside_of_an_event_loop():
    with pytest.raises(RuntimeError, match="none is running: make it in a coroutine, or a Client"):
        AsyncClient("127.0.0.1:1")


async def test_an_asyncio_client_is_no_block_that_blocks():
    with pytest.raises(TypeError, match=r"write `async with AsyncClient"), AsyncClient("127.0.0.1:1"):  # type: ignore[attr-defined]
        pass


async def test_a_server_that_listens_is_ready_for_asyncio(server: ServerProcess):
    async with AsyncClient(server.address) as client:
        await client.wait_until_ready(timeout=60)
        assert await client.check_health() is HealthStatus.SERVING


async def test_no_server_is_not_ready_in_time_for_asyncio():
    async with AsyncClient("127.0.0.1:1") as client:
        with pytest.raises(UnavailableError):
            await client.wait_until_ready(timeout=0.2)


async def test_tasks_share_one_client(server: ServerProcess):
    async with AsyncClient(server.address) as client:
        shapes = await asyncio.gather(*(client.infer_shape([n], [-1], special_zero=False) for n in range(200)))
    assert shapes == [(n,) for n in range(200)]


async def test_a_closed_asyncio_client_refuses_calls_with_the_same_error(server: ServerProcess):
    client = AsyncClient(server.address)
    await client.close()
    with pytest.raises(ValueError, match="closed"):
        await client.infer_shape([6], [6], special_zero=False)


async def test_a_cancelled_task_leaves_the_client_usable():
    with run_blocked() as (runner, backend):
        async with AsyncClient(runner.addresses[0]) as client:
            task = asyncio.create_task(client.static_reshape(SIX, [6], special_zero=False))
            assert await asyncio.to_thread(backend.entered.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            backend.released.set()
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)


async def test_awaiting_a_call_blocks_nobody_else():
    with run_blocked() as (runner, _):
        async with AsyncClient(runner.addresses[0]) as client:
            slow = asyncio.create_task(client.static_reshape(SIX, [6], special_zero=False, timeout=60))
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)
            assert not slow.done()
            slow.cancel()
            with pytest.raises((asyncio.CancelledError, CallTimeoutError)):
                await slow


async def test_the_deadline_of_an_asyncio_client_ends_a_call(blocked_address: str):
    async with AsyncClient(blocked_address, timeout=0.2) as client:
        with pytest.raises(CallTimeoutError):
            await client.static_reshape(SIX, [6], special_zero=False)


async def test_unavailable_is_retried_by_an_asyncio_client():
    counted = Counted(grpc.StatusCode.UNAVAILABLE, 2)
    with run_stock({"InferShape": counted}) as address:
        async with AsyncClient(address) as client:
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)
    assert counted.attempts == 3


async def test_metadata_travel_with_every_awaited_call():
    recorder = Recorder()
    with run_stock({"InferShape": answer(GOOD)}, interceptors=[recorder]) as address:
        async with AsyncClient(address, metadata=[("tenant", "a")]) as client:
            await client.infer_shape([6], [6], special_zero=False)
    assert ("tenant", "a") in recorder.metadata
