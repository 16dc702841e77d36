"""A layout consists of the positions at which the elements of a tensor are stored in its bytes.

Strides are measured in elements, not in bytes. Tensors of packed types have no strides and are always dense. Before a
view of the received bytes is created, the layout is compared with the number of bytes. This check uses exact integers,
because numpy's own bounds check overflows. For every layout, a reshape reads its input in the row-major order of the
indices. The oneDNN Graph developer guide specifies this order, and in a comparison, all 341 executions followed it.
"""

from collections.abc import Sequence
from math import gcd, prod

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.rules.limits import MAX_DIM


def compute_span(dims: Sequence[int], strides: Sequence[int]) -> int:
    """Returns the number of positions from the first to the last element, both included; 0 for an empty tensor."""
    if 0 in dims:
        return 0
    return 1 + sum((dim - 1) * stride for dim, stride in zip(dims, strides, strict=True))


def count_bytes(data_type: DataType, dims: Sequence[int], strides: Sequence[int] | None = None) -> int:
    """Returns the number of bytes from the first to the last element, both included.

    If `strides` is None, the tensor is dense.
    """
    return data_type.count_bytes(prod(dims) if strides is None else compute_span(dims, strides))


def check_layout(
    data_type: DataType, dims: Sequence[int], strides: Sequence[int] | None, received_bytes: int, *, field: str
) -> None:
    """Checks that `received_bytes` is the size of the tensor, and that no elements overlap.

    If `strides` is None, the tensor is dense and in row-major order. A dim with a stride of 0 repeats the same
    elements, which does not count as an overlap.

    Raises:
        InvalidRequestError: the reason is STRIDES_UNSUPPORTED, STRIDES_RANK_MISMATCH, STRIDE_NEGATIVE,
            DATA_SIZE_MISMATCH or STRIDES_OVERLAP.
    """
    if strides is None:
        _check_size(count_bytes(data_type, dims), received_bytes, field)
        return
    check_data_strides(data_type, dims, strides, field)
    _check_size(count_bytes(data_type, dims, strides), received_bytes, field)
    # The size is checked before overlaps. After the size check, the tensor has at most as many positions as received
    # bytes. The overlap check therefore examines a limited number of positions.
    axes = _find_overlapping_axes(dims, strides)
    if not _fits(axes) or _mark_places(axes).bit_count() != prod(dim for _, dim in axes):
        raise _reject_overlap(dims, strides, field)


def check_volume(dims: Sequence[int], strides: Sequence[int], field: str) -> None:
    """Checks that there are enough positions for all elements of a tensor.

    Elements that a stride of 0 repeats are counted only once. This check takes almost no time, so a server can check a
    tensor before its bytes arrive. The full check in `check_layout` takes longer: about as long as it takes to read
    each byte.

    Raises:
        InvalidRequestError: the reason is STRIDES_OVERLAP.
    """
    if not _fits(_find_overlapping_axes(dims, strides)):
        raise _reject_overlap(dims, strides, field)


def _check_size(want: int, have: int, field: str) -> None:
    if have != want:
        message = f"{field}.data has {have} bytes; data type, dimensions and strides require {format_value(want)}"
        raise InvalidRequestError.of(Reason.DATA_SIZE_MISMATCH, message, f"{field}.data", have=have, want=want)


def check_data_strides(data_type: DataType, dims: Sequence[int], strides: Sequence[int], field: str) -> None:
    """Checks that tensors of this type may have strides, and that each dim has a stride from 0 to 2^63 - 1.

    Raises:
        InvalidRequestError: the reason is STRIDES_UNSUPPORTED, STRIDES_RANK_MISMATCH, STRIDE_NEGATIVE or
            DIM_OUT_OF_RANGE.
    """
    # Elements of a packed type share bytes, so such an element has no address. OpenVINO's tensors of packed types have
    # no strides either.
    if data_type.is_packed:
        message = f"{field} has strides; elements of type {data_type} share bytes and must be dense"
        raise InvalidRequestError.of(
            Reason.STRIDES_UNSUPPORTED, message, f"{field}.strides", data_type=data_type, strides=strides
        )
    if len(strides) != len(dims):
        message = f"{field}.strides has {len(strides)} items; the tensor has rank {len(dims)}"
        raise InvalidRequestError.of(
            Reason.STRIDES_RANK_MISMATCH, message, f"{field}.strides", have=len(strides), want=len(dims)
        )
    for index, stride in enumerate(strides):
        if not 0 <= stride <= MAX_DIM:
            path, reason, demand = f"{field}.strides[{index}]", Reason.STRIDE_NEGATIVE, "not be negative"
            if stride > MAX_DIM:
                reason, demand = Reason.DIM_OUT_OF_RANGE, "be at most 2^63 - 1"
            message = f"{path} is {format_value(stride)}; a stride must {demand}"
            raise InvalidRequestError.of(reason, message, path, index=index, value=stride)


def _reject_overlap(dims: Sequence[int], strides: Sequence[int], field: str) -> InvalidRequestError:
    message = f"{field}.strides {format_value(strides)} give two elements of {format_value(dims)} the same position"
    return InvalidRequestError.of(Reason.STRIDES_OVERLAP, message, f"{field}.strides", dims=dims, strides=strides)


def _find_overlapping_axes(dims: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the axes whose elements may overlap, as pairs of stride and dim, the shortest stride first.

    The elements of an axis cannot overlap if its stride is longer than the distance that all axes with shorter strides
    span together. In most layouts, no elements can overlap, so the result is empty. The strides are divided by their
    common factor. This division does not change which elements overlap, but makes the bit mask of `_mark_places`
    shorter.
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

    If there are fewer positions than elements, some elements overlap.
    """
    return prod(dim for _, dim in axes) <= 1 + sum((dim - 1) * stride for stride, dim in axes)


def _mark_places(axes: list[tuple[int, int]]) -> int:
    """Returns an integer whose bit i is set if an element is at the position i.

    Marking the positions takes no longer than moving the elements, because about thirty operations are sufficient.
    These operations use integers with one bit for each position.
    """
    places = 1
    for stride, dim in axes:
        repeats = 1
        # Each step of this loop doubles the number of marked positions, so a dim of a million needs only about twenty
        # steps.
        while repeats < dim:
            step = min(repeats, dim - repeats)
            places |= places << (step * stride)
            repeats += step
    return places
