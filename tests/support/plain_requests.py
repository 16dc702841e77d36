"""Requests and streams without the SDK, also invalid ones, and rejections as a client receives them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeAlias, cast

import grpc
import numpy as np
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from http2 import SERVICE_PATH, Connection
from tensor_reshape.client.connections import build_error
from tensor_reshape.rules.errors import ReshapeError, TensorReshapeError
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.methods import SERVICE, STREAM_RESHAPE
from tensor_reshape.wire.reshapes import (
    Chunk,
    ReshapeCall,
    decode_stream_response,
    encode_chunk,
    encode_request_header,
    encode_response_header,
)
from tensor_reshape.wire.tensors import TensorView

STATIC_RESHAPE = f"{SERVICE_PATH}StaticReshape"
INFER, INFERRED = b"\x08\x01\x10\x00\x1a\x02\x12\x00\x22\x00", b"\x0a\x00\x20\x01"
"""The shortest InferShape request, for a scalar that stays a scalar, and its response."""


def build_static_request(size: int = 24) -> bytes:
    """Returns a StaticReshape request that flattens `size` zero bytes of F32."""
    return build_request((size // 4,), bytes(size))


def build_request(
    dims: Sequence[int], payload: bytes, *, strides: Sequence[int] = (), target: Sequence[int] = (-1,)
) -> bytes:
    """Returns a StaticReshape request of F32, whose values may contradict each other."""
    return _make_request(dims, payload, strides, target).SerializeToString()


def build_reshape(size: int, target: int = -1) -> bytes:
    """Returns a Reshape request of `size` zero bytes of U8 to one dim, which may not fit."""
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_U8, dims=[size], data=bytes(size))
    shape = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[1], data=target.to_bytes(1, "big", signed=True))
    return reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=data).SerializeToString()


def build_begin(dims: Sequence[int], *, strides: Sequence[int] = ()) -> bytes:
    """Returns the message of a stream that begins a tensor and flattens it."""
    request = _make_request(dims, b"", strides, (-1,))
    return reshape_pb2.StreamReshapeRequest(static_reshape=request).SerializeToString()


def _make_request(
    dims: Sequence[int], payload: bytes, strides: Sequence[int], target: Sequence[int]
) -> reshape_pb2.StaticReshapeRequest:
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=dims, strides=strides, data=payload)
    shape = reshape_pb2.TargetShape(items=target)
    return reshape_pb2.StaticReshapeRequest(shape=shape, special_zero=False, data=data)


def can_call(address: str) -> bool:
    try:
        with Connection(address) as connection:
            return connection.call(STATIC_RESHAPE, build_static_request()).is_ok
    except OSError:
        return False


def encode_reshape_request(call: ReshapeCall, shape: TensorView | None = None) -> bytes:
    """Returns an encoded request. `shape` is the requested shape as a tensor, or None for StaticReshape."""
    return encode_request_header(call, shape) + call.data.payload


def encode_reshape_response(output: TensorView) -> bytes:
    """Returns an encoded response, which has the same form for every operation."""
    return encode_response_header(output.data_type, output.dims, output.payload.nbytes) + output.payload


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


def send_raw(channel: grpc.Channel, method: str, request: bytes, timeout: float = 60, metadata: Metadata = ()) -> bytes:
    """Sends bytes unchanged to a method of the service, or to another path, and returns the bytes of the response."""
    path = method if method.startswith("/") else f"/{SERVICE}/{method}"
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    return call(request, timeout=timeout, metadata=metadata)


def catch_status(call: Callable[[], object]) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def catch_remote(call: Callable[[], object]) -> TensorReshapeError:
    """Returns the SDK's exception for the status of a call."""
    status = catch_status(call)
    return build_error(status.code(), status.details(), read_trailing(status).items())


def read_trailing(status: grpc.RpcError | grpc.Call) -> dict[str, str | bytes]:
    """Returns the trailing metadata, which are pairs although their type stubs differ."""
    pairs = cast("Iterable[tuple[str, str | bytes]]", status.trailing_metadata())
    return dict(pairs)


def read_retry_seconds(status: grpc.RpcError | grpc.Call) -> float | None:
    """Returns the retry delay of the server; None if there is none."""
    packed, info = read_trailing(status).get("grpc-status-details-bin", b""), RetryInfo()
    assert isinstance(packed, bytes)
    asked = any(detail.Unpack(info) for detail in Status.FromString(packed).details)
    return info.retry_delay.ToTimedelta().total_seconds() if asked else None


def catch_local(call: Callable[[], object]) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        call()
    return caught.value


def describe(error: TensorReshapeError) -> tuple[type, str, str, dict[str, str]]:
    """Returns the parts of an exception that a caller may rely on."""
    assert isinstance(error, ReshapeError), error
    return type(error), error.reason, error.field, error.metadata
