"""Finds the output in closed form, which means without a search.

Known shapes need one division or one comparison of exact integers (`solve_exactly`). A partially known query can have a
closed form if its target consists of numbers above 0, copies and at most one -1. Any number of its input dims may be
unknown, but no two dims may have the same symbol. Most partially known queries are of this kind and need no search. The
value of the -1 is a fraction. The numerator of the fraction is a number times the unknown dims that are not copied, and
the denominator is a number. The closed form applies if the numerator has at most one unknown dim, or if the fraction in
lowest terms has the denominator 1.

The closed form gives the same results as `solvers.cases` in a tenth of the time. All other queries, and all partially
known queries that must be rejected, are left to `solvers.cases`.
"""

from collections.abc import Hashable, Sequence
from math import gcd, prod

from tensor_reshape.rules.dims import (
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    bound_dim,
    find_bounds,
    find_symbol,
    make_dim,
    make_legal_expression,
)
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.names import is_name, read_multiple
from tensor_reshape.rules.questions import KnownQuestion
from tensor_reshape.rules.rejections import reject_overflow, reject_remainder, reject_volume, reject_zero_volume
from tensor_reshape.rules.solvers.conditions import (
    NO_CONDITIONS,
    Conditions,
    list_frozen_condition,
    list_single_conditions,
)
from tensor_reshape.rules.targets import Target


def solve_exactly(question: KnownQuestion, target: Target[int]) -> tuple[int, ...]:
    """Returns the output dims of a query with known shapes.

    See the lemma cancelled-volumes in `verification/lemmas.py`.

    Raises:
        InvalidRequestError: the reason is MINUS_ONE_WITH_ZERO_VOLUME, NOT_DIVISIBLE, DIM_OVERFLOW or VOLUME_MISMATCH.
    """
    data, inferred, cancelled = question.data, target.inferred, target.cancelled
    want = target.product
    # `have` is the product of the data dims and `want` is the product of the requested items. A rejection shows both
    # products.
    if cancelled:
        have = prod([dim for index, dim in enumerate(data) if index not in cancelled])
    else:
        have = prod(data)
        # `target.product` contains only the literal items, so the copied dims are multiplied here.
        for index in target.copied:
            want *= data[index]
    if inferred is None:
        if have != want:
            raise reject_volume(question, have, want)
        return tuple(target.dims)
    if want == 0:
        raise reject_zero_volume(question, inferred)
    quotient, remainder = divmod(have, want)
    if remainder:
        raise reject_remainder(question, inferred, have, want)
    if quotient > MAX_DIM:
        raise reject_overflow(question, inferred, quotient)
    # Rule 4 holds without a further check. The output has as many elements as the data, because the divisor times the
    # quotient is the dividend, and the data and the output both contain the cancelled dims.
    output = list(target.dims)
    output[inferred] = quotient
    return tuple(output)


_NONE = Interval(1, 0)


def solve_single(data: Sequence[AnyDim], target: Target[AnyDim]) -> tuple[tuple[AnyDim, ...], Conditions] | None:
    """Returns the output dims and the conditions.

    The result is None if the query has no closed form or must be rejected.

    See the lemma cancelled-volumes in `verification/lemmas.py`.

    Args:
        data: the input dims, which may be invalid. The closed form does not apply if a dim breaks rule 1.
        target: the target of the query.
    """
    # A partially known item of the target would be a second unknown value, in addition to the -1. A literal 0 also has
    # no closed form, because the general solver must examine several cases.
    if not target.is_plain or not _are_independent(data):
        return None
    dividend, unknown = _multiply(data, target.copied)
    divisor = target.product
    if target.inferred is None:
        conditions = _equate(data, target, dividend, unknown)
        return None if conditions is None else (tuple(target.dims), conditions)
    divided = _divide(dividend, unknown, divisor)
    if divided is None:
        return None
    output = list(target.dims)
    output[target.inferred] = divided[0]
    copied = () if target.cancelled else target.copied
    if not _raise_copies(output, copied):
        return None
    # If all dims are known, or if the divisor is 1, the quotient exists without conditions.
    step = 1 if dividend == 0 or not unknown else divisor // gcd(dividend, divisor)
    return tuple(output), list_single_conditions(data, target, step) if step > 1 or copied else NO_CONDITIONS


def _equate(
    data: Sequence[AnyDim], target: Target[AnyDim], dividend: int, unknown: list[Dim | None]
) -> Conditions | None:
    """Returns the conditions of a query without a -1, or None if the query has no closed form or must be rejected."""
    # The copied dims are on both sides, so the volumes are equal if the products of all other dims are equal. If these
    # products differ, the volumes are equal only if a copied dim is 0, which the general solver examines.
    if not unknown:
        return NO_CONDITIONS if dividend == target.product else None
    if target.copied or len(unknown) > 1 or dividend == 0:
        return None
    value, rest = divmod(target.product, dividend)
    is_legal = not rest and value <= MAX_DIM and find_bounds(unknown[0]).holds(value)
    return list_frozen_condition(data, value) if is_legal else None


def _raise_copies(output: list[AnyDim], copied: Sequence[int]) -> bool:
    """Raises the lower bounds of the copied dims to 1, because these dims divide the -1 and cannot be 0.

    Returns whether the closed form still applies.

    See the lemma quotient-of-elements in `verification/lemmas.py`.
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
    """Whether every dim is valid, in its simplest form, and independent of the other dims."""
    bases = list[Hashable]()
    for dim in data:
        if isinstance(dim, int):
            if not 0 <= dim <= MAX_DIM:
                return False
        elif dim is not None and not _is_independent(dim, bases):
            return False
    return True


def _is_independent(dim: Dim, bases: list[Hashable]) -> bool:
    # An interval with only one value could also be written as a number. An upper end of MAX_DIM could also be written
    # as None. The result must not depend on the way in which a dim is written, so such dims are left to the general
    # solver, which simplifies them.
    (low, high), expression = dim
    if not 0 <= low < (MAX_DIM if high is None else high) or (high or 0) >= MAX_DIM:
        return False
    if expression is None:
        return high is not None or low > 0
    symbol = expression.symbol
    if symbol is None or symbol.bounds != dim.bounds or not is_name(symbol.name):
        return False
    # If a symbol occurs in two dims, the number of elements contains the square of the symbol. If a symbol and its dim
    # have different bounds, the bounds must be intersected. If a name is a sum, the sum may imply a lower bound or a
    # divisor of the dim. Queries with one of these problems are left to the general solver.
    factor, base, least = read_multiple(symbol.name)
    if base in bases or factor > 1 or least > low:
        return False
    bases.append(base)
    return True


def _multiply(data: Sequence[AnyDim], copied: Sequence[int]) -> tuple[int, list[Dim | None]]:
    """Returns the product of the known dims that are not copied, and the unknown dims that are not copied."""
    product, unknown = 1, []
    for index, dim in enumerate(data):
        if index in copied:
            continue
        if isinstance(dim, int):
            product *= dim
        else:
            unknown.append(dim)
    return product, unknown


def _divide(dividend: int, unknown: list[Dim | None], divisor: int) -> tuple[AnyDim] | None:
    """Returns `dividend * unknown / divisor`; None if the quotient needs a search or has no possible value.

    The quotient is returned in a tuple, because None means a missing result, and an unknown quotient is also None.

    If there is one unknown dim n, the fraction in lowest terms is above * n / below. The fraction is an integer only if
    `below` divides n. In that case, n / below can have every value from ceil(low / below) to floor(high / below). For
    example, 12 * n / 8 in lowest terms is 3 * n / 2. If n is from 3 to 9, then n is 4, 6 or 8, so n / 2 is from 2 to 4,
    and the quotient is from 6 to 12.

    See the lemmas step-by-the-other-constant and whole-quotients in `verification/lemmas.py`.
    """
    if dividend == 0:
        return (0,)
    if not unknown:
        quotient, rest = divmod(dividend, divisor)
        return None if rest or quotient > MAX_DIM else (quotient,)
    # If a divisor remains and two dims are unknown, the prime factors of the divisor can belong to either dim. Only a
    # search can examine these possibilities.
    common = gcd(dividend, divisor)
    above, below = dividend // common, divisor // common
    if (below != 1 and len(unknown) > 1) or below > MAX_DIM // 2:
        return None
    bounds = [find_bounds(dim) for dim in unknown]
    found = _multiply_bounds(above, bounds, below)
    # the code uses a list, because a generator is slower for one or two items
    may_be_empty = 0 in [bound.min for bound in bounds]
    # If `found` contains no valid dim, the rules accept only empty tensors, whose quotient is 0. If the tensor cannot
    # be empty, the general solver rejects the query.
    if found.min > MAX_DIM or found.is_empty:
        return (0,) if may_be_empty else None
    high = MAX_DIM if found.max is None else min(found.max, MAX_DIM)
    return (make_dim(Interval(0 if may_be_empty else found.min, high), _name(above, unknown, below)),)


def _multiply_bounds(above: int, bounds: Sequence[Interval], below: int) -> Interval:
    """Returns the range of the quotient if no dim is 0; the range is empty if the quotient is never an integer."""
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
        symbol = find_symbol(dim)
        if symbol is None:
            return None
        symbols.append(symbol)
    return make_legal_expression(above, symbols, below) if symbols else None
