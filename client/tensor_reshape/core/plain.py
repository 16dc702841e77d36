"""The questions that most often come: items that are numbers, and at most one unknown that is not copied.

Their answers need no search. They are those of `core.partial` in a tenth of the time; what is not plain is left to it.
"""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from tensor_reshape.core.dims import (
    ANY,
    MAX_FACTORS,
    AnyDim,
    Bounds,
    Dim,
    Symbol,
    Term,
    find_bounds,
    make_dim,
    make_term,
)
from tensor_reshape.core.limits import MAX_DIM

_NOTHING = Dim(ANY)


class _Split(NamedTuple):
    """A plain question: the output but for its -1, and the division that gives it."""

    output: list[AnyDim]
    copied: list[int]
    inferred: int | None
    dividend: int
    unknown: list[Dim | None]
    divisor: int


def infer_plain(
    data: Sequence[AnyDim], target: Sequence[AnyDim], *, special_zero: bool, copies_cancel: bool
) -> tuple[AnyDim, ...] | None:
    """Returns the output of checked dims, None where the question is not plain, or is to be refused.

    Args:
        data: the data's dims.
        target: the target's items.
        special_zero: whether a 0 copies.
        copies_cancel: as in `Operation`.
    """
    if not _are_plain(data):
        return None
    split = _split(data, target, special_zero=special_zero)
    if split is None:
        return None
    output = split.output
    if split.inferred is None:
        return None if split.unknown or split.dividend != split.divisor else tuple(output)
    quotient = _divide(split.dividend, split.unknown, split.divisor)
    if quotient is None:
        return None
    output[split.inferred] = quotient.dim
    return tuple(output) if copies_cancel or _raise_copies(output, split.copied) else None


def _raise_copies(output: list[AnyDim], copied: Sequence[int]) -> bool:
    """Notes that the copied dims are not 0 beside a -1; returns whether they are plain still."""
    for index in copied:
        dim, (low, high) = output[index], find_bounds(output[index])
        if high in {0, 1} and not (low == 1 and isinstance(dim, int)):
            return False
        if low == 0:
            output[index] = Dim(Bounds(1, high), dim.term if isinstance(dim, Dim) else None)
    return True


def _are_plain(data: Sequence[AnyDim]) -> bool:
    """Whether no dim is a number in disguise, or has to do with another."""
    names = set()
    for dim in data:
        if dim is None or isinstance(dim, int):
            continue
        low, high = dim.bounds
        if high in {low, MAX_DIM} or dim == _NOTHING:
            return False
        if dim.term is not None:
            symbol = dim.term.symbol
            if symbol is None or symbol.name in names or symbol.bounds != dim.bounds:
                return False
            names.add(symbol.name)
    return True


def _split(data: Sequence[AnyDim], target: Sequence[AnyDim], *, special_zero: bool) -> _Split | None:
    output, copied, inferred, divisor = list[AnyDim](), list[int](), None, 1
    rest = list(data)
    for index, item in enumerate(target):
        if not isinstance(item, int):
            return None
        if 0 < item <= MAX_DIM:
            divisor *= item
        elif item == 0 and special_zero and index < len(data):
            copied.append(index)
            item, rest[index] = data[index], 1  # noqa: PLW2901 - what stands in its place
        elif item == -1 and inferred is None:
            inferred = index
        else:
            return None
        output.append(item)
    dividend, unknown = 1, []
    for dim in rest:
        if isinstance(dim, int):
            dividend *= dim
        else:
            unknown.append(dim)
    return _Split(output, copied, inferred, dividend, unknown, divisor)


class _Quotient(NamedTuple):
    """A dim that may be None."""

    dim: AnyDim


def _divide(dividend: int, unknown: list[Dim | None], divisor: int) -> _Quotient | None:
    """Returns `dividend * unknown / divisor`, None where that takes a search or has no solution."""
    if dividend == 0:
        return _Quotient(0)
    common = gcd(dividend, divisor)
    above, below = dividend // common, divisor // common
    if (below != 1 and len(unknown) != 1) or below > MAX_DIM:
        return None
    low, high = above, above  # of the output with elements; a high of 0 stands for none
    for dim in unknown:
        bounds = find_bounds(dim)
        low *= -(-max(bounds.low, 1) // below)
        high *= 0 if bounds.high is None else bounds.high // below
        if bounds.high is not None and bounds.high // below == 0:
            low = MAX_DIM + 1  # there is no such output
    may_be_empty = any(find_bounds(dim).low == 0 for dim in unknown)
    if low > MAX_DIM or (high and high < low):
        return _Quotient(0) if may_be_empty else None
    found = Bounds(0 if may_be_empty else low, min(high or MAX_DIM, MAX_DIM))
    return _Quotient(make_dim(found, _name(above, unknown, below)))


def _name(above: int, unknown: Sequence[Dim | None], below: int) -> Term | None:
    symbols = list[Symbol]()
    for dim in unknown:
        symbol = None if dim is None or dim.term is None else dim.term.symbol
        if symbol is None:
            return None
        symbols.append(symbol)
    if not symbols or max(above, below) > MAX_DIM or len(symbols) > MAX_FACTORS:
        return None
    return make_term(above, symbols, below)
