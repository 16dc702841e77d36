"""What a header of 64 KiB costs, counted in calls: whatever fills it, and to whichever method it goes."""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import pytest

from call_counts import count_calls
from tensor_reshape.rules.limits import DEFAULT_LIMITS, LIGHT_HEADER_BYTES, MAX_HEADER_BYTES
from tensor_reshape.server.service.methods import Method, ReshapeService
from tensor_reshape.server.service.stream_sessions import StreamSession
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.fields import encode_varint

Build: TypeAlias = Callable[[int], dict[str, bytes]]

MOST_CALLS = 30_000
MOST_LIGHT_CALLS = 4_000

TENSOR = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_U32, dims=[1]).SerializeToString() + b"\x7a\x04abcd"
SHAPE = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[1], data=b"\x01").SerializeToString()
UNKNOWN = b"\xa0\x06\x01"


def field(number: int, content: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(content)) + content


def write(dim: tensor_pb2.Dim) -> bytes:
    return field(1, dim.SerializeToString())


ONE = write(tensor_pb2.Dim(value=1))
DIMS = {
    "unknown dims": write(tensor_pb2.Dim()),
    "dims": ONE,
    "zeros": write(tensor_pb2.Dim(value=0)),
    "intervals": write(tensor_pb2.Dim(interval=tensor_pb2.Interval(min=1, max=5))),
    "symbols": write(tensor_pb2.Dim(symbol=tensor_pb2.Symbol(name="a"))),
}
FACTOR = field(2, tensor_pb2.Symbol(name="a").SerializeToString())


def fill(piece: bytes, size: int) -> bytes:
    return piece * ((size - 64) // len(piece))


@cache
def build_reshape_headers(size: int) -> dict[str, bytes]:
    """Returns requests of Reshape whose header has about `size` bytes."""
    known = field(1, SHAPE) + b"\x10\x01"
    tensor = field(15, TENSOR)
    expected = {f"expected {name}": known + field(3, fill(dim, size)) + tensor for name, dim in DIMS.items()}
    return expected | {
        "unknown fields": fill(UNKNOWN, size) + known + tensor,
        "unknown fields of the tensor": known + field(15, fill(UNKNOWN, size) + TENSOR),
        "dims one by one": known + field(15, fill(b"\x10\x01", size) + TENSOR),
        "strides one by one": known + field(15, fill(b"\x18\x01", size) + TENSOR),
        "packed dims": known + field(15, field(2, fill(b"\x01", size)) + TENSOR),
        "shapes": fill(field(1, b"\x08\x05"), size) + known + tensor,
        "tensors": known + fill(field(15, b"\x08\x06"), size) + tensor,
        "tensors of fields": known + 8 * field(15, fill(UNKNOWN, size // 8)) + tensor,
        "expected shapes": known + fill(field(3, b"\x0a\x00"), size) + tensor,
        "groups": fill(b"\xa3\x06\xa4\x06", size) + known + tensor,
        "factors": known + field(3, field(1, field(4, fill(FACTOR, size)))) + tensor,
    }


@cache
def build_questions(size: int) -> dict[str, bytes]:
    """Returns requests of InferShape of about `size` bytes."""
    begin = b"\x08\x03\x10\x01"
    data, target = field(3, field(2, ONE)), field(4, ONE)
    headers = {
        "factors": begin + field(3, field(2, field(1, field(4, fill(FACTOR, size))))) + target,
        "strides": begin + data + target + field(7, field(1, fill(b"\x01", size))),
        "unknown fields": begin + data + target + fill(UNKNOWN, size),
    }
    for name, dim in DIMS.items():
        shape = fill(dim, size)
        headers[f"data of {name}"] = begin + field(3, field(2, shape)) + target
        headers[f"a target of {name}"] = begin + data + field(4, shape)
        headers[f"an expected shape of {name}"] = begin + data + target + field(5, shape)
        headers[f"nothing but an expected shape of {name}"] = begin + field(3, b"") + field(5, shape) + b"\x30\x01"
    return headers


HEADS = [
    *(("Reshape", name, build_reshape_headers) for name in build_reshape_headers(MAX_HEADER_BYTES)),
    *(("InferShape", name, build_questions) for name in build_questions(MAX_HEADER_BYTES)),
]


@pytest.fixture
def service() -> ReshapeService:
    return ReshapeService(DEFAULT_LIMITS)


def find_method(service: ReshapeService, name: str) -> Method:
    return next(method for method in service.methods.unary if method.name.endswith(f"/{name}"))


@pytest.mark.parametrize(("method", "name", "build"), HEADS, ids=[f"{method}: {name}" for method, name, _ in HEADS])
def test_no_head_takes_more_calls_than_a_bound(service: ReshapeService, method: str, name: str, build: Build):
    answer, head = find_method(service, method).answer, build(MAX_HEADER_BYTES)[name]
    assert count_calls(lambda: answer(head, lambda: False)) <= MOST_CALLS


@pytest.mark.parametrize("size", [512, 1024, LIGHT_HEADER_BYTES, MAX_HEADER_BYTES])
@pytest.mark.parametrize(("method", "name", "build"), HEADS, ids=[f"{method}: {name}" for method, name, _ in HEADS])
def test_no_head_takes_many_calls_on_the_serving_thread(
    service: ReshapeService, method: str, name: str, build: Build, size: int
):
    answer, head = find_method(service, method).answer_light, build(size)[name]
    assert count_calls(lambda: answer(head)) <= MOST_LIGHT_CALLS


@pytest.mark.parametrize("size", [512, LIGHT_HEADER_BYTES, MAX_HEADER_BYTES])
@pytest.mark.parametrize("name", build_reshape_headers(512))
def test_no_head_of_a_stream_takes_many_calls(name: str, size: int):
    request = reshape_pb2.ReshapeRequest.FromString(build_reshape_headers(size)[name])
    request.data.ClearField("data")
    raw = field(3, request.SerializeToString())
    session = StreamSession(DEFAULT_LIMITS, lambda _: None)
    most = MOST_CALLS if session.takes_long(raw) else MOST_LIGHT_CALLS
    assert count_calls(lambda: list(session.receive(raw))) <= most
