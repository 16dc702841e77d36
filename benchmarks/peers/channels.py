"""Stock grpcio channels that send bytes: what any server of the contract costs, without any client of it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import grpc
import numpy as np

from benchmarks.cells import MIB
from benchmarks.peers.stock import OPTIONS, decode, encode
from benchmarks.sessions import Array, Call, Job, ThreadSession
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

SERVICE = "/tensor_reshape.v1.ReshapeService"
_PATHS = {
    "unary": f"{SERVICE}/StaticReshape",
    "stream": f"{SERVICE}/StreamReshape",
    "infer": f"{SERVICE}/InferShape",
    "echo": "/echo/Echo",
}


def serve(address: str) -> None:
    """Serves a method that answers with its request: as little as a stock grpcio server can do."""
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
    server = grpc.server(ThreadPoolExecutor(max_workers=16))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {"Echo": handler}),))
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens one channel for all clients: "unary" or "stream" (StaticReshape), "infer" (InferShape), or "echo"."""
    messages = encode_messages(variant, job)
    channel = stack.enter_context(grpc.insecure_channel(job.address, OPTIONS))

    def connect() -> Call:
        if variant == "stream":
            stream: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(_PATHS[variant])
            return lambda: list(stream(iter(messages)))
        send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_PATHS[variant])
        return partial(send, messages[0])

    return ThreadSession(job, stack, connect, lambda answer: job.check(_read(variant, job, answer)))


def encode_messages(variant: str, job: Job) -> list[bytes]:
    """Returns what a call sends: the one request, or the messages of a stream, in chunks of 1 MiB."""
    if variant == "stream":
        tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=job.array.shape)
        begin = reshape_pb2.StaticReshapeRequest(shape=job.target, special_zero=False, data=tensor)
        data = job.array.view(np.uint8)
        parts: list[dict[str, Any]] = [{"static_reshape": begin}]
        parts += [{"chunk": data[at : at + MIB].tobytes(), "offset": at} for at in range(0, data.size, MIB)]
        return [reshape_pb2.StreamReshapeRequest(**part).SerializeToString() for part in parts]
    if variant == "infer":
        data_shape, target = (
            tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=dim) for dim in dims]) for dims in (job.array.shape, job.target)
        )
        request = reshape_pb2.InferShapeRequest(
            operation=reshape_pb2.OPERATION_STATIC_RESHAPE,
            special_zero=False,
            data=tensor_pb2.TensorSpec(shape=data_shape),
            shape=target,
        )
        return [request.SerializeToString()]
    return [encode(job).SerializeToString()]


def _read(variant: str, job: Job, answer: Any) -> Array:  # noqa: ANN401 - bytes, of a stream a list of them
    if variant == "unary":
        return decode(reshape_pb2.StaticReshapeResponse.FromString(answer))
    if variant == "infer":
        dims = reshape_pb2.InferShapeResponse.FromString(answer).shape.dims
        return job.array.reshape([dim.value for dim in dims])
    if variant == "echo":
        data = reshape_pb2.StaticReshapeRequest.FromString(answer).data.data
        return np.frombuffer(data, np.float32).reshape(job.target)
    begin, *chunks = map(reshape_pb2.StreamReshapeResponse.FromString, answer)
    return np.frombuffer(b"".join(part.chunk for part in chunks), np.float32).reshape(begin.output.dims)
