"""Requests that the generated classes write, for calls without the SDK, and whole messages of the operations."""

from collections.abc import Sequence

from http2 import SERVICE_PATH, Connection
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.reshapes import ReshapeCall, encode_request_header, encode_response_header
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


def build_chunk(offset: int, payload: bytes) -> bytes:
    return reshape_pb2.StreamReshapeRequest(offset=offset, chunk=payload).SerializeToString()


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
    data = call.data
    question = call.question._replace(data=data.dims, data_type=data.data_type)
    return encode_request_header(question, data.strides, data.payload.nbytes, shape) + data.payload


def encode_reshape_response(output: TensorView) -> bytes:
    """Returns an encoded response, which has the same form for every operation."""
    return encode_response_header(output.data_type, output.dims, output.payload.nbytes) + output.payload
