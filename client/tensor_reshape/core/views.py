"""Whether a reshape of strided data can be a view of it: the same bytes under other strides, nothing moved."""

from collections.abc import Sequence
from enum import Enum
from math import prod
from typing import NamedTuple

from tensor_reshape.core.dims import AnyDim, are_known, find_bounds, find_name
from tensor_reshape.core.layouts import check_strides
from tensor_reshape.core.limits import MAX_DIM
from tensor_reshape.core.partial import PartialQuestion


class ViewPossibility(Enum):
    """Whether the output can be a view."""

    POSSIBLE = "possible"
    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"


class View(NamedTuple):
    """An answer.

    Attributes:
        possibility: which one it is.
        strides: of the output over the bytes of the data, in elements, where it can be a view.
    """

    possibility: ViewPossibility
    strides: tuple[int, ...] | None = None


def infer_view(question: PartialQuestion, strides: Sequence[int], output: Sequence[AnyDim] | None) -> View:
    """Returns whether the output of a question can be a view of data with these strides, in elements.

    Raises:
        InvalidRequestError: STRIDES_RANK_MISMATCH, STRIDE_NEGATIVE or DIM_OUT_OF_RANGE.
    """
    data = question.data
    check_strides(strides if data is None else data, strides, "data")
    if data is None or output is None:
        return View(ViewPossibility.UNKNOWN)
    shared = 0 if are_known(data) else _count_shared(question, data, output)
    inner, rest = data[shared:], output[shared:]
    if are_known(inner) and are_known(rest):
        view = compute_view_strides(inner, strides[shared:], rest)
    else:
        view = _compute_dense_view(inner, strides[shared:], rest)
        if view is None:
            return View(ViewPossibility.UNKNOWN)
    if view is not None:
        found = (*strides[:shared], *view)
        # No memory has elements so far apart, and no s64 holds it.
        return (
            View(ViewPossibility.POSSIBLE, found) if max(found, default=0) <= MAX_DIM else View(ViewPossibility.UNKNOWN)
        )
    may_be_empty = any(find_bounds(dim).low == 0 for dim in data[:shared])
    return View(ViewPossibility.UNKNOWN if may_be_empty else ViewPossibility.IMPOSSIBLE)


def _count_shared(question: PartialQuestion, data: Sequence[AnyDim], output: Sequence[AnyDim]) -> int:
    """Returns how many outermost dims the output has from the data as they are: a view of the others is one of all."""
    target = question.target or ()
    for index, (have, dim, item) in enumerate(zip(data, output, target, strict=False)):
        same = have == dim and (isinstance(have, int) or find_name(have) is not None)
        if not same and not (item == 0 and question.special_zero):
            return index
    return min(len(data), len(target))


def _compute_dense_view(
    dims: Sequence[AnyDim], strides: Sequence[int], output: Sequence[AnyDim]
) -> tuple[int, ...] | None:
    """Does what `compute_view_strides` does for one run of elements whose outermost dim may be unknown."""
    inner, rest = dims[1:], output[1:]
    if not dims or not output or not are_known(inner) or not are_known(rest):
        return None
    step = strides[-1]
    if any(stride != step * dense for stride, dense in zip(strides, compute_dense_strides((1, *inner)), strict=True)):
        return None
    return tuple(step * dense for dense in compute_dense_strides((1, *rest)))


def compute_view_strides(dims: Sequence[int], strides: Sequence[int], output: Sequence[int]) -> tuple[int, ...] | None:
    """Returns the strides of `output` over the elements of `dims` at `strides`, or None where they must be copied.

    Both shapes are of one volume. Dims of the data that lie behind one another in memory are one run of elements; the
    output can be a view where each of its dims falls into one run.

    Args:
        dims: of the data.
        strides: of the data, in elements.
        output: the dims of the output.
    """
    if prod(dims) == 0:
        return (0,) * len(output)  # they read nothing
    runs = _list_runs(dims, strides)
    result: list[int] = []
    rest, step = 1, 1
    for dim in reversed(output):
        if dim != 1 and rest == 1:
            rest, step = runs.pop()
        if rest % dim:
            return None
        result.append(step)
        rest, step = rest // dim, step * dim
    return tuple(reversed(result))


def compute_dense_strides(dims: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of row-major elements without gaps."""
    strides, step = [], 1
    for dim in reversed(dims):
        strides.append(step)
        step *= dim
    return tuple(reversed(strides))


def _list_runs(dims: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Returns how many elements each run has, and how far they are apart, outermost first."""
    runs: list[tuple[int, int]] = []
    for dim, stride in zip(dims, strides, strict=True):
        if dim == 1:
            continue
        if runs and runs[-1][1] == dim * stride:
            runs[-1] = (runs[-1][0] * dim, stride)
        else:
            runs.append((dim, stride))
    return runs
