"""Response headers are readable by every protobuf parser, and the elements after them are aligned."""

from itertools import product
from math import prod
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from plain_requests import encode_reshape_response
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.arrays import DTYPES, build_array
from tensor_reshape.wire.reshapes import decode_reshape_response, encode_response_header
from tensor_reshape.wire.tensors import TensorView
from tests.oracles.varints import find_unreadable

ALIGNMENT = 8
MAX = 2**63 - 1
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
EMPTY = st.builds(
    lambda before, after: [*before, 0, *after],
    *[st.lists(st.integers(0, 5) | st.integers(0, MAX), max_size=32)] * 2,
)


def measure(data_type: DataType, dims: list[int] | tuple[int, ...]) -> int:
    return data_type.count_bytes(prod(dims))


def fits(tensor: tuple[DataType, list[int]]) -> bool:
    return measure(*tensor) < 2**31 - 1000


tensors = st.tuples(st.sampled_from(list(DataType)), FULL | EMPTY).filter(fits)
small_tensors = tensors.filter(lambda tensor: measure(*tensor) < 2**16)


@examples(1000)
@given(tensors)
def test_padded_varints_are_read_by_every_protobuf_parser(tensor: tuple[DataType, list[int]]):
    header = encode_response_header(*tensor, measure(*tensor))
    assert len(header) % ALIGNMENT == 0
    findings = find_unreadable(reshape_pb2.ReshapeResponse, header)
    assert [finding for finding in findings if "bytes behind it" not in finding] == []  # the payload is not there


def test_response_headers_are_aligned_near_varint_size_boundaries():
    wrong = [
        (rank, size)
        for rank in (1, 2, 12, 20, 64)
        for border in BORDERS
        for size in range(max(0, border - 300), border + 20)
        if len(encode_response_header(DataType.U8, (size, *(1,) * (rank - 1)), size)) % ALIGNMENT
    ]
    assert wrong == []


@given(small_tensors, st.randoms())
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
