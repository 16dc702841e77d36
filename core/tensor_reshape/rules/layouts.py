"""Layouts: the positions of a tensor's elements in its bytes.

Strides are in elements. Tensors of packed types have no strides and are always dense. A layout is checked in exact
integers against the number of received bytes before a view is created, because numpy's own bounds check overflows. A
reshape reads its input in row-major logical order for every layout (oneDNN Graph developer guide; 341 of 341 executions
agreed).
"""

from collections.abc import Sequence
from math import gcd, prod

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.rules.limits import MAX_DIM


def compute_span(dims: Sequence[int], strides: Sequence[int]) -> int:
    """Returns the number of positions from the first to the last element, including both; 0 for an empty tensor."""
    if 0 in dims:
        return 0
    return 1 + sum((dim - 1) * stride for dim, stride in zip(dims, strides, strict=True))


def count_bytes(data_type: DataType, dims: Sequence[int], strides: Sequence[int] | None = None) -> int:
    """Returns the bytes from the first to the last element of a tensor. `strides` None: dense, row-major."""
    return data_type.count_bytes(prod(dims) if strides is None else compute_span(dims, strides))


def check_layout(
    data_type: DataType, dims: Sequence[int], strides: Sequence[int] | None, received_bytes: int, *, field: str
) -> None:
    """Checks that `received_bytes` is exactly the size of the tensor. `strides` None: dense, row-major.

    Raises:
        InvalidRequestError: STRIDES_UNSUPPORTED, STRIDES_RANK_MISMATCH, STRIDE_NEGATIVE, DATA_SIZE_MISMATCH or
            STRIDES_OVERLAP.
    """
    if strides is None:
        _check_size(count_bytes(data_type, dims), received_bytes, field)
        return
    check_data_strides(data_type, dims, strides, field)
    _check_size(count_bytes(data_type, dims, strides), received_bytes, field)
    # After the size check, so that the number of positions is limited by the received bytes.
    axes = _find_overlapping_axes(dims, strides)
    if not _fits(axes) or _mark_places(axes).bit_count() != prod(dim for _, dim in axes):
        raise _reject_overlap(dims, strides, field)


def check_volume(dims: Sequence[int], strides: Sequence[int], field: str) -> None:
    """Checks that there are enough positions for all elements, not counting broadcasts (stride 0).

    This takes no time, and is the only overlap check before the bytes have arrived. The full check takes as long as
    reading each byte: see `check_layout`.

    Raises:
        InvalidRequestError: STRIDES_OVERLAP.
    """
    if not _fits(_find_overlapping_axes(dims, strides)):
        raise _reject_overlap(dims, strides, field)


def _check_size(want: int, have: int, field: str) -> None:
    if have != want:
        message = f"{field}.data has {have} bytes; data type, dims and strides require {format_value(want)}"
        raise InvalidRequestError.of(Reason.DATA_SIZE_MISMATCH, message, f"{field}.data", have=have, want=want)


def check_data_strides(data_type: DataType, dims: Sequence[int], strides: Sequence[int], field: str) -> None:
    """Checks that elements of this type may have strides, and then calls `check_strides`.

    Raises:
        InvalidRequestError: STRIDES_UNSUPPORTED, STRIDES_RANK_MISMATCH, STRIDE_NEGATIVE or DIM_OUT_OF_RANGE.
    """
    check_strided_type(data_type, strides, field)
    check_strides(dims, strides, field)


def check_strided_type(data_type: DataType, strides: Sequence[int], field: str) -> None:
    """Checks that elements of this type may have strides.

    Raises:
        InvalidRequestError: STRIDES_UNSUPPORTED.
    """
    # A packed element has no address of its own. OpenVINO's tensors of these types have no strides either.
    if data_type.is_packed:
        message = f"{field} has strides; elements of type {data_type} share bytes and must be dense"
        raise InvalidRequestError.of(
            Reason.STRIDES_UNSUPPORTED, message, f"{field}.strides", data_type=data_type, strides=strides
        )


def check_strides(dims: Sequence[object], strides: Sequence[int], field: str) -> None:
    """Checks that there is one stride for each dim, and that none is negative.

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
            message = f"{path} is {stride}; a stride must not be negative"
            raise InvalidRequestError.of(Reason.STRIDE_NEGATIVE, message, path, index=index, value=stride)
        if stride > MAX_DIM:
            path = f"{field}.strides[{index}]"
            message = f"{path} is {format_value(stride)}; a stride must be at most 2^63 - 1"
            raise InvalidRequestError.of(Reason.DIM_OUT_OF_RANGE, message, path, index=index, value=stride)


def _reject_overlap(dims: Sequence[int], strides: Sequence[int], field: str) -> InvalidRequestError:
    message = f"{field}.strides {format_value(strides)} give two elements of {format_value(dims)} the same position"
    return InvalidRequestError.of(Reason.STRIDES_OVERLAP, message, f"{field}.strides", dims=dims, strides=strides)


def _find_overlapping_axes(dims: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the axes that may overlap, as pairs of stride and dim, in order.

    An axis that steps over everything below it cannot overlap. Most layouts have only such axes, and the result is
    empty. A common factor of all strides does not matter and is divided out, which makes the bit mask shorter.
    """
    if 0 in dims:
        return []
    axes = sorted((stride, dim) for dim, stride in zip(dims, strides, strict=True) if dim > 1 and stride > 0)
    reach = sum((dim - 1) * stride for stride, dim in axes)
    while axes:
        stride, dim = axes[-1]
        reach -= (dim - 1) * stride
        if stride <= reach:
            break
        axes.pop()
    common = gcd(*(stride for stride, _ in axes))
    return [(stride // common, dim) for stride, dim in axes]


def _fits(axes: list[tuple[int, int]]) -> bool:
    """Whether there are at least as many positions as elements.

    Otherwise the bit mask could exceed the received bytes.
    """
    return prod(dim for _, dim in axes) <= 1 + sum((dim - 1) * stride for stride, dim in axes)


def _mark_places(axes: list[tuple[int, int]]) -> int:
    """Returns an integer with a bit set for every position that has an element.

    This takes no longer than moving the elements: there are at most about thirty steps over an integer with one bit for
    each position.
    """
    places = 1
    for stride, dim in axes:
        repeats = 1
        while repeats < dim:  # doubling: dims of millions need about twenty steps
            step = min(repeats, dim - repeats)
            places |= places << (step * stride)
            repeats += step
    return places
