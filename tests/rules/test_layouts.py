"""Layouts: spans, sizes, and strides that put two elements at one place."""

import itertools
from math import prod
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_reshape.rules import layouts
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.layouts import check_layout, check_volume, compute_span

MAX = 2**63 - 1

Dims = tuple[int, ...]

# dims, strides, span
SPANS: dict[str, tuple[Dims, Dims, int]] = {
    "a scalar": ((), (), 1),
    "row-major": ((2, 3), (3, 1), 6),
    "transposed": ((2, 3), (1, 2), 6),
    "channels last": ((2, 4, 3, 3), (36, 1, 12, 4), 72),
    "row gap": ((2, 3), (8, 1), 11),
    "element gap": ((4,), (3,), 10),
    "broadcast": ((5, 3), (0, 1), 3),
    "everything is one element": ((2**40, 2**40), (0, 0), 1),
    "a dim of 1 has no reach": ((1, 3), (MAX, 1), 3),
    "empty": ((0,), (1,), 0),
    "empty beside huge dims": ((MAX, 0, MAX), (MAX, MAX, MAX), 0),
    "beyond 64 bits": ((MAX, MAX), (MAX, 1), 1 + (MAX - 1) * MAX + MAX - 1),
}


@pytest.mark.parametrize(("dims", "strides", "span"), SPANS.values(), ids=SPANS.keys())
def test_a_span_reaches_from_the_first_to_the_last_element(dims: Dims, strides: Dims, span: int):
    assert compute_span(dims, strides) == span


@pytest.mark.parametrize(("dims", "strides", "span"), SPANS.values(), ids=SPANS.keys())
@pytest.mark.parametrize("data_type", [DataType.I8, DataType.BF16, DataType.F64], ids=str)
def test_a_strided_tensor_has_exactly_the_bytes_of_its_span(data_type: DataType, dims: Dims, strides: Dims, span: int):
    size = span * data_type.group_bytes
    check_layout(data_type, dims, strides, size, field="data")
    for other in (size - 1, size + 1, size + data_type.group_bytes):
        with pytest.raises(InvalidRequestError) as caught:
            check_layout(data_type, dims, strides, other, field="data")
        assert (caught.value.reason, caught.value.field) == (Reason.DATA_SIZE_MISMATCH, "data.data")
        assert caught.value.metadata == {"have": str(other), "want": str(size)}


# Of these, elements go on in groups that fill three bytes; of all others, in groups that fill one, or more of them.
THREE_BYTES = {DataType.U3, DataType.U6}


@pytest.mark.parametrize("dims", [(), (1,), (2, 3), (3, 3), (0, 3), (0, MAX, MAX), (MAX, MAX)], ids=str)
@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_a_dense_tensor_has_exactly_the_bytes_of_its_volume(data_type: DataType, dims: Dims):
    step = 3 if data_type in THREE_BYTES else 1
    size = -(-prod(dims) * data_type.bits // (8 * step)) * step
    check_layout(data_type, dims, None, size, field="data")
    with pytest.raises(InvalidRequestError) as caught:
        check_layout(data_type, dims, None, size + 1, field="data")
    assert caught.value.metadata == {"have": str(size + 1), "want": str(size)}


# dims, strides, bytes; reason, field, metadata
REFUSALS: dict[str, tuple[Dims, Dims, int, Reason, str, dict[str, str]]] = {
    "fewer strides": ((2, 3), (1,), 24, Reason.STRIDES_RANK_MISMATCH, "data.strides", {"have": "1", "want": "2"}),
    "more strides": ((), (1,), 4, Reason.STRIDES_RANK_MISMATCH, "data.strides", {"have": "1", "want": "0"}),
    "negative": ((2, 3), (3, -1), 24, Reason.STRIDE_NEGATIVE, "data.strides[1]", {"index": "1", "value": "-1"}),
    "negative where the dim is 1": ((1,), (-1,), 4, Reason.STRIDE_NEGATIVE, "data.strides[0]", {"index": "0"}),
    "negative where the tensor is empty": ((0,), (-8,), 0, Reason.STRIDE_NEGATIVE, "data.strides[0]", {"value": "-8"}),
    "a window": ((2, 2), (1, 1), 12, Reason.STRIDES_OVERLAP, "data.strides", {"dims": "[2, 2]", "strides": "[1, 1]"}),
    "rows that reach into the next": ((2, 3), (2, 1), 20, Reason.STRIDES_OVERLAP, "data.strides", {}),
    "an overlap beside a broadcast": ((3, 2, 2), (0, 1, 1), 12, Reason.STRIDES_OVERLAP, "data.strides", {}),
    "3*2 is 2*3": ((3, 4), (3, 2), 52, Reason.STRIDES_OVERLAP, "data.strides", {}),
    "rank before negative": ((2,), (-1, -1), 8, Reason.STRIDES_RANK_MISMATCH, "data.strides", {}),
    "negative before size": ((2,), (-1,), 9, Reason.STRIDE_NEGATIVE, "data.strides[0]", {}),
    "size before overlap": ((2, 2), (1, 1), 16, Reason.DATA_SIZE_MISMATCH, "data.data", {"want": "12"}),
}


@pytest.mark.parametrize(
    ("dims", "strides", "size", "reason", "field", "metadata"), REFUSALS.values(), ids=REFUSALS.keys()
)
def test_strides_are_refused(
    dims: Dims, strides: Dims, size: int, reason: Reason, field: str, metadata: dict[str, str]
):
    with pytest.raises(InvalidRequestError) as caught:
        check_layout(DataType.F32, dims, strides, size, field="data")
    assert (caught.value.reason, caught.value.field) == (reason, field)
    assert metadata.items() <= caught.value.metadata.items()


@pytest.mark.parametrize("data_type", [data_type for data_type in DataType if data_type.bits < 8], ids=str)
@pytest.mark.parametrize("strides", [(3, 1), (1, 2), (0, 0), (1,), (-1, MAX + 1)], ids=str)
def test_elements_below_one_byte_have_no_strides(data_type: DataType, strides: Dims):
    with pytest.raises(InvalidRequestError, match=f"type {data_type} share bytes") as caught:
        check_layout(data_type, (2, 3), strides, 3, field="data")
    assert (caught.value.reason, caught.value.field) == (Reason.STRIDES_UNSUPPORTED, "data.strides")
    assert caught.value.metadata["data_type"] == str(data_type)


# Not nested, and yet no two elements at one place.
INTERLEAVED: dict[str, tuple[Dims, Dims]] = {
    "2 and 3": ((2, 2), (2, 3)),
    "pairs between pairs": ((2, 2), (4, 2)),
    "3*2 beyond 2*2": ((2, 3), (3, 2)),
    "coprime": ((3, 5), (5, 3)),
}


@pytest.mark.parametrize(("dims", "strides"), INTERLEAVED.values(), ids=INTERLEAVED.keys())
def test_elements_may_interleave(dims: Dims, strides: Dims):
    check_layout(DataType.U8, dims, strides, compute_span(dims, strides), field="data")


def have_overlap(dims: Dims, strides: Dims) -> bool:
    """Looks at every element, broadcasts aside."""
    axes = [range(dim) if stride else range(1) for dim, stride in zip(dims, strides, strict=True)]
    places = [sum(map(prod, zip(index, strides, strict=True))) for index in itertools.product(*axes)]
    return 0 not in dims and len(set(places)) != len(places)


def find_reason(dims: Dims, strides: Dims) -> str | None:
    """Why a layout whose bytes are all there is refused; None where it is admitted."""
    try:
        check_layout(DataType.U8, dims, strides, compute_span(dims, strides), field="data")
    except InvalidRequestError as error:
        return error.reason
    return None


axes = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=4)


@settings(max_examples=500, deadline=None)
@given(axes)
def test_an_overlap_is_found_exactly_where_two_elements_share_a_place(axes: list[tuple[int, int]]):
    dims, strides = tuple(dim for dim, _ in axes), tuple(stride for _, stride in axes)
    assert find_reason(dims, strides) == (Reason.STRIDES_OVERLAP if have_overlap(dims, strides) else None)


def test_every_layout_of_two_small_axes_is_judged_rightly():
    for dims in itertools.product(range(1, 6), repeat=2):
        for strides in itertools.product(range(8), repeat=2):
            assert find_reason(dims, strides) == (Reason.STRIDES_OVERLAP if have_overlap(dims, strides) else None)


# dims and strides whose naive walk would not end
HOSTILE: dict[str, tuple[Dims, Dims]] = {
    "huge dims at stride 1": ((2**62, 2**62), (1, 1)),
    "huge strides": ((2, 2), (2**62, 2**62)),
    "a stride of 2^63 - 1": ((2,), (MAX,)),
    "a wrap of 64 bits": ((2**32 + 1,), (2**32,)),
    "rank 64": ((2,) * 64, (MAX,) * 64),
    "everything at its largest": ((MAX,) * 64, (MAX,) * 64),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("dims", "strides"), HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("size", [0, 4, 1 << 20], ids=str)
def test_hostile_layouts_are_refused_for_their_size_at_once(dims: Dims, strides: Dims, size: int):
    with pytest.raises(InvalidRequestError) as caught:
        check_layout(DataType.U8, dims, strides, size, field="data")
    assert caught.value.reason == Reason.DATA_SIZE_MISMATCH


# dims, strides, whether two elements share a place
LARGE: dict[str, tuple[Dims, Dims, bool]] = {
    "a window of a million": ((2**20, 2**20), (1, 1), True),
    "a broadcast of millions": ((2**22, 2**62), (1, 0), False),
    "a repeated axis": ((2**11, 2**11, 2**11), (1, 2**11, 2**11), True),
    "coprime": ((2**10, 2**10 + 1), (2**10 + 1, 2**10), False),
    "coprime, one too many": ((2**10 + 1, 2**10 + 2), (2**10 + 1, 2**10), True),
    "22 axes with gaps": ((2,) * 22, (*(3 << at for at in range(21)), (3 << 21) - 3), True),
    "22 axes that interleave": ((2,) * 22, (*(3 << at for at in range(21)), (3 << 21) - 2), False),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("dims", "strides", "overlap"), LARGE.values(), ids=LARGE.keys())
def test_layouts_of_megabytes_are_judged_at_once(dims: Dims, strides: Dims, overlap: bool):
    assert find_reason(dims, strides) == (Reason.STRIDES_OVERLAP if overlap else None)


@settings(max_examples=500, deadline=None)
@given(axes)
def test_what_is_refused_before_the_bytes_arrive_has_an_overlap(axes: list[tuple[int, int]]):
    dims, strides = tuple(dim for dim, _ in axes), tuple(stride for _, stride in axes)
    if not have_overlap(dims, strides):
        check_volume(dims, strides, "data")


def test_more_elements_than_places_are_refused_before_the_bytes_arrive():
    with pytest.raises(InvalidRequestError, match="at one place") as caught:
        check_volume((2**20, 2**20), (1, 1), "data")
    assert (caught.value.reason, caught.value.field) == (Reason.STRIDES_OVERLAP, "data.strides")


# dims, strides, and how many places are marked: none where each axis steps over those below it
MARKED: dict[str, tuple[Dims, Dims, int]] = {
    "row-major": ((2, 3, 4), (12, 4, 1), 0),
    "a gap between rows, and a broadcast": ((9, 2, 3), (0, 2**40, 2), 0),
    "an outer axis over two that interleave": ((2**10, 3, 5), (100, 5, 3), 23),
    "a common divisor": ((3, 5), (5 * 2**20, 3 * 2**20), 23),
}


@pytest.mark.parametrize(("dims", "strides", "places"), MARKED.values(), ids=MARKED.keys())
def test_no_more_places_are_marked_than_must_be(dims: Dims, strides: Dims, places: int):
    with patch.object(layouts, "_mark_places", wraps=layouts._mark_places) as mark:
        check_layout(DataType.U8, dims, strides, compute_span(dims, strides), field="data")
    (axes,) = mark.call_args.args
    assert layouts._mark_places(axes).bit_length() == (places or 1)


@st.composite
def nested_layouts(draw: st.DrawFn) -> tuple[Dims, Dims]:
    """Axes in any order, each beyond all that lies below it, some with gaps, some broadcast."""
    dims = draw(st.lists(st.integers(1, 2**9), max_size=6))
    strides, reach = [0] * len(dims), 0
    for axis in draw(st.permutations(range(len(dims)))):
        stride = reach + draw(st.integers(1, 5))
        if stride <= MAX and draw(st.booleans()):
            strides[axis] = stride
            reach += (dims[axis] - 1) * strides[axis]
    return tuple(dims), tuple(strides)


@settings(deadline=None)
@given(nested_layouts())
def test_axes_in_any_order_with_gaps_and_broadcasts_are_admitted(layout: tuple[Dims, Dims]):
    assert find_reason(*layout) is None
