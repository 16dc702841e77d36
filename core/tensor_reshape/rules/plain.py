"""The questions that most often come: items that are numbers, and at most one unknown that is not copied.

Their answers need no search. They are those of `rules.partial` in a tenth of the time; what is not plain is left to it.
"""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from tensor_reshape.rules.dims import (
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    bound_dim,
    find_bounds,
    is_name,
    make_dim,
    make_legal_expression,
)
from tensor_reshape.rules.limits import MAX_DIM


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
    """Returns the output, None where the question is not plain, or is to be refused.

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
        dim = output[index]
        if isinstance(dim, int):
            if dim == 0:
                return False
            continue
        low, high = find_bounds(dim)
        if high in {0, 1}:
            return False
        if low == 0:
            output[index] = bound_dim(Interval(1, high), None if dim is None else dim.expression)
    return True


def _are_plain(data: Sequence[AnyDim]) -> bool:
    """Whether every dim is right, and none is a number in disguise, or has to do with another."""
    names = list[str]()
    for dim in data:
        if isinstance(dim, int):
            if not 0 <= dim <= MAX_DIM:
                return False
        elif dim is not None and not _is_plain(dim, names):
            return False
    return True


def _is_plain(dim: Dim, names: list[str]) -> bool:
    (low, high), expression = dim
    if not 0 <= low < (MAX_DIM if high is None else high) or high == MAX_DIM:
        return False
    if expression is None:
        return high is not None or low > 0
    symbol = expression.symbol
    if symbol is None or symbol.name in names or symbol.bounds != dim.bounds or not is_name(symbol.name):
        return False
    names.append(symbol.name)
    return high is None or high < MAX_DIM


def _split(data: Sequence[AnyDim], target: Sequence[AnyDim], *, special_zero: bool) -> _Split | None:
    output, copied, inferred, divisor = list[AnyDim](), list[int](), None, 1
    rank = len(data)
    for index, item in enumerate(target):
        if not isinstance(item, int) or item > MAX_DIM:
            return None
        if item > 0:
            divisor *= item
            output.append(item)
        elif item == 0 and special_zero and index < rank:
            copied.append(index)
            output.append(data[index])
        elif item == -1 and inferred is None:
            inferred = index
            output.append(item)
        else:
            return None
    dividend, unknown = _multiply(data, copied)
    return _Split(output, copied, inferred, dividend, unknown, divisor)


def _multiply(data: Sequence[AnyDim], copied: list[int]) -> tuple[int, list[Dim | None]]:
    """Returns the product of the dims that are not copied: a number, and those that are not known."""
    product, unknown = 1, []
    for index, dim in enumerate(data):
        if index in copied:
            continue
        if isinstance(dim, int):
            product *= dim
        else:
            unknown.append(dim)
    return product, unknown


class _Quotient(NamedTuple):
    """A dim that may be None."""

    dim: AnyDim


def _divide(dividend: int, unknown: list[Dim | None], divisor: int) -> _Quotient | None:
    """Returns `dividend * unknown / divisor`, None where that takes a search or has no solution."""
    if dividend == 0:
        return _Quotient(0)
    if not unknown:
        quotient, rest = divmod(dividend, divisor)
        return None if rest or quotient > MAX_DIM else _Quotient(quotient)
    common = gcd(dividend, divisor)
    above, below = dividend // common, divisor // common
    if (below != 1 and len(unknown) > 1) or below > MAX_DIM // 2:
        return None
    low, high = above, above  # of the output with elements; a high of 0 stands for none
    for dim in unknown:
        bounds = find_bounds(dim)
        low *= -(-max(bounds.min, 1) // below)
        high *= 0 if bounds.max is None else bounds.max // below
        if bounds.max is not None and bounds.max // below == 0:
            low = MAX_DIM + 1  # there is no such output
    may_be_empty = any(find_bounds(dim).min == 0 for dim in unknown)
    if low > MAX_DIM or (high and high < low):
        return _Quotient(0) if may_be_empty else None
    found = Interval(0 if may_be_empty else low, min(high or MAX_DIM, MAX_DIM))
    return _Quotient(make_dim(found, _name(above, unknown, below)))


def _name(above: int, unknown: Sequence[Dim | None], below: int) -> Expression | None:
    symbols = list[Symbol]()
    for dim in unknown:
        symbol = None if dim is None or dim.expression is None else dim.expression.symbol
        if symbol is None:
            return None
        symbols.append(symbol)
    return make_legal_expression(above, symbols, below) if symbols else None
