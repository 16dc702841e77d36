"""The output in closed form, where the target is numbers above 0, copies and at most one -1.

Any number of the data's dims may be unknown, but no two of them may share a symbol. Most questions that are known in
part are of this kind, and it needs no search: the -1 is a number times the unknown dims that are not copied, over a
number. It is found where that fraction in lowest terms has one unknown dim, or no divisor.

The answers are those of `solvers.cases` in a tenth of the time; whatever does not fit, or is to be refused, is left to
it.
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
    make_dim,
    make_legal_expression,
)
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.names import is_name
from tensor_reshape.rules.targets import Target

_NONE = Interval(1, 0)


def solve_single(data: Sequence[AnyDim], target: Target[AnyDim]) -> tuple[AnyDim, ...] | None:
    """Returns the output's dims; None where the question does not fit, or is to be refused.

    Lemma: cancelled-volumes.

    Args:
        data: the data's dims, unchecked: one that breaks rule 1 does not fit.
        target: of the question.
    """
    # A length and an unknown item are unknowns as the -1 is, and a literal 0 is a case of its own.
    if not target.is_plain or not _are_independent(data):
        return None
    dividend, unknown = _multiply(data, target.copied)
    divisor = target.product
    if target.inferred is None:
        # Copies stand on both sides, so equal products of the others make equal volumes. Unequal ones may do so too,
        # where a copied dim is 0: that is a case split, and not for here.
        return None if unknown or dividend != divisor else tuple(target.dims)
    quotient = _divide(dividend, unknown, divisor)
    if quotient is None:
        return None
    output = list(target.dims)
    output[target.inferred] = quotient.dim
    if target.cancelled or _raise_copies(output, target.copied):
        return tuple(output)
    return None


def _raise_copies(output: list[AnyDim], copied: Sequence[int]) -> bool:
    """Notes that the copied dims are not 0, as a -1 is divided by them; returns whether they fit still.

    Lemma: quotient-of-elements.
    """
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


def _are_independent(data: Sequence[AnyDim]) -> bool:
    """Whether every dim is legal, none is a number in disguise, and none has to do with another."""
    names = list[str]()
    for dim in data:
        if isinstance(dim, int):
            if not 0 <= dim <= MAX_DIM:
                return False
        elif dim is not None and not _is_independent(dim, names):
            return False
    return True


def _is_independent(dim: Dim, names: list[str]) -> bool:
    # One value is a number, and a range up to the largest dim is written without its end: the answer is to be the same
    # whichever way a dim was written, so both are left to the solver that makes them plain.
    (low, high), expression = dim
    if not 0 <= low < (MAX_DIM if high is None else high) or (high or 0) >= MAX_DIM:
        return False
    if expression is None:
        return high is not None or low > 0
    symbol = expression.symbol
    # A symbol that comes twice makes a square, and one with bounds apart from its dim's must be met with them.
    if symbol is None or symbol.name in names or symbol.bounds != dim.bounds or not is_name(symbol.name):
        return False
    names.append(symbol.name)
    return True


def _multiply(data: Sequence[AnyDim], copied: Sequence[int]) -> tuple[int, list[Dim | None]]:
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
    """Returns `dividend * unknown / divisor`, None where that takes a search or has no solution.

    Of one unknown n, the fraction in lowest terms is above * n / below, a whole number only where `below` divides n: so
    n / below lies from ceil(low / below) to floor(high / below), and every value between is taken. 12 * n / 8 with n
    from 3 to 9 is 3 * (n / 2): from 3 * 2 to 3 * 4.

    Lemmas: step-by-the-other-constant, whole-quotients.
    """
    if dividend == 0:
        return _Quotient(0)
    if not unknown:
        quotient, rest = divmod(dividend, divisor)
        return None if rest or quotient > MAX_DIM else _Quotient(quotient)
    # Over a divisor, two unknown dims share its primes in ways that only a search tells apart.
    common = gcd(dividend, divisor)
    above, below = dividend // common, divisor // common
    if (below != 1 and len(unknown) > 1) or below > MAX_DIM // 2:
        return None
    bounds = [find_bounds(dim) for dim in unknown]
    found = _multiply_bounds(above, bounds, below)
    may_be_empty = 0 in [bound.min for bound in bounds]  # a generator takes longer than the one or two that there are
    if found.min > MAX_DIM or found.is_empty:  # no output has elements; whether it is refused is said elsewhere
        return _Quotient(0) if may_be_empty else None
    high = MAX_DIM if found.max is None else min(found.max, MAX_DIM)
    return _Quotient(make_dim(Interval(0 if may_be_empty else found.min, high), _name(above, unknown, below)))


def _multiply_bounds(above: int, bounds: Sequence[Interval], below: int) -> Interval:
    """Returns what the quotient lies between where no dim is 0; empty where there is no such quotient."""
    low = above
    high: int | None = above
    for least, most in bounds:
        low *= -(-(least or 1) // below)
        if most is None:
            high = None
        elif most < below:
            return _NONE
        elif high is not None:
            high *= most // below
    return Interval(low, high)


def _name(above: int, unknown: Sequence[Dim | None], below: int) -> Expression | None:
    symbols = list[Symbol]()
    for dim in unknown:
        symbol = None if dim is None or dim.expression is None else dim.expression.symbol
        if symbol is None:
            return None
        symbols.append(symbol)
    return make_legal_expression(above, symbols, below) if symbols else None
