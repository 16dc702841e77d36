"""StreamReshape calls whose messages a test sends one by one, including invalid messages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeAlias

import grpc
import numpy as np

from tensor_reshape.client.connections import build_error
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.methods import STREAM_RESHAPE
from tensor_reshape.wire.reshapes import Chunk, decode_stream_response, encode_chunk

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]

SECONDS = 60.0
SIX = bytes(range(6))


def begin(
    dims: Sequence[int] = (6,),
    target: Sequence[int] = (-1,),
    strides: Sequence[int] = (),
    data_type: "tensor_pb2.DataType.ValueType" = tensor_pb2.DATA_TYPE_U8,
) -> bytes:
    """Returns the message that begins a tensor, for Reshape without special zeros."""
    shape = tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_I64, dims=[len(target)], data=np.array(target, "<i8").tobytes()
    )
    data = tensor_pb2.Tensor(data_type=data_type, dims=dims, strides=strides)
    header = reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=data)
    return reshape_pb2.StreamReshapeRequest(reshape=header).SerializeToString()


STRIDED = begin((3, 2), (6,), (1, 3))
"""Begins a tensor of six bytes with strides, whose output is 0, 3, 1, 4, 2, 5."""


def chunk(offset: int, payload: bytes) -> bytes:
    return encode_chunk(offset, memoryview(payload))


class RawStream:
    def __init__(self, channel: grpc.Channel, seconds: float, metadata: Metadata = ()) -> None:
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(STREAM_RESHAPE.path)
        # the call object of grpcio
        self.call = method(iter(self._requests.get, None), timeout=seconds, metadata=metadata)

    def send(self, *messages: bytes) -> None:
        for message in messages:
            self._requests.put(message)

    def close(self) -> None:
        self._requests.put(None)

    def accept(self) -> tuple[int, ...]:
        """Waits for the response to a header, and returns the dims of the output."""
        output = decode_stream_response(next(self.call))
        assert not isinstance(output, Chunk)
        return tuple(output.dims)

    def receive(self, size: int) -> bytes:
        """Waits for `size` bytes of the output, in consecutive chunks."""
        received = b""
        while len(received) < size:
            message = decode_stream_response(next(self.call))
            assert isinstance(message, Chunk)
            assert message.offset == len(received)
            received += message.payload
        return received

    def finish(self) -> None:
        """Waits for the end of the call, which must succeed without further responses."""
        self.close()
        assert list(self.call) == []
        assert self.call.code() is grpc.StatusCode.OK

    def reject(self) -> TensorReshapeError:
        """Waits for the end of the call, which must fail, and returns the SDK's exception for it."""
        try:
            for _ in self.call:
                pass
        except grpc.RpcError:
            return build_error(self.call.code(), self.call.details(), self.call.trailing_metadata())
        message = "the call ended well"
        raise AssertionError(message)


@contextmanager
def open_stream(
    channel: grpc.Channel, *messages: bytes, seconds: float = SECONDS, metadata: Metadata = ()
) -> Iterator[RawStream]:
    stream = RawStream(channel, seconds, metadata)
    stream.send(*messages)
    try:
        yield stream
    finally:
        stream.close()
        stream.call.cancel()
