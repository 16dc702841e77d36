"""Whether a reshape of strided data can be a view of it: the same bytes under other strides, nothing moved."""

from collections.abc import Sequence
from enum import Enum
from math import prod
from typing import NamedTuple

from tensor_reshape.core.dims import AnyDim, are_known
from tensor_reshape.core.layouts import check_strides


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


def infer_view(data: Sequence[AnyDim] | None, strides: Sequence[int], output: Sequence[AnyDim] | None) -> View:
    """Returns whether the output of a reshape can be a view of its data.

    Raises:
        InvalidRequestError: STRIDES_RANK_MISMATCH or STRIDE_NEGATIVE.
    """
    if data is not None:
        check_strides(data, strides, "data")
    if not (are_known(data) and are_known(output)):
        return View(ViewPossibility.UNKNOWN)
    view = compute_view_strides(data, strides, output)
    return View(ViewPossibility.IMPOSSIBLE if view is None else ViewPossibility.POSSIBLE, view)


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
        return compute_dense_strides(output)
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
    """Returns the strides of row-major elements without gaps; those of an empty tensor read nothing."""
    strides, step = [], 1
    for dim in reversed(dims):
        strides.append(step)
        step *= max(dim, 1)
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
