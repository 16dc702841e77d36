"""Whether the volumes of two shapes can be one, decided by division: for questions of too many instances to try."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from tensor_reshape.rules.dims import Interval, find_bounds
from tensor_reshape.rules.questions import AnyQuestion
from tests.oracles.shape_instances import find_accepted


def can_be_equal(question: AnyQuestion) -> bool:
    """Whether data and output may have one volume: decided by division, for questions that have no -1.

    One side is bounded, so its volumes are tried one by one; the other side must divide each.
    """
    data, target = list(question.data or ()), list(question.target if question.target is not None else [None])
    copied = [index for index, item in enumerate(target) if item == 0 and question.special_zero]
    if -1 in target or any(find_bounds(data[index]).min == 0 for index in copied):
        return bool(find_accepted(question, budget=20000).accepted)
    left = [find_bounds(dim) for index, dim in enumerate(data) if index not in copied]
    right = [find_bounds(dim) for index, dim in enumerate(target) if index not in copied]
    if any(bounds.min == 0 for bounds in left) and any(bounds.min == 0 for bounds in right):
        return True
    if any(bounds.max == 0 for bounds in (*left, *right)):
        return False
    bounded = left if all(bounds.max is not None for bounds in left) else right
    other = right if bounded is left else left
    return any(_can_be(volume, other) for volume in _list_volumes(bounded))


def _list_volumes(side: Sequence[Interval]) -> Iterator[int]:
    ranges = [range(max(bounds.min, 1), 1 + _find_high(bounds)) for bounds in side]
    return (prod(values) for values in product(*ranges))


def _find_high(bounds: Interval) -> int:
    assert bounds.max is not None, "both sides are unbounded: they can always be equal"
    return bounds.max


def _can_be(volume: int, side: Sequence[Interval]) -> bool:
    """Whether factors within these bounds, none of them 0, can have this product."""
    if not side:
        return volume == 1
    first, *rest = sorted(side, key=lambda bounds: (bounds.max is None, bounds.max or 0))
    if not rest:
        return volume >= 1 and first.holds(volume) and volume < 2**63
    values = range(max(first.min, 1), 1 + (volume if first.max is None else first.max))
    return any(volume % value == 0 and _can_be(volume // value, rest) for value in values)
