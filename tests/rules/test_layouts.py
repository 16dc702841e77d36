"""Layouts: spans, sizes, and strides that give two elements the same position."""

import itertools
from math import prod
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules import layouts
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.layouts import check_layout, check_volume, compute_span

MAX = 2**63 - 1

Dims = tuple[int, ...]


def reject(data_type: DataType, dims: Dims, strides: Dims | None, size: int) -> InvalidRequestError | None:
    """Returns the error of a layout; None if it is accepted."""
    try:
        check_layout(data_type, dims, strides, size, field="data")
    except InvalidRequestError as error:
        return error
    return None


def find_reason(dims: Dims, strides: Dims) -> str | None:
    """Returns the reason for which a layout with all its bytes is rejected; None if it is accepted."""
    error = reject(DataType.U8, dims, strides, compute_span(dims, strides))
    return None if error is None else error.reason


# dims, strides; span
SPANS: dict[tuple[Dims, Dims], int] = {
    ((), ()): 1,
    ((2, 3), (3, 1)): 6,
    ((2, 3), (1, 2)): 6,
    ((2, 4, 3, 3), (36, 1, 12, 4)): 72,
    ((2, 3), (8, 1)): 11,
    ((4,), (3,)): 10,
    ((5, 3), (0, 1)): 3,
    ((2**40, 2**40), (0, 0)): 1,
    ((1, 3), (MAX, 1)): 3,  # a dim of 1 needs no space
    ((0,), (1,)): 0,
    ((MAX, 0, MAX), (MAX, MAX, MAX)): 0,
    ((MAX, MAX), (MAX, 1)): 1 + (MAX - 1) * MAX + MAX - 1,
}


def test_strided_tensor_size_must_match_its_span():
    assert {row: compute_span(*row) for row in SPANS} == SPANS
    for ((dims, strides), span), data_type in itertools.product(
        SPANS.items(), (DataType.I8, DataType.BF16, DataType.F64)
    ):
        size = span * data_type.group_bytes
        assert reject(data_type, dims, strides, size) is None
        for other in (size - 1, size + 1, size + data_type.group_bytes):
            error = reject(data_type, dims, strides, other)
            assert error is not None
            assert (error.reason, error.field) == (Reason.DATA_SIZE_MISMATCH, "data.data")
            assert error.metadata == {"have": str(other), "want": str(size)}


def test_dense_tensor_size_must_match_its_volume():
    shapes: list[Dims] = [(), (1,), (2, 3), (3, 3), (0, 3), (0, MAX, MAX), (MAX, MAX)]
    for data_type, dims in itertools.product(DataType, shapes):
        size = -(-prod(dims) * data_type.bits // 8)
        assert reject(data_type, dims, None, size) is None
        error = reject(data_type, dims, None, size + 1)
        assert error is not None
        assert error.metadata == {"have": str(size + 1), "want": str(size)}


# dims, strides, bytes; reason, field, metadata
REJECTIONS: list[tuple[Dims, Dims, int, Reason, str, dict[str, str]]] = [
    ((2, 3), (1,), 24, Reason.STRIDES_RANK_MISMATCH, "data.strides", {"have": "1", "want": "2"}),
    ((), (1,), 4, Reason.STRIDES_RANK_MISMATCH, "data.strides", {"have": "1", "want": "0"}),
    ((2, 3), (3, -1), 24, Reason.STRIDE_NEGATIVE, "data.strides[1]", {"index": "1", "value": "-1"}),
    ((1,), (-1,), 4, Reason.STRIDE_NEGATIVE, "data.strides[0]", {"index": "0"}),
    ((0,), (-8,), 0, Reason.STRIDE_NEGATIVE, "data.strides[0]", {"value": "-8"}),
    ((2, 2), (1, 1), 12, Reason.STRIDES_OVERLAP, "data.strides", {"dims": "[2, 2]", "strides": "[1, 1]"}),
    ((2, 3), (2, 1), 20, Reason.STRIDES_OVERLAP, "data.strides", {}),
    ((3, 2, 2), (0, 1, 1), 12, Reason.STRIDES_OVERLAP, "data.strides", {}),
    ((3, 4), (3, 2), 52, Reason.STRIDES_OVERLAP, "data.strides", {}),  # 3*2 is 2*3
    # the order of the checks: rank, signs, size, overlap
    ((2,), (-1, -1), 8, Reason.STRIDES_RANK_MISMATCH, "data.strides", {}),
    ((2,), (-1,), 9, Reason.STRIDE_NEGATIVE, "data.strides[0]", {}),
    ((2, 2), (1, 1), 16, Reason.DATA_SIZE_MISMATCH, "data.data", {"want": "12"}),
]


def test_invalid_tensor_strides_are_rejected():
    for dims, strides, size, reason, field, metadata in REJECTIONS:
        error = reject(DataType.F32, dims, strides, size)
        assert error is not None, (dims, strides)
        assert (error.reason, error.field) == (reason, field), (dims, strides)
        assert metadata.items() <= error.metadata.items()


@pytest.mark.parametrize("strides", [(3, 1), (1, 2), (0, 0), (1,), (-1, MAX + 1)], ids=str)
def test_elements_below_one_byte_have_no_strides(strides: Dims):
    for data_type in (one for one in DataType if one.bits < 8):
        error = reject(data_type, (2, 3), strides, 3)
        assert error is not None
        assert f"type {data_type} share bytes" in error.message
        assert (error.reason, error.field) == (Reason.STRIDES_UNSUPPORTED, "data.strides")
        assert error.metadata["data_type"] == str(data_type)


def have_overlap(dims: Dims, strides: Dims) -> bool:
    """Compares the positions of all elements, except those of broadcasts."""
    axes = [range(dim) if stride else range(1) for dim, stride in zip(dims, strides, strict=True)]
    places = [sum(map(prod, zip(index, strides, strict=True))) for index in itertools.product(*axes)]
    return 0 not in dims and len(set(places)) != len(places)


@examples(500)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=4))
def test_strides_overlap_is_reported_exactly_if_elements_share_a_position(axes: list[tuple[int, int]]):
    dims, strides = tuple(dim for dim, _ in axes), tuple(stride for _, stride in axes)
    assert find_reason(dims, strides) == (Reason.STRIDES_OVERLAP if have_overlap(dims, strides) else None)
    if not have_overlap(dims, strides):  # the early check misses some overlaps, but reports nothing else
        check_volume(dims, strides, "data")


# dims, strides; whether two elements share a position
LARGE: dict[tuple[Dims, Dims], bool] = {
    ((2**20, 2**20), (1, 1)): True,
    ((2**22, 2**62), (1, 0)): False,
    ((2**11, 2**11, 2**11), (1, 2**11, 2**11)): True,
    ((2**10, 2**10 + 1), (2**10 + 1, 2**10)): False,
    ((2**10 + 1, 2**10 + 2), (2**10 + 1, 2**10)): True,
    ((2,) * 22, (*(3 << at for at in range(21)), (3 << 21) - 3)): True,
    ((2,) * 22, (*(3 << at for at in range(21)), (3 << 21) - 2)): False,
}


@pytest.mark.timeout(60)
def test_large_strided_layouts_are_checked_quickly():
    assert {row: find_reason(*row) == Reason.STRIDES_OVERLAP for row in LARGE} == LARGE


def test_strides_with_too_few_positions_are_rejected_before_data_arrives():
    with pytest.raises(InvalidRequestError, match="the same position") as caught:
        check_volume((2**20, 2**20), (1, 1), "data")
    assert (caught.value.reason, caught.value.field) == (Reason.STRIDES_OVERLAP, "data.strides")


# dims, strides; the number of marked positions: 0 if each axis steps over all smaller axes
MARKED: list[tuple[Dims, Dims, int]] = [
    ((2, 3, 4), (12, 4, 1), 0),
    ((9, 2, 3), (0, 2**40, 2), 0),
    ((2**10, 3, 5), (100, 5, 3), 23),  # an outer axis over two that interleave
    ((3, 5), (5 * 2**20, 3 * 2**20), 23),  # a common divisor
]


def test_strides_overlap_check_uses_limited_memory():
    for dims, strides, places in MARKED:
        with patch.object(layouts, "_mark_places", wraps=layouts._mark_places) as mark:
            assert find_reason(dims, strides) is None
        (axes,) = mark.call_args.args
        assert layouts._mark_places(axes).bit_length() == (places or 1), (dims, strides)
