"""grpcio as everybody writes it with asyncio."""

import asyncio
from contextlib import ExitStack
from functools import partial

import grpc.aio

from benchmarks.peers.stock import OPTIONS, answer, decode, encode
from benchmarks.sessions import Array, AsyncCall, Job, LoopSession
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc


class Servicer(reshape_pb2_grpc.ReshapeServiceServicer):
    """Answers StaticReshape."""

    async def StaticReshape(  # noqa: N802 - the contract's name
        self,
        request: reshape_pb2.StaticReshapeRequest,
        context: "grpc.aio.ServicerContext[reshape_pb2.StaticReshapeRequest, reshape_pb2.StaticReshapeResponse]",
    ) -> reshape_pb2.StaticReshapeResponse:
        """Reshapes with numpy."""
        del context
        return answer(request)


def serve(address: str) -> None:
    """Serves for ever."""
    asyncio.run(_serve(address))


def open_session(variant: str, job: Job, stack: ExitStack) -> LoopSession:
    """Opens one stub whose calls are tasks; there is one variant."""
    del variant
    return LoopSession(job, stack, partial(_connect, job))


async def _serve(address: str) -> None:
    server = grpc.aio.server(options=OPTIONS)
    reshape_pb2_grpc.add_ReshapeServiceServicer_to_server(Servicer(), server)  # type: ignore[abstract] # one method
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


async def _connect(job: Job) -> tuple[AsyncCall, AsyncCall]:
    channel = grpc.aio.insecure_channel(job.address, OPTIONS)
    stub = reshape_pb2_grpc.ReshapeServiceStub(channel)

    async def call() -> Array:
        return decode(await stub.StaticReshape(encode(job)))

    return call, partial(channel.close, None)
