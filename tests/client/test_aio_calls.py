"""The end of calls of the asyncio client. `test_retries_on_the_wire` tests the retries of both clients."""

import asyncio

import numpy as np
import pytest

from in_process import run_blocked
from server_processes import ServerProcess
from tensor_reshape.client import AsyncClient, CallTimeoutError, ServiceError

SIX = np.arange(6, dtype=np.float32)


async def test_async_client_keeps_no_reference_to_finished_streams(server: ServerProcess):
    async with AsyncClient(server.address) as client:
        await client.reshape(SIX, [6], special_zero=False, transfer="stream")
        with pytest.raises(CallTimeoutError):
            await client.reshape(np.zeros(1 << 22), [-1], special_zero=False, transfer="stream", timeout=1e-3)
        assert client._calls._streams == set()


async def test_closing_an_async_client_ends_its_calls_with_an_error():
    with run_blocked() as (runner, blocked):
        async with AsyncClient(runner.addresses[0]) as client:
            call = asyncio.create_task(client.static_reshape(SIX, [6], special_zero=False))
            await asyncio.to_thread(blocked.entered.wait)
        with pytest.raises(ServiceError, match="the client was closed"):
            await call
