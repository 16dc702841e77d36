"""A usual grpcio program: a thread pool, and the generated servicer, stub and messages."""

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import numpy as np

from benchmarks.sessions import Array, Job, ThreadSession
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2

OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


class Servicer(reshape_pb2_grpc.ReshapeServiceServicer):
    """Implements StaticReshape, and InferShape for known shapes."""

    def StaticReshape(  # noqa: N802 - the name in the protobuf definition
        self, request: reshape_pb2.StaticReshapeRequest, context: grpc.ServicerContext
    ) -> reshape_pb2.StaticReshapeResponse:
        """Reshapes with numpy."""
        del context
        array = np.frombuffer(request.data.data, np.float32).reshape(request.shape.items)
        output = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=array.shape, data=array.tobytes())
        return reshape_pb2.StaticReshapeResponse(output=output)

    def InferShape(  # noqa: N802 - the name in the protobuf definition
        self, request: reshape_pb2.InferShapeRequest, context: grpc.ServicerContext
    ) -> reshape_pb2.InferShapeResponse:
        """Compares the volumes."""
        if math.prod(request.data.shape.dims) != math.prod(request.shape.items):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the volumes differ")
        return reshape_pb2.InferShapeResponse(shape=tensor_pb2.Shape(dims=request.shape.items))


def serve(address: str) -> None:
    """Serves forever."""
    # The cells with 16 clients need this number of threads.
    server = grpc.server(ThreadPoolExecutor(max_workers=16), options=OPTIONS)
    reshape_pb2_grpc.add_ReshapeServiceServicer_to_server(Servicer(), server)  # type: ignore[abstract] # it implements only one method
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens a stub, which all clients share; the variant is "unary" or "query"."""
    stub = reshape_pb2_grpc.ReshapeServiceStub(stack.enter_context(grpc.insecure_channel(job.address, OPTIONS)))

    def call() -> Array:
        return decode(stub.StaticReshape(encode(job)))

    def ask() -> tuple[int, ...]:
        data = tensor_pb2.TensorSpec(shape=tensor_pb2.Shape(dims=job.array.shape))
        shape, kind = reshape_pb2.TargetShape(items=job.target), reshape_pb2.OPERATION_STATIC_RESHAPE
        query = reshape_pb2.InferShapeRequest(operation=kind, special_zero=False, data=data, shape=shape)
        return tuple(stub.InferShape(query).shape.dims)

    if variant == "query":
        return ThreadSession(job, stack, lambda: ask, job.check_shape)
    return ThreadSession(job, stack, lambda: call, job.check)


def encode(job: Job) -> reshape_pb2.StaticReshapeRequest:
    """Returns the request."""
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=job.array.shape, data=job.array.tobytes())
    shape = reshape_pb2.TargetShape(items=job.target)
    return reshape_pb2.StaticReshapeRequest(shape=shape, special_zero=False, data=data)


def decode(response: reshape_pb2.StaticReshapeResponse) -> Array:
    """Returns the array of a response."""
    return np.frombuffer(response.output.data, np.float32).reshape(response.output.dims)
