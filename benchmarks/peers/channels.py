"""Stock grpcio channels that send bytes: what any server of the contract costs, without any client of it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import grpc
import numpy as np

from benchmarks.cells import MIB
from benchmarks.sessions import Array, Call, Job, ThreadSession
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

SERVICE = "/tensor_reshape.v1.ReshapeService/"
_ECHO = "/echo/Echo"
_LAST_FIELD = b"\x7a"  # tag of field 15, as long as its length says: the tensor, its bytes, a chunk
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a connection for every client
)


def serve(address: str) -> None:
    """Serves a method that answers with its request: as little as a stock grpcio server can do."""
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
    server = grpc.server(ThreadPoolExecutor(max_workers=16))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {"Echo": handler}),))
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens channels that call "unary" or "stream" (StaticReshape), "infer" (InferShape), or "echo"."""

    def connect() -> Call:
        channel = stack.enter_context(grpc.insecure_channel(job.address, _OPTIONS))
        if variant == "stream":
            return partial(_stream, channel.stream_stream(f"{SERVICE}StreamReshape"), encode_stream(job))
        path, request, _ = _UNARY[variant]
        send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
        return partial(send, request(job))

    read = read_stream if variant == "stream" else _UNARY[variant][2]
    return ThreadSession(job, stack, connect, lambda answer: job.check(read(job, answer)))


def encode_static(job: Job) -> bytes:
    """Returns a StaticReshapeRequest in its canonical form."""
    header, tensor = _build_request(job), _build_tensor(job).SerializeToString()
    if job.array.nbytes:
        tensor += _LAST_FIELD + _encode_varint(job.array.nbytes)
    length = _encode_varint(len(tensor) + job.array.nbytes)
    return b"".join((header.SerializeToString(), _LAST_FIELD, length, tensor, job.array.view(np.uint8).data))


def encode_infer(job: Job) -> bytes:
    """Returns an InferShapeRequest for what `encode_static` executes."""
    data, target = (
        tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=dim) for dim in dims]) for dims in (job.array.shape, job.target)
    )
    return reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.OPERATION_STATIC_RESHAPE,
        special_zero=False,
        data=tensor_pb2.TensorSpec(shape=data),
        shape=target,
    ).SerializeToString()


def encode_stream(job: Job) -> list[bytes]:
    """Returns the messages of a stream: what begins the tensor, and its chunks of 1 MiB."""
    begin = _build_request(job)
    begin.data.CopyFrom(_build_tensor(job))
    data = job.array.view(np.uint8).data
    parts: list[dict[str, Any]] = [{"static_reshape": begin}]
    parts += [{"chunk": bytes(data[at : at + MIB]), "offset": at} for at in range(0, len(data), MIB)]
    return [reshape_pb2.StreamReshapeRequest(**part).SerializeToString() for part in parts]


def read_static(job: Job, answer: bytes) -> Array:
    """Returns the array of a StaticReshapeResponse."""
    del job
    output = reshape_pb2.StaticReshapeResponse.FromString(answer).output
    return np.frombuffer(output.data, np.float32).reshape(output.dims)


def read_infer(job: Job, answer: bytes) -> Array:
    """Returns the array under the shape of an InferShapeResponse."""
    dims = reshape_pb2.InferShapeResponse.FromString(answer).shape.dims
    return job.array.reshape([dim.value for dim in dims])


def read_stream(job: Job, answers: list[bytes]) -> Array:
    """Returns the array of a stream's responses."""
    del job
    begin, *chunks = map(reshape_pb2.StreamReshapeResponse.FromString, answers)
    data = b"".join(chunk.chunk for chunk in chunks)
    return np.frombuffer(data, np.float32).reshape(begin.output.dims)


_UNARY: dict[str, tuple[str, Callable[[Job], bytes], Callable[[Job, bytes], Array]]] = {
    "unary": (f"{SERVICE}StaticReshape", encode_static, read_static),
    "infer": (f"{SERVICE}InferShape", encode_infer, read_infer),
    "echo": (_ECHO, encode_static, lambda job, _: job.array.reshape(job.target)),
}
"""Variant: path, what makes the request, what reads the response."""


def _stream(call: "grpc.StreamStreamMultiCallable[bytes, bytes]", messages: list[bytes]) -> list[bytes]:
    requests: Iterator[bytes] = iter(messages)
    return list(call(requests))


def _build_request(job: Job) -> reshape_pb2.StaticReshapeRequest:
    return reshape_pb2.StaticReshapeRequest(shape=job.target, special_zero=False)


def _build_tensor(job: Job) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=job.array.shape)


def _encode_varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
