"""Finds out whether a reshape's output can be a view, which uses the bytes of the data without a copy.

A view has the same bytes as the data, but its own dims and strides. If the first dims of data and output have the same
product for all values of the unknown dims, these first dims and the remaining dims are two parts that can be examined
separately. The output can be a view if each of its parts can be a view.

In such a part, neighbouring dims of the data form a run if their elements have equal distances in memory. The output
can be a view if, for each output dim, all elements along this dim lie in one run. If a dim other than the outermost dim
of a part is unknown, the instances are examined one by one if there are only a few. Otherwise, the result is usually
UNKNOWN.
"""

from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from math import prod
from typing import NamedTuple

from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.dim_groups import find_dim_groups
from tensor_reshape.rules.dims import AnyDim, are_known, find_bounds
from tensor_reshape.rules.layouts import check_positions, check_strides
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.view_instances import MAX_INSTANCES, Instance, list_instances


class ViewPossibility(Enum):
    """Whether the output can be a view.

    >>> result = client.infer_shape((2, 3), (3, 2), special_zero=False, data_strides=(1, 2))
    >>> result.view.possibility
    <ViewPossibility.IMPOSSIBLE: 'impossible'>
    """

    POSSIBLE = "possible"
    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"


class View(NamedTuple):
    """Whether the output can be a view, and with which strides.

    Attributes:
        possibility: whether the output can be a view.
        strides: the strides of the view over the bytes of the data, in elements; None unless the view is possible.

    >>> result = client.infer_shape((2, 3, 4), (0, -1), special_zero=True, data_strides=(12, 4, 1))
    >>> result.view.strides
    (12, 1)
    """

    possibility: ViewPossibility
    strides: tuple[int, ...] | None = None


class _Run(NamedTuple):
    """A run, which is a sequence of elements at equal distances in memory.

    Attributes:
        least: the smallest possible number of elements.
        size: the number of elements; None if the number is unknown.
        step: the distance between neighbouring elements, counted in elements.
    """

    least: int
    size: int | None
    step: int


_UNKNOWN = View(ViewPossibility.UNKNOWN)
_IMPOSSIBLE = View(ViewPossibility.IMPOSSIBLE)


def infer_view(
    data: Sequence[AnyDim] | None,
    strides: Sequence[int],
    output: Sequence[AnyDim] | None,
    copied: Collection[int],
    budget: StepBudget | None = None,
) -> View:
    """Returns whether an output can be a view of data with the given strides.

    POSSIBLE means that the output of every instance with elements can be a view with the returned strides. A tensor
    without elements can be a view with any strides. IMPOSSIBLE means that every instance has elements, and that no
    output can be a view.

    Args:
        data: the input dims. None means that not even the rank is known.
        strides: the strides of the data, in elements.
        output: the output dims. None means that not even the rank is known.
        copied: the indices of the output dims that are copied.
        budget: the step budget of the query. Default: MAX_STEPS steps.

    Raises:
        InvalidRequestError: STRIDES_RANK_MISMATCH, STRIDE_NEGATIVE, DIM_OUT_OF_RANGE or STRIDES_OVERLAP.
    """
    check_strides(strides if data is None else data, strides, "data")
    if data is not None:
        # Every instance has the elements of the instance whose dims are the smallest.
        known = data if output is None else _solve(data, output)
        check_positions([find_bounds(dim).min for dim in known], strides, "data")
    if data is None or output is None:
        return _UNKNOWN
    # A copied output dim is equal to the data dim that it copies. The output dim is used instead of the data dim,
    # because the solver may have narrowed the range of the output dim.
    data = [output[index] if index in copied else dim for index, dim in enumerate(data)]
    may_be_empty = _may_be_empty(data) and _may_be_empty(output)
    data, output = list(map(_find_number, data)), list(map(_find_number, output))
    # A tensor without elements can be a view with any strides. If the numbers of elements differ, all instances are
    # tensors without elements.
    if 0 in data or 0 in output or (are_known(data) and are_known(output) and prod(data) != prod(output)):
        return View(ViewPossibility.POSSIBLE, (0,) * len(output))
    whole = _Part(data, strides, output)
    views = [_infer_part(part) for part in (_split(whole, copied) if not are_known(data) else [whole])]
    view = _join_parts(views, may_be_empty=may_be_empty)
    if view.possibility is not ViewPossibility.UNKNOWN or (are_known(data) and are_known(output)):
        return view
    # If a part is IMPOSSIBLE, the result stays UNKNOWN if there is any instance with elements.
    most = 0 if _IMPOSSIBLE in views else MAX_INSTANCES
    instances = list_instances(data, output, copied, budget or StepBudget(), most)
    if not instances:  # none are listed because there are too many, or because all instances are empty
        return view if instances is None else View(ViewPossibility.POSSIBLE, (0,) * len(output))
    return _join_instances(instances, strides, may_be_empty=may_be_empty)


def _join_parts(views: Sequence[View], *, may_be_empty: bool) -> View:
    """Returns the view of a whole reshape, of which each part has one of these views."""
    # If the tensor is empty, its output can always be a view. If the tensor may be empty, the result is therefore
    # UNKNOWN instead of IMPOSSIBLE.
    if _IMPOSSIBLE in views:
        return _UNKNOWN if may_be_empty else _IMPOSSIBLE
    found = [stride for view in views for stride in view.strides or ()]
    # If a stride exceeds the largest s64, the result is UNKNOWN, because no memory is large enough for such a stride.
    if _UNKNOWN in views or max(found, default=0) > MAX_DIM:
        return _UNKNOWN
    return View(ViewPossibility.POSSIBLE, tuple(found))


def _join_instances(instances: Sequence[Instance], strides: Sequence[int], *, may_be_empty: bool) -> View:
    """Returns the view of a query that has these instances, and perhaps instances without elements."""
    views = [_infer_part(_Part(data, strides, output)) for data, output in instances]
    if _IMPOSSIBLE in views:
        return _UNKNOWN if may_be_empty or set(views) != {_IMPOSSIBLE} else _IMPOSSIBLE
    found = list(views[0].strides or ())
    # The stride of a dim of 1 has no effect, so only the instances in which a dim is larger determine its stride.
    determined = set[int]()
    for (_, output), view in zip(instances, views, strict=True):
        for index, stride in enumerate(view.strides or ()):
            if output[index] == 1:
                continue
            if index in determined and found[index] != stride:
                return _UNKNOWN
            determined.add(index)
            found[index] = stride
    return _UNKNOWN if max(found, default=0) > MAX_DIM else View(ViewPossibility.POSSIBLE, tuple(found))


class _Part(NamedTuple):
    """Data dims with their strides, and output dims whose product is the same in tensors with elements."""

    dims: Sequence[AnyDim]
    strides: Sequence[int]
    output: Sequence[AnyDim]


def _find_number(dim: AnyDim) -> AnyDim:
    """Returns a dim as a number if the dim has only one possible value in tensors with elements; otherwise the dim.

    A dim from 0 to 1 is always 1 in a tensor with elements.
    """
    low, high = find_bounds(dim)
    return high if high in {low, 1} else dim


def _may_be_empty(dims: Sequence[AnyDim]) -> bool:
    return any(find_bounds(dim).min == 0 for dim in dims)


def _split(whole: _Part, copied: Collection[int]) -> Iterator[_Part]:
    """Yields the parts of a reshape that can be examined separately, outermost first.

    Lemma: parts-of-a-view.
    """
    dims, strides, output = whole
    for group in find_dim_groups(dims, output, copied):
        inputs, outputs = (slice(own.start, own.stop) for own in group)
        yield _Part(dims[inputs], strides[inputs], output[outputs])


def _infer_part(part: _Part) -> View:
    data, output = _solve(part.dims, part.output), _solve(part.output, part.dims)
    if _are_known_inside(data) and _are_known_inside(output):
        return _fit(data, part.strides, output)
    axes = [(dim, stride) for dim, stride in zip(data, part.strides, strict=True) if dim != 1]
    others = [dim for dim in output if dim != 1]
    if not axes or not others or not any(stride for _, stride in axes):
        # With a stride of 0, all elements of this part have the same memory position.
        return View(ViewPossibility.POSSIBLE, (0,) * len(output))
    return _IMPOSSIBLE if len(others) == 1 and any(map(_are_apart, axes, axes[1:])) else _UNKNOWN


def _are_apart(outer: tuple[AnyDim, int], inner: tuple[AnyDim, int]) -> bool:
    """Whether two neighbouring dims are both at least 2 and can never form one run."""
    (dim, stride), (inner_dim, step) = outer, inner
    bounds = find_bounds(inner_dim)
    if find_bounds(dim).min < 2 or bounds.min < 2:  # noqa: PLR2004 - a dim of 1 belongs to any run
        return False
    return stride != 0 if step == 0 else stride % step != 0 or not bounds.holds(stride // step)


def _are_known_inside(dims: Sequence[AnyDim]) -> bool:
    return are_known([dim for dim in dims if dim != 1][1:])


def _solve(dims: Sequence[AnyDim], others: Sequence[AnyDim]) -> Sequence[AnyDim]:
    """Returns `dims` with its unknown dim replaced by a number, if that number follows from the product of `others`."""
    unknown = [index for index, dim in enumerate(dims) if not isinstance(dim, int)]
    if len(unknown) != 1 or 0 in dims or not are_known(others):
        return dims
    value, remainder = divmod(prod(others), prod(dim for dim in dims if isinstance(dim, int)))
    return dims if remainder else [value if index in unknown else dim for index, dim in enumerate(dims)]


def _fit(dims: Sequence[AnyDim], strides: Sequence[int], output: Sequence[AnyDim]) -> View:
    """Fits the output dims into the runs of the data, beginning with the innermost dim.

    On each side, the outermost dim may be unknown.
    """
    runs, found = _list_runs(dims, strides), list[int]()
    rest: int | None = 1
    step = 1
    for dim in reversed(output):
        if dim != 1 and rest == 1 and runs:
            _, rest, step = runs.pop()
        found.append(min(step, MAX_DIM) if dim == 1 else step)  # the stride of a dim of 1 has no effect
        if not isinstance(dim, int):  # only the outermost dim can be unknown, and it spans all remaining elements
            if runs:
                return _IMPOSSIBLE if any(run.least > 1 for run in runs) else _UNKNOWN
            continue
        # `rest` is the number of elements of the current run that are left for this output dim and the outer dims. If
        # the output dim does not divide `rest`, the elements along this dim would lie in two runs.
        if rest is not None:
            if rest % dim:
                return _IMPOSSIBLE
            rest //= dim
        step *= dim
    return View(ViewPossibility.POSSIBLE, tuple(reversed(found)))


def _list_runs(dims: Sequence[AnyDim], strides: Sequence[int]) -> list[_Run]:
    """Returns the runs of the data, outermost first.

    Lemma: runs-of-elements.
    """
    runs = list[_Run]()
    for dim, stride in zip(dims, strides, strict=True):
        if dim == 1:  # a dim of 1 is skipped, because its stride does not matter
            continue
        least, size = max(find_bounds(dim).min, 1), dim if isinstance(dim, int) else None
        if runs and runs[-1].step == least * stride:  # inner dims of a `_Run` are known, so `least` is exact
            outer = runs.pop()
            least, size = outer.least * least, None if outer.size is None else outer.size * least
        runs.append(_Run(least, size, stride))
    return runs
