"""Clients of an event loop: stock grpcio with generated messages, and the SDK's AsyncClient."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from benchmarks.clients import messages
from benchmarks.clients.sessions import Array, AsyncCall, Job, LoopSession
from tensor_reshape.client import AsyncClient
from tensor_reshape.v1 import reshape_pb2_grpc

_Connected = tuple[AsyncCall, Callable[[], Awaitable[Any]]]


async def connect_stock(job: Job) -> _Connected:
    """Connects a stub."""
    channel = grpc.aio.insecure_channel(job.address, messages.OPTIONS)
    stub = reshape_pb2_grpc.ReshapeServiceStub(channel)

    async def call() -> Array:
        return messages.decode(await stub.StaticReshape(messages.encode(job)))

    return call, channel.close


async def connect_sdk(job: Job) -> _Connected:
    """Connects an AsyncClient."""
    client = AsyncClient(job.address, timeout=math.inf)

    async def call() -> Array:
        return await client.static_reshape(job.array, job.target, special_zero=False)

    return call, client.close


def open_session(job: Job, variant: str) -> LoopSession:
    """Opens one client whose calls are tasks; a variant is "stock" or "sdk"."""
    connect = connect_sdk if variant == "sdk" else connect_stock
    return LoopSession(job, lambda: connect(job))
