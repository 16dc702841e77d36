"""Stock grpcio channels that send bytes. They measure any server of this API without the cost of a client library."""

from contextlib import ExitStack
from functools import partial
from typing import Any

import grpc
import numpy as np

from benchmarks.contestants import MIB
from benchmarks.peers.stock import OPTIONS, decode, encode
from benchmarks.sessions import Array, Call, Job, ThreadSession
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

SERVICE = "/tensor_reshape.v1.ReshapeService"


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens one channel for all clients; the variant is "unary" or "stream"."""
    messages = encode_messages(variant, job)
    channel = stack.enter_context(grpc.insecure_channel(job.address, OPTIONS))

    def connect() -> Call:
        if variant == "stream":
            stream: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"{SERVICE}/StreamReshape")
            return lambda: list(stream(iter(messages)))
        send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{SERVICE}/StaticReshape")
        return partial(send, messages[0])

    return ThreadSession(job, stack, connect, lambda answer: job.check(_read(variant, answer)))


def encode_messages(variant: str, job: Job) -> list[bytes]:
    """Returns the messages of a call: one request, or the messages of a stream in chunks of 1 MiB."""
    if variant == "unary":
        return [encode(job).SerializeToString()]
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=job.array.shape)
    shape = reshape_pb2.TargetShape(items=job.target)
    begin = reshape_pb2.StaticReshapeRequest(shape=shape, special_zero=False, data=tensor)
    data = job.array.view(np.uint8)
    parts: list[dict[str, Any]] = [{"static_reshape": begin}]
    parts += [{"chunk": data[at : at + MIB].tobytes(), "offset": at} for at in range(0, data.size, MIB)]
    return [reshape_pb2.StreamReshapeRequest(**part).SerializeToString() for part in parts]


def _read(variant: str, answer: Any) -> Array:  # noqa: ANN401 - bytes, or a list of bytes for a stream
    if variant == "unary":
        return decode(reshape_pb2.StaticReshapeResponse.FromString(answer))
    begin, *chunks = map(reshape_pb2.StreamReshapeResponse.FromString, answer)
    return np.frombuffer(b"".join(part.chunk for part in chunks), np.float32).reshape(begin.output.dims)
