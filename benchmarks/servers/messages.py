"""grpcio as everybody writes its servers: a thread pool, the generated servicer, the generated messages."""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2

OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


class Servicer(reshape_pb2_grpc.ReshapeServiceServicer):
    """Answers StaticReshape."""

    def StaticReshape(  # noqa: N802 - the contract's name
        self, request: reshape_pb2.StaticReshapeRequest, context: grpc.ServicerContext
    ) -> reshape_pb2.StaticReshapeResponse:
        """Reshapes with numpy."""
        del context
        return answer(request)


def answer(request: reshape_pb2.StaticReshapeRequest) -> reshape_pb2.StaticReshapeResponse:
    """Returns the response."""
    array = np.frombuffer(request.data.data, np.float32).reshape(request.shape)
    output = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=array.shape, data=array.tobytes())
    return reshape_pb2.StaticReshapeResponse(output=output)


def main() -> None:
    """Serves on the address that is the argument."""
    server = grpc.server(ThreadPoolExecutor(max_workers=16), options=OPTIONS)
    reshape_pb2_grpc.add_ReshapeServiceServicer_to_server(Servicer(), server)  # type: ignore[abstract] # one method
    server.add_insecure_port(sys.argv[1])
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
