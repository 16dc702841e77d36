"""The asyncio client: its calls and their end, its life cycle, and its use by several tasks."""

import asyncio

import numpy as np
import pytest

from in_process import run_blocked
from server_processes import ServerProcess
from tensor_reshape.client import AsyncClient, CallTimeoutError, HealthStatus, ServiceError

SIX = np.arange(6, dtype=np.float32)
NOBODY = "127.0.0.1:1"


def test_async_client_needs_a_running_event_loop():
    with pytest.raises(RuntimeError, match="needs a running event loop: create it in a coroutine, or use a Client"):
        AsyncClient(NOBODY)


async def test_async_client_rejects_a_plain_with_statement():
    with pytest.raises(TypeError, match="or `async with AsyncClient"), AsyncClient(NOBODY):  # type: ignore[attr-defined]
        pass


async def test_concurrent_tasks_can_share_one_async_client(server: ServerProcess):
    async with AsyncClient(server.address) as client:
        await client.wait_until_ready(timeout=60)
        assert await client.check_health() is HealthStatus.SERVING
        shapes = await asyncio.gather(*(client.infer_shape([n], [-1], special_zero=False) for n in range(200)))
    assert shapes == [(n,) for n in range(200)]


async def test_async_client_works_after_a_cancelled_task():
    with run_blocked() as (runner, backend):
        async with AsyncClient(runner.addresses[0]) as client:
            task = asyncio.create_task(client.static_reshape(SIX, [6], special_zero=False))
            assert await asyncio.to_thread(backend.entered.wait, 10)
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)  # the other call does not block it
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            backend.released.set()
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)


async def test_async_client_keeps_no_reference_to_finished_streams(server: ServerProcess):
    async with AsyncClient(server.address) as client:
        await client.reshape(SIX, [6], special_zero=False, transfer="stream")
        with pytest.raises(CallTimeoutError):
            await client.reshape(np.zeros(1 << 22), [-1], special_zero=False, transfer="stream", timeout=1e-3)
        assert client._streams == set()


async def test_closing_an_async_client_ends_its_calls_with_an_error():
    with run_blocked() as (runner, blocked):
        async with AsyncClient(runner.addresses[0]) as client:
            call = asyncio.create_task(client.static_reshape(SIX, [6], special_zero=False))
            await asyncio.to_thread(blocked.entered.wait)
        with pytest.raises(ServiceError, match="the client was closed"):
            await call
