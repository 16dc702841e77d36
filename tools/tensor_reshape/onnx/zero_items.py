"""Finds target items that a model computes from dims. If such an item is 0, it copies another dim.

Invariant: if this module does not return an item, the item counts as a length in every run of the model. If such an
item is 0 in a run, either the dim that it copies is 0 as well, or the node fails. A node fails if the data and the
output have different numbers of elements, or if the -1 would be a division by 0.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations

from tensor_reshape.rules.dims import AnyDim, Dim

_MAX_NAMES = 8
"""The maximum number of names for which all combinations of zeros are tried.

With more names, each item that can be 0 is listed.
"""


def list_copying_items(target: Sequence[AnyDim], data: Sequence[AnyDim] | None) -> tuple[int, ...]:
    """Returns the indices of items that, in a run in which the node does not fail, copy a dim other than 0.

    Args:
        target: the target of a node with special_zero, with None for an unknown item.
        data: the known part of the data shape. The value is None if the rank of the data is unknown.
    """
    suspects = {place for place, item in enumerate(target) if _list_names([item])}
    if data is None or None in data:
        return tuple(sorted(suspects))
    suspects = {place for place in suspects if not _are_zero_together(target[place], data[place : place + 1])}
    names = _list_names((*target, *data)) if suspects else frozenset[str]()
    if len(names) > _MAX_NAMES:
        return tuple(sorted(suspects))
    copying = {place for zeros in _list_choices(names) for place in _find_copies(target, data, zeros)}
    return tuple(sorted(suspects & copying))


def _list_names(dims: Iterable[AnyDim]) -> frozenset[str]:
    """Returns the names for which a dim is 0 if one of them is 0. A quotient is 0 if its dividend is 0."""
    return frozenset(
        factor.name
        for dim in dims
        if isinstance(dim, Dim) and dim.expression is not None
        for factor in dim.expression.factors
        if factor.bounds.min == 0
    )


def _are_zero_together(item: AnyDim, copied: Sequence[AnyDim]) -> bool:
    return _list_names([item]) <= _list_names(copied)


def _list_choices(names: AbstractSet[str]) -> Iterator[frozenset[str]]:
    return (frozenset(chosen) for count in range(1, len(names) + 1) for chosen in combinations(sorted(names), count))


def _find_copies(target: Sequence[AnyDim], data: Sequence[AnyDim], zeros: frozenset[str]) -> set[int]:
    """Returns the items that copy a dim other than 0 if exactly these names have the value 0.

    The result is empty if the node fails.
    """
    copies = {place for place, item in enumerate(target) if _is_zero(item, zeros)}
    if not copies <= set(range(len(data))):
        return set()
    copied_zeros = {place for place in copies if _is_zero(data[place], zeros)}
    return set() if _fails(target, data, zeros, has_zero=bool(copied_zeros)) else copies - copied_zeros


def _fails(target: Sequence[AnyDim], data: Sequence[AnyDim], zeros: frozenset[str], *, has_zero: bool) -> bool:
    if -1 in target:
        return has_zero
    is_empty = any(_is_zero(dim, zeros) for dim in data)
    return has_zero != is_empty and not (is_empty and None in target)  # an unknown item of the requested shape may be 0


def _is_zero(dim: AnyDim, zeros: frozenset[str]) -> bool:
    return dim == 0 or not zeros.isdisjoint(_list_names([dim]))
