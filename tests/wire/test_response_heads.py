"""The head of an answer: whatever it says, its elements lie aligned behind it."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_reshape.core.dtypes import DataType
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.arrays import build_array
from tensor_reshape.wire.codec import decode_reshape_response, encode_reshape_response, encode_response_head
from tensor_reshape.wire.tensors import TensorView

ALIGNMENT = 8
MAX = 2**63 - 1
SHAPES: list[tuple[int, ...]] = [(), (2,), (2, 3), (1,) * 12, (1,) * 64, (MAX,) * 64]
BORDERS = [2**7, 2**14, 2**21, 2**28]  # where a length takes one byte more
Response = reshape_pb2.StaticReshapeResponse | reshape_pb2.DynamicReshapeResponse | reshape_pb2.ReshapeResponse
KINDS: list[type[Response]] = [
    reshape_pb2.StaticReshapeResponse,
    reshape_pb2.DynamicReshapeResponse,
    reshape_pb2.ReshapeResponse,
]

dims = st.lists(st.integers(0, 5) | st.integers(0, MAX), max_size=20).map(tuple)
sizes = st.integers(0, 2**31 - 1) | st.builds(
    lambda border, below: border - below, st.sampled_from(BORDERS), st.integers(0, 80)
)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(list(DataType)), dims, sizes)
def test_the_length_of_a_head_is_a_multiple_of_the_widest_element(
    data_type: DataType, shape: tuple[int, ...], size: int
):
    assert len(encode_response_head(data_type, shape, size)) % ALIGNMENT == 0


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"rank {len(shape)}")
def test_no_size_near_a_longer_length_is_an_exception(shape: tuple[int, ...]):
    wrong = [
        size
        for border in BORDERS
        for size in range(max(0, border - 800), border + 20)
        if len(encode_response_head(DataType.F32, shape, size)) % ALIGNMENT
    ]
    assert wrong == []


@settings(deadline=None)
@given(st.sampled_from(list(DataType)), dims, st.binary(max_size=300))
def test_the_generated_classes_read_the_same_tensor(data_type: DataType, shape: tuple[int, ...], payload: bytes):
    raw = encode_response_head(data_type, shape, len(payload)) + payload
    for kind in KINDS:
        output = kind.FromString(raw).output
        assert (output.data_type, tuple(output.dims), tuple(output.strides)) == (int(data_type), shape, ())
        assert output.data == payload


@pytest.mark.parametrize("data_type", DataType, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (7, 1), (2, 3, 4), (57,), (1,) * 12], ids=str)
def test_an_array_of_an_answer_is_aligned(data_type: DataType, shape: Sequence[int]):
    payload = memoryview(bytes(int(np.prod(shape, dtype=int)) * data_type.item_size))
    raw = encode_reshape_response(TensorView(data_type, shape, None, payload))
    array = build_array(decode_reshape_response(raw))
    assert (array.flags.aligned, array.ctypes.data % min(ALIGNMENT, data_type.item_size)) == (True, 0)
