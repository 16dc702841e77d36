"""grpcio as everybody writes its asyncio servers."""

import asyncio
import sys

import grpc.aio

from benchmarks.servers.messages import OPTIONS, answer
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


async def serve(address: str) -> None:
    """Serves for ever."""
    server = grpc.aio.server(options=OPTIONS)
    reshape_pb2_grpc.add_ReshapeServiceServicer_to_server(Servicer(), server)  # type: ignore[abstract] # one method
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
