"""Requests and responses that are not read: reason and field of each."""

from mmap import mmap

import pytest

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire import reshapes
from tensor_reshape.wire.fields import encode_varint
from tensor_reshape.wire.tensors import TensorView

MAX = 2**63 - 1
F32 = tensor_pb2.DATA_TYPE_F32
I32 = tensor_pb2.DATA_TYPE_I32
SCALAR = tensor_pb2.Tensor(data_type=F32, data=bytes(4))
STATIC = reshape_pb2.StaticReshapeRequest(special_zero=True, data=SCALAR)


def shape_tensor(data_type: int = I32, dims: tuple[int, ...] = (1,), strides: tuple[int, ...] = (), size: int = 4):
    return tensor_pb2.Tensor(
        data_type=tensor_pb2.DataType.ValueType(data_type), dims=dims, strides=strides, data=bytes(size)
    )


def refuse(operation: Operation, raw: bytes) -> tuple[str, str]:
    with pytest.raises(ReshapeError) as caught:
        reshapes.decode_reshape_request(operation, raw)
    return caught.value.reason, caught.value.field


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
@pytest.mark.parametrize("raw", [b"\x00", b"\x7a", b"\x0b", b"\x7a\x05abc", b"\xff" * 12], ids=bytes.hex)
def test_what_is_no_protobuf_is_malformed(operation: Operation, raw: bytes):
    assert refuse(operation, raw) == (Reason.MESSAGE_MALFORMED, "")


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_the_data_is_required(operation: Operation):
    assert refuse(operation, b"") == (Reason.FIELD_MISSING, "data")


@pytest.mark.parametrize("operation", [DYNAMIC_RESHAPE, RESHAPE], ids=lambda operation: operation.name)
def test_the_shape_is_required_where_it_is_a_tensor(operation: Operation):
    raw = reshape_pb2.ReshapeRequest(special_zero=True, data=SCALAR).SerializeToString()
    assert refuse(operation, raw) == (Reason.FIELD_MISSING, "shape")


def test_a_shape_that_is_an_attribute_may_be_empty():
    assert list(reshapes.decode_reshape_request(STATIC_RESHAPE, STATIC.SerializeToString()).question.target) == []


def test_an_absent_special_zero_is_left_to_the_rules():
    raw = reshape_pb2.StaticReshapeRequest(data=SCALAR).SerializeToString()
    assert reshapes.decode_reshape_request(STATIC_RESHAPE, raw).question.special_zero is None


@pytest.mark.parametrize("number", [0, 1000, -1, 2**31 - 1], ids=str)
def test_a_number_that_is_no_data_type_is_refused(number: int):
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DataType.ValueType(number), data=bytes(4))
    raw = reshape_pb2.StaticReshapeRequest(special_zero=True, data=tensor).SerializeToString()
    assert refuse(STATIC_RESHAPE, raw) == (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type")


# operation, shape tensor, reason, field
TARGETS: dict[str, tuple[Operation, tensor_pb2.Tensor, Reason, str]] = {
    "no type": (RESHAPE, shape_tensor(0), Reason.DATA_TYPE_UNSUPPORTED, "shape.data_type"),
    "floats": (RESHAPE, shape_tensor(F32), Reason.SHAPE_DATA_TYPE_UNSUPPORTED, "shape.data_type"),
    "booleans": (RESHAPE, shape_tensor(1), Reason.SHAPE_DATA_TYPE_UNSUPPORTED, "shape.data_type"),
    "i64 where i32 is meant": (
        DYNAMIC_RESHAPE,
        shape_tensor(5, size=8),
        Reason.SHAPE_DATA_TYPE_UNSUPPORTED,
        "shape.data_type",
    ),
    "rank 0": (RESHAPE, shape_tensor(dims=()), Reason.SHAPE_RANK_INVALID, "shape.dims"),
    "rank 2": (RESHAPE, shape_tensor(dims=(1, 1)), Reason.SHAPE_RANK_INVALID, "shape.dims"),
    "type before rank": (RESHAPE, shape_tensor(F32, ()), Reason.SHAPE_DATA_TYPE_UNSUPPORTED, "shape.data_type"),
    "a negative dim": (RESHAPE, shape_tensor(dims=(-1,)), Reason.DIM_OUT_OF_RANGE, "shape.dims[0]"),
    "too few bytes": (RESHAPE, shape_tensor(dims=(2,)), Reason.DATA_SIZE_MISMATCH, "shape.data"),
    "too many bytes": (RESHAPE, shape_tensor(dims=(0,)), Reason.DATA_SIZE_MISMATCH, "shape.data"),
    "two strides": (RESHAPE, shape_tensor(strides=(1, 1)), Reason.STRIDES_RANK_MISMATCH, "shape.strides"),
    "a negative stride": (RESHAPE, shape_tensor(strides=(-1,)), Reason.STRIDE_NEGATIVE, "shape.strides[0]"),
    "65 items": (RESHAPE, shape_tensor(dims=(65,), size=260), Reason.RANK_LIMIT_EXCEEDED, "shape"),
    "2^40 items of one": (RESHAPE, shape_tensor(dims=(2**40,), strides=(0,)), Reason.RANK_LIMIT_EXCEEDED, "shape"),
    "2^63 - 1 items of one": (
        DYNAMIC_RESHAPE,
        shape_tensor(dims=(MAX,), strides=(0,)),
        Reason.RANK_UNSUPPORTED,
        "shape",
    ),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("operation", "shape", "reason", "field"), TARGETS.values(), ids=TARGETS.keys())
def test_a_shape_tensor_is_refused(operation: Operation, shape: tensor_pb2.Tensor, reason: Reason, field: str):
    raw = reshape_pb2.ReshapeRequest(special_zero=True, shape=shape, data=SCALAR).SerializeToString()
    assert refuse(operation, raw) == (reason, field)


def test_a_stride_that_is_never_taken_may_have_any_length():
    shape = shape_tensor(dims=(1,), strides=(MAX,))
    raw = reshape_pb2.ReshapeRequest(special_zero=True, shape=shape, data=SCALAR).SerializeToString()
    assert reshapes.decode_reshape_request(RESHAPE, raw).question.target == [0]


def pad(size: int) -> bytes:
    """An unknown field of `size` bytes in all."""
    return b"\x22" + encode_varint(size - 4) + bytes(size - 4)


@pytest.mark.parametrize("behind", [False, True], ids=["in front of the tensor", "behind the tensor"])
def test_a_header_has_a_limit(behind: bool):
    raw = STATIC.SerializeToString()
    free = MAX_HEADER_BYTES - len(raw) + 4
    for size in (free, free + 1):
        message = raw + pad(size) if behind else pad(size) + raw
        if size == free:
            assert reshapes.decode_reshape_request(STATIC_RESHAPE, message).data.payload == bytes(4)
        else:
            assert refuse(STATIC_RESHAPE, message) == (Reason.HEAD_TOO_LARGE, "")


def test_a_million_dims_are_above_the_limit_of_a_header():
    tensor = tensor_pb2.Tensor(data_type=F32, dims=[1] * 1_000_000, data=bytes(4))
    raw = reshape_pb2.StaticReshapeRequest(special_zero=True, data=tensor).SerializeToString()
    assert refuse(STATIC_RESHAPE, raw) == (Reason.HEAD_TOO_LARGE, "")


def test_a_superseded_payload_is_no_header():
    large = tensor_pb2.Tensor(data_type=F32, data=bytes(MAX_HEADER_BYTES + 1))
    raw = reshape_pb2.StaticReshapeRequest(special_zero=True, data=large).SerializeToString()
    call = reshapes.decode_reshape_request(STATIC_RESHAPE, raw + STATIC.SerializeToString())
    assert call.data.payload == bytes(4)


# A message of 4 MiB that is all header: it is refused before anything is made of it.
FLOODS: dict[str, bytes] = {
    "numbers": b"\x10\x01" * (2 << 20),
    "empty dims": b"\x1a" + encode_varint(4 << 20) + b"\x0a\x00" * (2 << 20),
    "numbers in a tensor": b"\x7a" + encode_varint(4 << 20) + b"\x08\x0e" * (2 << 20),
    "unknown fields": b"\x22\x00" * (2 << 20),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
@pytest.mark.parametrize("tail", [b"", STATIC.SerializeToString()], ids=["alone", "before a tensor"])
@pytest.mark.timeout(60)
def test_a_flood_of_fields_is_above_the_limit_of_a_header(flood: bytes, tail: bytes):
    assert refuse(STATIC_RESHAPE, flood + tail) == (Reason.HEAD_TOO_LARGE, "")


@pytest.mark.parametrize("tail", [b"", b"\x10\x01"], ids=["in the usual form", "with a field behind the tensor"])
def test_a_request_of_2048_fields_is_read_and_one_of_2049_is_too_large(tail: bytes):
    tensor = SCALAR.SerializeToString()  # two fields, beside the one that it is and special_zero

    def build(fields: int) -> bytes:
        known = b"\x10\x01" + (fields - 1004 - bool(tail)) * b"\x98\x06\x00"
        inner = 1000 * b"\xa0\x06\x00" + tensor
        return known + b"\x7a" + encode_varint(len(inner)) + inner + tail

    assert reshapes.decode_reshape_request(STATIC_RESHAPE, build(2048)).data.payload == bytes(4)
    assert refuse(STATIC_RESHAPE, build(2049)) == (Reason.HEAD_TOO_LARGE, "")


def test_a_response_without_an_output_is_refused():
    with pytest.raises(InvalidRequestError) as caught:
        reshapes.decode_reshape_response(b"")
    assert (caught.value.reason, caught.value.field) == (Reason.FIELD_MISSING, "output")


# dims, strides, bytes, reason, field
OUTPUTS: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None, int, Reason, str]] = {
    "a byte too few": ((2,), None, 7, Reason.DATA_SIZE_MISMATCH, "output.data"),
    "a dim that is negative": ((-1,), None, 4, Reason.DIM_OUT_OF_RANGE, "output.dims[0]"),
    "a volume of ten thousand digits": ((MAX,) * 600, None, 4, Reason.DATA_SIZE_MISMATCH, "output.data"),
    "strides that overlap": ((2, 2), (1, 1), 12, Reason.STRIDES_OVERLAP, "output.strides"),
}


@pytest.mark.parametrize(("dims", "strides", "size", "reason", "field"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_a_response_that_is_not_its_tensor_is_refused(
    dims: tuple[int, ...], strides: tuple[int, ...] | None, size: int, reason: Reason, field: str
):
    output = tensor_pb2.Tensor(data_type=F32, dims=dims, strides=strides, data=bytes(size))
    with pytest.raises(InvalidRequestError) as caught:
        reshapes.decode_reshape_response(reshape_pb2.StaticReshapeResponse(output=output).SerializeToString())
    assert (caught.value.reason, caught.value.field) == (reason, field)


def test_a_tensor_of_2_gib_is_refused_before_it_is_joined():
    with mmap(-1, 2**31) as pages, memoryview(pages) as payload:  # pages that nobody touches take no memory
        data = TensorView(DataType.U8, (2**31,), None, payload)
        question = Question(operation=RESHAPE, data=data.dims, target=(-1,), special_zero=True)
        with pytest.raises(LimitError) as caught:
            reshapes.encode_reshape_request(reshapes.ReshapeCall(question, data))
    assert (caught.value.reason, caught.value.field) == (Reason.MESSAGE_TOO_LARGE, "data")
