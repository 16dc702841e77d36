"""Where the elements of a tensor lie in its bytes.

Strides are in elements; tensors of packed types have none, and are always dense. A layout is checked in exact integers
against the bytes received before a view of them exists: numpy's own bounds check overflows. The result of a reshape
reads the source in row-major logical order whatever its layout (oneDNN Graph developer guide; 341 of 341 executions
agreed).
"""

from collections.abc import Sequence
from math import gcd, prod

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.rules.limits import MAX_DIM


def compute_span(dims: Sequence[int], strides: Sequence[int]) -> int:
    """Returns how many elements lie from the first to the last one, both included; 0 for an empty tensor."""
    if 0 in dims:
        return 0
    return 1 + sum((dim - 1) * stride for dim, stride in zip(dims, strides, strict=True))


def count_bytes(data_type: DataType, dims: Sequence[int], strides: Sequence[int] | None = None) -> int:
    """Returns how many bytes a tensor takes, from its first element to its last; `strides` None: dense row-major."""
    return data_type.count_bytes(prod(dims) if strides is None else compute_span(dims, strides))


def check_layout(
    data_type: DataType, dims: Sequence[int], strides: Sequence[int] | None, received_bytes: int, *, field: str
) -> None:
    """Checks that `received_bytes` are exactly the tensor; `strides` None means dense row-major.

    Raises:
        InvalidRequestError: STRIDES_UNSUPPORTED, STRIDES_RANK_MISMATCH, STRIDE_NEGATIVE, DATA_SIZE_MISMATCH or
            STRIDES_OVERLAP.
    """
    if strides is None:
        _check_size(count_bytes(data_type, dims), received_bytes, field)
        return
    check_data_strides(data_type, dims, strides, field)
    _check_size(count_bytes(data_type, dims, strides), received_bytes, field)
    # The size before the overlap: it bounds by the bytes received what there is to look at.
    axes = _find_overlapping_axes(dims, strides)
    if not _fits(axes) or _mark_places(axes).bit_count() != prod(dim for _, dim in axes):
        raise _refuse_overlap(dims, strides, field)


def check_volume(dims: Sequence[int], strides: Sequence[int], field: str) -> None:
    """Checks that the elements have as many places, broadcasts (stride 0) aside.

    That takes no time, and is all that may be done before the bytes of the tensor have arrived: whether two elements
    share a place takes as long as to look at each byte, see `check_layout`.

    Raises:
        InvalidRequestError: STRIDES_OVERLAP.
    """
    if not _fits(_find_overlapping_axes(dims, strides)):
        raise _refuse_overlap(dims, strides, field)


def _check_size(want: int, have: int, field: str) -> None:
    if have != want:
        message = f"{field}.data has {have} bytes; the data type, dims and strides make {format_value(want)}"
        raise InvalidRequestError.of(Reason.DATA_SIZE_MISMATCH, message, f"{field}.data", have=have, want=want)


def check_data_strides(data_type: DataType, dims: Sequence[int], strides: Sequence[int], field: str) -> None:
    """Checks that elements of this type may have strides, and then as `check_strides`.

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
    # A packed element has no address of its own, and OpenVINO's tensors of these types have no strides either.
    if data_type.is_packed:
        message = f"{field} has strides; elements of type {data_type} share bytes, and are taken dense only"
        raise InvalidRequestError.of(
            Reason.STRIDES_UNSUPPORTED, message, f"{field}.strides", data_type=data_type, strides=strides
        )


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


def _refuse_overlap(dims: Sequence[int], strides: Sequence[int], field: str) -> InvalidRequestError:
    message = f"{field}.strides {format_value(strides)} put two elements of {format_value(dims)} at one place"
    return InvalidRequestError.of(Reason.STRIDES_OVERLAP, message, f"{field}.strides", dims=dims, strides=strides)


def _find_overlapping_axes(dims: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the axes, strides and dims in order, among which an overlap must be looked for.

    An axis that steps over all that lies below it makes none: most layouts have no other, so nothing is returned. What
    all strides have in common changes nothing either, and is divided out: that makes the marks fewer.
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
    """Whether there are as many places as elements. Where there are not, marks would be more than bytes received."""
    return prod(dim for _, dim in axes) <= 1 + sum((dim - 1) * stride for stride, dim in axes)


def _mark_places(axes: list[tuple[int, int]]) -> int:
    """Returns an integer with a bit set at every place that holds an element.

    That takes no longer than to move the elements: as they fit, there are at most some thirty steps over an integer of
    a bit for each place.
    """
    places = 1
    for stride, dim in axes:
        repeats = 1
        while repeats < dim:  # doubling: dims of millions need some twenty steps
            step = min(repeats, dim - repeats)
            places |= places << (step * stride)
            repeats += step
    return places
