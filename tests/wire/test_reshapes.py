"""Requests, responses and streams round-trip without a copy, headers are aligned, and invalid messages are rejected."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from mmap import mmap
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from meters import measure_peak
from plain_requests import encode_reshape_request, encode_reshape_response
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, MAX_RANK, Limits
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import KnownQuestion, Question
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire import reshapes
from tensor_reshape.wire.arrays import DTYPES, build_array
from tensor_reshape.wire.fields import PAYLOAD_TAG, encode_varint, read_field
from tensor_reshape.wire.methods import OPERATION_METHODS
from tensor_reshape.wire.reshapes import (
    DEFAULT_CHUNK_BYTES,
    Chunk,
    ReshapeCall,
    decode_reshape_response,
    decode_stream_request,
    decode_stream_response,
    encode_accept,
    encode_begin,
    encode_chunk,
    encode_response_header,
)
from tensor_reshape.wire.tensors import TensorView
from tests.oracles.varints import find_unreadable

MIB = 1 << 20
MAX = 2**63 - 1
s64 = st.integers(-(2**63), MAX)
dims = st.lists(st.integers(0, MAX), max_size=5).map(tuple)
# In a message, the -1 of an expected shape means unknown, which is None in a query.
expected_dims = st.none() | st.lists(st.none() | s64.filter(lambda dim: dim != -1), max_size=4).map(tuple)
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


@pytest.mark.parametrize("stride", [None, 0, 1])
def test_target_shape_tensor_is_read_up_to_the_rank_limit(stride: int | None):
    def read(operation: Operation, rank: int, **limits: Limits) -> list[int]:
        size = 1 if stride == 0 and rank else rank
        strides = None if stride is None else (stride,)
        return reshapes.read_target(
            operation, TensorView(DataType.I32, (rank,), strides, memoryview(bytes(4 * size))), **limits
        )

    for operation in (DYNAMIC_RESHAPE, RESHAPE):
        assert read(operation, MAX_RANK, limits=Limits(max_rank=8)) == [0] * MAX_RANK
        with pytest.raises(ReshapeError) as caught:
            read(operation, MAX_RANK + 1)
        assert caught.value.metadata["rank"] == str(MAX_RANK + 1)
    with pytest.raises(LimitError) as limited:
        read(RESHAPE, MAX_RANK + 1, limits=Limits(max_rank=8))
    assert limited.value.metadata["limit"] == "8"


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=str)
def test_decoded_tensor_payload_is_a_view_of_the_message(operation: Operation):
    raw = encode(operation, 16 * MIB)
    payload = reshapes.decode_reshape_request(operation, raw).data.payload
    assert (payload.obj is raw, payload.nbytes) == (True, 16 * MIB)
    assert measure_peak(lambda: reshapes.decode_reshape_request(operation, raw)) < MIB
    answer = encode_reshape_response(build_call(operation, 16 * MIB).data)
    assert reshapes.decode_reshape_response(answer).payload.obj is answer
    assert measure_peak(lambda: reshapes.decode_reshape_response(answer)) < MIB


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


def pad(size: int, tag: int = 0x22) -> bytes:
    """An unknown field with a total size of `size` bytes."""
    return bytes([tag]) + encode_varint(size - 4) + bytes(size - 4)


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


def find_payload_field(message: bytes, position: int) -> tuple[int, int]:
    """Returns the begin and the end of the next field 15 of a message, even if the message has only its begin."""
    while (field := read_field(message, position)) and field[0] != PAYLOAD_TAG[0]:
        position = field[2]
    assert field is not None
    return field[1:]


def test_tensor_near_2_gib_is_rejected_before_copying():
    most = 2**31 - 1 - 2 * MAX_HEADER_BYTES
    question = Question(operation=STATIC_RESHAPE, data=(most,), target=(-1,), special_zero=True)
    with mmap(-1, 2**31) as pages, memoryview(pages) as whole:  # unused pages take no memory
        with whole[:most] as payload:
            data = TensorView(DataType.U8, (most,), None, payload)
            header = reshapes.encode_request_header(ReshapeCall(question, data), None)
            tensor, end = find_payload_field(header, 0)
            assert (end, find_payload_field(header, tensor)) == (len(header) + most, (len(header), end))
        for size in (most + 1, 2**31):
            with whole[:size] as payload, pytest.raises(LimitError) as caught:
                reshapes.encode_request_header(ReshapeCall(question, replace(data, payload=payload)), None)
            assert (caught.value.reason, caught.value.field) == ("MESSAGE_TOO_LARGE", "data")
            assert caught.value.metadata == {"size": str(size)}


NO_BYTES = memoryview(b"")
OFFSETS = [0, 1, 127, 128, 2**14 - 1, 2**14, 2**31, 2**35, 2**56, 2**62, MAX]
HEADER = tensor_pb2.Tensor(data_type=F32)

offsets = st.sampled_from(OFFSETS) | st.integers(0, MAX)
payloads = st.binary(max_size=300)


def begin_stream(tensor: tensor_pb2.Tensor | None = HEADER, **fields: object) -> bytes:
    target = reshape_pb2.TargetShape()
    header = reshape_pb2.StaticReshapeRequest(shape=target, special_zero=True, data=tensor, **fields)  # type: ignore[arg-type]
    return reshape_pb2.StreamReshapeRequest(static_reshape=header).SerializeToString()


def reject_message(raw: bytes) -> tuple[str, str]:
    with pytest.raises(ReshapeError) as caught:
        decode_stream_request(raw)
    return caught.value.reason, caught.value.field


def read_chunk(message: object) -> Chunk:
    assert isinstance(message, Chunk)
    return message


def test_chunk_has_one_mebibyte_by_default():
    assert DEFAULT_CHUNK_BYTES == MIB


@given(offsets, payloads)
def test_chunk_encoding_matches_the_protobuf_class(offset: int, payload: bytes):
    raw = encode_chunk(offset, memoryview(payload))
    assert raw == reshape_pb2.StreamReshapeRequest(chunk=payload, offset=offset).SerializeToString()
    assert raw == reshape_pb2.StreamReshapeResponse(chunk=payload, offset=offset).SerializeToString()
    negative = reshape_pb2.StreamReshapeRequest(chunk=payload, offset=-1 - offset).SerializeToString()
    for sent, want in ((raw, offset), (negative, -1 - offset)):
        for chunk in map(read_chunk, (decode_stream_request(sent), decode_stream_response(sent))):
            assert (chunk.offset, bytes(chunk.payload)) == (want, payload)


def test_decoded_chunk_payload_is_a_view_of_the_message():
    for offset in OFFSETS:
        raw = encode_chunk(offset, memoryview(b"abc"))
        for chunk in map(read_chunk, (decode_stream_request(raw), decode_stream_response(raw))):
            assert (chunk.payload.obj is raw, chunk.message is raw) == (True, True), offset


def test_chunk_message_with_unusual_encoding_is_not_forwarded():
    forms = {
        "an offset of zero": b"\x20\x00\x7a\x01a",
        "an offset with zeros in front": b"\x20\x81\x00\x7a\x01a",
        "the offset behind": b"\x7a\x01a\x20\x01",
        "an unknown field": b"\x28\x00\x7a\x01a",
    }
    assert {form: read_chunk(decode_stream_request(raw)).message for form, raw in forms.items()} == dict.fromkeys(forms)


@given(st.sampled_from(list(DataType)), dims)
def test_encoded_stream_accept_message_is_decoded_unchanged(data_type: DataType, shape: tuple[int, ...]):
    raw = encode_accept(TensorView(data_type, shape, None, memoryview(b"not sent")))
    output = reshape_pb2.StreamReshapeResponse.FromString(raw).output
    assert (output.data_type, tuple(output.dims), output.data) == (int(data_type), shape, b"")
    assert decode_stream_response(raw) == TensorView(data_type, shape, None, NO_BYTES)


# message; reason, field
INVALID_MESSAGES: list[tuple[bytes, Reason, str]] = [
    (b"\xff", Reason.MESSAGE_MALFORMED, ""),
    (b"\x7a\x05ab", Reason.MESSAGE_MALFORMED, ""),  # a truncated chunk
    (b"", Reason.FIELD_MISSING, "part"),
    (b"\x20\x05", Reason.FIELD_MISSING, "part"),
    (begin_stream(None), Reason.FIELD_MISSING, "data"),
    (begin_stream(tensor_pb2.Tensor(data_type=F32, data=bytes(4))), Reason.CHUNK_UNEXPECTED, "data.data"),
    (begin_stream(tensor_pb2.Tensor(data_type=F32, data=bytes(MAX_HEADER_BYTES))), Reason.HEADER_TOO_LARGE, ""),
    (begin_stream(tensor_pb2.Tensor()), Reason.DATA_TYPE_UNSUPPORTED, "data.data_type"),
    (
        reshape_pb2.StreamReshapeRequest(reshape=reshape_pb2.ReshapeRequest(data=HEADER)).SerializeToString(),
        Reason.FIELD_MISSING,
        "shape",
    ),
    *((field * (2 << 20), Reason.HEADER_TOO_LARGE, "") for field in (b"\x20\x01", b"\x2a\x00", b"\x0a\x00")),
]


@pytest.mark.timeout(60)
def test_undecodable_stream_message_is_rejected():
    for raw, reason, field in INVALID_MESSAGES:
        assert reject_message(raw) == (reason, field), raw[:20]


def test_last_oneof_field_of_a_stream_message_applies():
    assert bytes(read_chunk(decode_stream_request(begin_stream() + b"\x7a\x01a")).payload) == b"a"
    assert isinstance(decode_stream_request(b"\x7a\x01a" + begin_stream()), ReshapeCall)


@pytest.mark.parametrize("message", [begin_stream(), b"\x7a\x01a"], ids=["beginning", "chunk"])
@pytest.mark.parametrize("behind", [False, True], ids=["in front", "behind"])
def test_header_size_of_stream_messages_is_limited(message: bytes, behind: bool):
    free = MAX_HEADER_BYTES - len(message) + message.count(b"a")  # the byte of the chunk does not count as a header
    fits, above = ((message + pad(size, 0x2A) if behind else pad(size, 0x2A) + message) for size in (free, free + 1))
    decode_stream_request(fits)
    assert reject_message(above) == (Reason.HEADER_TOO_LARGE, "")


ALIGNMENT = 8
BORDERS = [2**7, 2**14, 2**21, 2**28]  # sizes at which a length needs one more byte
SHAPES: list[tuple[int, ...]] = [
    *[(), (0,), (1,), (3,), (7, 1), (2, 3, 4), (57,), (1,) * 12, (1,) * 64],
    *[(0, MAX), (MAX, 0), (0, *(MAX,) * 63), (*(MAX,) * 63, 0)],
]
Response = reshape_pb2.StaticReshapeResponse | reshape_pb2.DynamicReshapeResponse | reshape_pb2.ReshapeResponse
KINDS: list[type[Response]] = [
    reshape_pb2.StaticReshapeResponse,
    reshape_pb2.DynamicReshapeResponse,
    reshape_pb2.ReshapeResponse,
]
TINY = st.sampled_from([1, 1, 1, 2, 3])
# Every shape that a message can contain, including shapes without elements whose other dims are huge.
FULL = st.lists(TINY, max_size=24) | st.builds(
    lambda before, dim, after: [*before, dim, *after],
    st.lists(st.just(1), max_size=63),
    st.integers(1, 2**31 - 1000) | st.builds(int.__add__, st.sampled_from(BORDERS), st.integers(-80, 9)),
    st.lists(st.just(1), max_size=10),
)
WITHOUT_ELEMENTS = st.builds(
    lambda before, after: [*before, 0, *after],
    *[st.lists(st.integers(0, 5) | st.integers(0, MAX), max_size=32)] * 2,
)


def measure(data_type: DataType, dims: list[int] | tuple[int, ...]) -> int:
    return data_type.count_bytes(prod(dims))


def fits(tensor: tuple[DataType, list[int]]) -> bool:
    return measure(*tensor) < 2**31 - 1000


typed_shapes = st.tuples(st.sampled_from(list(DataType)), FULL | WITHOUT_ELEMENTS).filter(fits)
small_shapes = typed_shapes.filter(lambda tensor: measure(*tensor) < 2**16)


def list_misread(header: bytes) -> list[str]:
    """Returns the parts of a header that some parser would misread. The payload is not there."""
    findings = find_unreadable(reshape_pb2.ReshapeResponse, header)
    return [finding for finding in findings if "bytes behind it" not in finding]


@examples(1000)
@given(typed_shapes)
def test_padded_varints_are_read_by_every_protobuf_parser(tensor: tuple[DataType, list[int]]):
    header = encode_response_header(*tensor, measure(*tensor))
    assert len(header) % ALIGNMENT == 0
    assert list_misread(header) == []


def count_varint_bytes(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def measure_aligned(dims: Sequence[int], payload_bytes: int) -> int:
    """Returns the size of a header whose lengths suffice for 7 bytes of padding, rounded up to a multiple of 8."""
    packed = sum(map(count_varint_bytes, dims))
    least = 2 + 1 + count_varint_bytes(payload_bytes) + (1 + count_varint_bytes(packed + 7) + packed if dims else 0)
    return -(-(1 + count_varint_bytes(least + 7 + payload_bytes) + least) // ALIGNMENT) * ALIGNMENT


def test_response_headers_are_aligned_near_varint_size_boundaries():
    tensors: list[tuple[list[int], int]] = [
        ([size, *[1] * (rank - 1)], size)
        for rank in (1, 2, 12, 20, 64)
        for border in BORDERS
        for size in range(max(0, border - 300), border + 20)
    ]
    # the dims have about 128 bytes
    tensors += [
        ([2**56] * number + [2**7] * (64 - number - ones) + [1] * ones + [0], 0)
        for number in range(2)
        for ones in range(40)
    ]
    for dims, size in tensors:
        header = encode_response_header(DataType.U8, dims, size)
        assert len(header) == measure_aligned(dims, size), (dims, size)
        assert list_misread(header) == [], (dims, size)


# The parts of a header: the length of the message, the type, the dims with their length, and the length of the payload.
HEADERS: dict[tuple[DataType, tuple[int, ...]], str] = {
    (DataType.F32, ()): "7a888000 080e 7a04",
    (DataType.BOOLEAN, (0,)): "7a0e 0801 12088080808080808000 7a00",
    (DataType.F32, (2, 3)): "7a26 080e 12088280808080800003 7a18",
    (DataType.U8, (128, 255)): "7a8cff01 0806 12048001ff01 7a80ff01",
    (DataType.U8, (2**21,)): "7a93808001 0806 128900808080818080808000 7a80808001",
    (DataType.U8, (2**14, 255)): "7a9380ff01 0806 120a 808001 ff818080808000 7a8080ff01",
    (DataType.F64, (2**14, 128)): "7a93808008 080f 120a80800180818080808000 7a80808008",
    (DataType.I64, (0, 2**62)): "7a16 0805 1210 80808080808000 808080808080808040 7a00",
}


def test_response_header_has_exactly_these_bytes():
    for (data_type, dims), text in HEADERS.items():
        assert encode_response_header(data_type, dims, measure(data_type, dims)).hex() == text.replace(" ", "")


@given(small_shapes, st.randoms())
def test_padded_response_header_is_decoded_by_the_protobuf_class(tensor: tuple[DataType, list[int]], random: Random):
    data_type, dims = tensor
    payload = random.randbytes(measure(*tensor))
    raw = encode_response_header(data_type, dims, len(payload)) + payload
    plain = reshape_pb2.ReshapeResponse.FromString(raw).SerializeToString()
    assert len(raw) - len(plain) in range(ALIGNMENT + 3)
    for kind in KINDS:
        output = kind.FromString(raw).output
        assert (output.data_type, list(output.dims), list(output.strides)) == (int(data_type), dims, [])
        assert output.data == payload


def test_response_payload_is_aligned_in_memory():
    for data_type, shape in product(DataType, SHAPES):
        payload = memoryview(bytes(measure(data_type, shape)))
        raw = encode_reshape_response(TensorView(data_type, shape, None, payload))
        output = decode_reshape_response(raw)
        assert output == TensorView(data_type, shape, None, payload)
        assert find_unreadable(reshape_pb2.ReshapeResponse, raw) == []
        assert (len(raw) - payload.nbytes) % ALIGNMENT == 0, (data_type, shape)
        if data_type in DTYPES and not data_type.is_packed and MAX not in shape:
            array = build_array(output)
            assert array.flags.aligned
            assert array.ctypes.data % min(ALIGNMENT, data_type.group_bytes) == 0, (data_type, shape)
