"""Requests and responses round-trip without a copy, and unreadable messages are rejected."""

from dataclasses import replace
from mmap import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meters import measure_peak
from plain_requests import encode_reshape_request, encode_reshape_response
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import LimitError, ReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import KnownQuestion, Question
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire import reshapes
from tensor_reshape.wire.fields import encode_varint
from tensor_reshape.wire.methods import OPERATION_METHODS
from tensor_reshape.wire.reshapes import ReshapeCall, decode_stream_request, encode_begin
from tensor_reshape.wire.tensors import TensorView

MIB = 1 << 20
MAX = 2**63 - 1
s64 = st.integers(-(2**63), MAX)
dims = st.lists(st.integers(0, MAX), max_size=5).map(tuple)
expected_dims = st.none() | st.lists(st.none() | s64, max_size=4).map(tuple)
tensors = st.builds(
    TensorView,
    st.sampled_from(list(DataType)),
    dims,
    st.none() | st.lists(s64, min_size=1, max_size=5).map(tuple),
    st.binary(max_size=300).map(memoryview),
)
reshape_calls = st.builds(
    lambda operation, data, target, special_zero, expected: ReshapeCall(
        Question(operation, data.dims, target, special_zero, data.data_type, expected), data
    ),
    st.sampled_from(list(OPERATIONS.values())),
    tensors,
    st.lists(st.integers(-1, 2**31 - 1), max_size=12),
    st.none() | st.booleans(),
    expected_dims,
)


def view_items(items: tuple[int, ...], data_type: DataType = DataType.I32) -> TensorView:
    payload = b"".join(item.to_bytes(data_type.group_bytes, "little", signed=item < 0) for item in items)
    return TensorView(data_type, (len(items),), None, memoryview(payload))


def view_target(question: KnownQuestion) -> TensorView | None:
    return None if question.operation is STATIC_RESHAPE else view_items(tuple(question.target))


def build_call(operation: Operation, size: int = 4) -> ReshapeCall:
    """Flattens `size` bytes of f32."""
    data = TensorView(DataType.F32, (1, size // 4), None, memoryview(bytes(size)))
    question = Question(
        operation=operation, data=data.dims, target=(-1,), special_zero=True, data_type=DataType.F32, expected=(None,)
    )
    return ReshapeCall(question, data)


def encode(operation: Operation, size: int = 4) -> bytes:
    call = build_call(operation, size)
    return encode_reshape_request(call, view_target(call.question))


def read(call: ReshapeCall) -> tuple[object, ...]:
    question, data = call.question, call.data
    lists = [None if one is None else list(one) for one in (question.data, question.target, question.expected)]
    return question.operation, *lists, question.special_zero, question.data_type, data


@given(reshape_calls)
def test_stream_header_is_the_unary_request_without_payload(call: ReshapeCall):
    raw = encode_begin(call, view_target(call.question))
    message = reshape_pb2.StreamReshapeRequest.FromString(raw)
    assert (message.WhichOneof("part"), message.SerializeToString()) == (call.question.operation.name, raw)
    begun = decode_stream_request(raw)
    assert isinstance(begun, ReshapeCall)
    assert read(begun) == read(ReshapeCall(call.question, replace(call.data, payload=memoryview(b""))))


@given(reshape_calls)
def test_reshape_request_encoding_matches_the_protobuf_class(call: ReshapeCall):
    operation = call.question.operation
    raw = encode_reshape_request(call, view_target(call.question))
    assert read(reshapes.decode_reshape_request(operation, raw)) == read(call)
    kind = OPERATION_METHODS[operation].request
    message = kind.FromString(raw)
    if call.data.payload and (operation is STATIC_RESHAPE or call.question.target):
        assert message.SerializeToString() == raw
    else:  # the codec writes an empty field, and the generated class omits it; both messages are equal
        assert kind.FromString(message.SerializeToString()) == message


def test_target_shape_tensor_of_any_integer_type_is_read():
    for data_type in RESHAPE.shape_data_types:
        bits = data_type.bits
        signed = data_type <= DataType.I64
        items = (0, 1, 2 ** (bits - 1) - 1, -1, -(2 ** (bits - 1))) if signed else (0, 1, 2**bits - 1)
        assert reshapes.read_target(RESHAPE, view_items(items, data_type)) == list(items)
    assert reshapes.read_target(DYNAMIC_RESHAPE, view_items(())) == []


def test_strided_target_shape_tensor_is_read():
    rows = [
        (DataType.U8, b"\3\0\4\0\5", 3, 2, [3, 4, 5]),
        (DataType.U8, b"\1", 64, 0, [1] * 64),
        (DataType.U8, b"\7", 1, MAX, [7]),
        (DataType.U16, b"\3\0\1\1\4\0", 2, 2, [3, 4]),
    ]
    for data_type, payload, length, stride, items in rows:
        tensor = TensorView(data_type, (length,), (stride,), memoryview(payload))
        assert reshapes.read_target(RESHAPE, tensor) == items


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=str)
def test_decoded_tensor_payload_is_a_view_of_the_message(operation: Operation):
    raw = encode(operation, 16 * MIB)
    payload = reshapes.decode_reshape_request(operation, raw).data.payload
    assert (payload.obj is raw, payload.nbytes) == (True, 16 * MIB)
    assert measure_peak(lambda: reshapes.decode_reshape_request(operation, raw)) < MIB
    answer = encode_reshape_response(build_call(operation, 16 * MIB).data)
    assert reshapes.decode_reshape_response(answer).payload.obj is answer
    assert measure_peak(lambda: reshapes.decode_reshape_response(answer)) < MIB


def test_tensor_is_the_last_field_of_an_encoded_request():
    raw = encode(RESHAPE, 8)
    assert raw.endswith(b"\x7a\x10\x08\x0e\x12\x02\x01\x02\x7a\x08" + bytes(8))


F32, I32 = tensor_pb2.DATA_TYPE_F32, tensor_pb2.DATA_TYPE_I32
SCALAR = tensor_pb2.Tensor(data_type=F32, data=bytes(4))
EMPTY = reshape_pb2.TargetShape()
STATIC = reshape_pb2.StaticReshapeRequest(shape=EMPTY, special_zero=True, data=SCALAR).SerializeToString()


def reject(operation: Operation, raw: bytes) -> str:
    with pytest.raises(ReshapeError) as caught:
        reshapes.decode_reshape_request(operation, raw)
    return f"{caught.value.reason} {caught.value.field}".strip()


def test_reshape_request_without_required_fields_is_rejected():
    for operation in OPERATIONS.values():
        broken = [b"\x00", b"\x7a", b"\x0b", b"\x7a\x05abc", b"\xff" * 12]
        assert {reject(operation, raw) for raw in broken} == {"MESSAGE_MALFORMED"}
        assert reject(operation, b"") == "FIELD_MISSING data"
        bare = reshape_pb2.StaticReshapeRequest(special_zero=True, data=SCALAR).SerializeToString()
        assert reject(operation, bare) == "FIELD_MISSING shape"


def test_empty_target_shape_in_a_request_means_a_scalar():
    assert reshapes.decode_reshape_request(STATIC_RESHAPE, STATIC).question.target == ()


def test_absent_special_zero_is_decoded_as_none():
    raw = reshape_pb2.StaticReshapeRequest(shape=EMPTY, data=SCALAR).SerializeToString()
    assert reshapes.decode_reshape_request(STATIC_RESHAPE, raw).question.special_zero is None


# operation, data type, dims, strides, bytes of a shape tensor; its rejection
TARGETS: dict[tuple[Operation, int, tuple[int, ...], tuple[int, ...], int], str] = {
    (RESHAPE, 0, (1,), (), 4): "DATA_TYPE_UNSUPPORTED shape.data_type",
    (RESHAPE, F32, (1,), (), 4): "SHAPE_DATA_TYPE_UNSUPPORTED shape.data_type",
    (RESHAPE, I32, (), (), 4): "SHAPE_RANK_INVALID shape.dims",
    (RESHAPE, I32, (1, 1), (), 4): "SHAPE_RANK_INVALID shape.dims",
    (RESHAPE, F32, (), (), 4): "SHAPE_DATA_TYPE_UNSUPPORTED shape.data_type",  # the type before the rank
    (RESHAPE, I32, (-1,), (), 4): "DIM_OUT_OF_RANGE shape.dims[0]",
    (RESHAPE, I32, (2,), (), 4): "DATA_SIZE_MISMATCH shape.data",
    (RESHAPE, I32, (1,), (1, 1), 4): "STRIDES_RANK_MISMATCH shape.strides",
    (RESHAPE, I32, (2**40,), (0,), 4): "RANK_LIMIT_EXCEEDED shape",
    (DYNAMIC_RESHAPE, I32, (MAX,), (0,), 4): "RANK_UNSUPPORTED shape",
}


@pytest.mark.timeout(60)
def test_invalid_target_shape_tensor_is_rejected():
    found = {}
    for operation, number, shape, strides, size in TARGETS:
        tensor = tensor_pb2.Tensor(
            data_type=tensor_pb2.DataType.ValueType(number), dims=shape, strides=strides, data=bytes(size)
        )
        raw = reshape_pb2.ReshapeRequest(special_zero=True, shape=tensor, data=SCALAR).SerializeToString()
        found[operation, number, shape, strides, size] = reject(operation, raw)
    assert found == TARGETS


def pad(size: int) -> bytes:
    """An unknown field with a total size of `size` bytes."""
    return b"\x22" + encode_varint(size - 4) + bytes(size - 4)


@pytest.mark.parametrize("behind", [False, True], ids=["in front of the tensor", "behind the tensor"])
def test_request_header_limit_excludes_the_payload(behind: bool):
    free = MAX_HEADER_BYTES - len(STATIC) + 4
    fits, above = (STATIC + pad(size) if behind else pad(size) + STATIC for size in (free, free + 1))
    assert reshapes.decode_reshape_request(STATIC_RESHAPE, fits).data.payload == bytes(4)
    assert reject(STATIC_RESHAPE, above) == "HEADER_TOO_LARGE"
    superseded = tensor_pb2.Tensor(data_type=F32, data=bytes(MAX_HEADER_BYTES + 1))
    large = reshape_pb2.StaticReshapeRequest(shape=EMPTY, special_zero=True, data=superseded).SerializeToString()
    assert reshapes.decode_reshape_request(STATIC_RESHAPE, large + STATIC).data.payload == bytes(4)


@pytest.mark.timeout(60)
def test_request_with_too_many_fields_is_rejected_before_parsing():
    inner = b"\x7a" + encode_varint(4 << 20) + b"\x08\x0e" * (2 << 20)
    for flood in (b"\x10\x01" * (2 << 20), b"\x22\x00" * (2 << 20), inner):
        assert {reject(STATIC_RESHAPE, flood + tail) for tail in (b"", STATIC)} == {"HEADER_TOO_LARGE"}, flood[:3]


@pytest.mark.parametrize("tail", [b"", b"\x10\x01"], ids=["in the usual form", "with a field behind the tensor"])
def test_reshape_request_has_at_most_2048_fields(tail: bytes):
    tensor = SCALAR.SerializeToString()  # two fields, in addition to the tensor itself, shape and special_zero

    def build(fields: int) -> bytes:
        known = b"\x0a\x00\x10\x01" + (fields - 1005 - bool(tail)) * b"\x98\x06\x00"
        inner = 1000 * b"\xa0\x06\x00" + tensor
        return known + b"\x7a" + encode_varint(len(inner)) + inner + tail

    assert reshapes.decode_reshape_request(STATIC_RESHAPE, build(2048)).data.payload == bytes(4)
    assert reject(STATIC_RESHAPE, build(2049)) == "HEADER_TOO_LARGE"


def test_tensor_of_2_gib_is_rejected_before_copying():
    with mmap(-1, 2**31) as pages, memoryview(pages) as payload:  # unused pages take no memory
        data = TensorView(DataType.U8, (2**31,), None, payload)
        question = Question(operation=RESHAPE, data=data.dims, target=(-1,), special_zero=True)
        with pytest.raises(LimitError) as caught:
            encode_reshape_request(reshapes.ReshapeCall(question, data))
    assert (caught.value.reason, caught.value.field) == ("MESSAGE_TOO_LARGE", "data")
