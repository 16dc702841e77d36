"""Explains a result by the origins of its output dims, and a rejection by the values that would be accepted.

Invariants: an explanation never changes a result. An explanation uses the items that the module `targets` has read. No
text of an explanation is longer than MAX_VALUE_CHARACTERS.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import gcd, prod
from typing import TypeAlias

from tensor_reshape.rules.conditions import Condition, list_declared, name_position, write_product
from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    find_bounds,
    format_dim,
    format_product,
    make_dim,
    make_expression,
    name_dim,
)
from tensor_reshape.rules.errors import (
    MAX_MESSAGE_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    Reason,
    ReshapeError,
    clip_text,
    format_value,
)
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.names import read_multiple
from tensor_reshape.rules.products import Product, find_near_divisors
from tensor_reshape.rules.questions import AnyQuestion, DimGroup, Kind, Origin, is_known
from tensor_reshape.rules.targets import Target, balance, read_target

_HINTED = frozenset({Reason.NOT_DIVISIBLE, Reason.VOLUME_MISMATCH})
"""The reasons for which the accepted values depend on the query. For these reasons, the message contains the accepted
values.
"""

_Describe: TypeAlias = Callable[[AnyQuestion, ReshapeError], str]
"""A function that returns a description of the values that would be accepted."""


def _limit(origin: Origin) -> Origin:
    """Returns the origin of a dim, with texts that are cut at the length limit."""
    return origin._replace(
        text=clip_text(origin.text, MAX_VALUE_CHARACTERS),
        dividend=clip_text(origin.dividend, MAX_VALUE_CHARACTERS),
        divisor=clip_text(origin.divisor, MAX_VALUE_CHARACTERS),
    )


def explain_dims(question: AnyQuestion, target: Target[AnyDim], dims: Sequence[AnyDim]) -> tuple[Origin, ...]:
    """Returns the origin of each output dim.

    Args:
        question: the query.
        target: the target of the query.
        dims: the output dims.
    """
    return tuple([_limit(_explain_dim(question, target, index, dim)) for index, dim in enumerate(dims)])


def remove_bounds(question: AnyQuestion) -> AnyQuestion:
    """Removes the bounds of the names, the input dims and the requested items from a query, and returns the result.

    A name in the expected shape keeps the lower bound 1 if it cannot be 0. Without this bound, the caller could expect
    an unknown item to be 0, which no condition can express.
    """
    data, target, expected = question.data, question.target, question.expected
    declared = list_declared(data, target, expected)
    least = {name: Interval(min(bounds.min, 1), None) for name, bounds in declared.items()}
    return question._replace(
        data=None if data is None else [_remove_bounds(dim, {}, ANY) for dim in data],
        target=None if target is None else [_remove_bounds(dim, {}, ANY) for dim in target],
        expected=None if expected is None else [_remove_bounds(dim, least, find_bounds(dim)) for dim in expected],
    )


def _remove_bounds(dim: AnyDim, kept: Mapping[str, Interval], bounds: Interval) -> AnyDim:
    """Returns a dim whose names have only the bounds in `kept`. Unless the dim is a single name, it has `bounds`."""
    if not isinstance(dim, Dim) or dim.expression is None:
        return Dim(bounds) if isinstance(dim, Dim) else dim
    expression = Expression(*dim.expression.map_factors(lambda one: Symbol(one.name, kept.get(one.name, ANY))))
    return Dim(bounds if expression.symbol is None else expression.symbol.bounds, expression)


def name_expected(question: AnyQuestion) -> AnyQuestion:
    """Returns the query after each expected number or range is named by its position."""
    names = {*list_declared(question.data, question.target, question.expected)}
    expected = [
        dim
        if dim is None or (isinstance(dim, Dim) and dim.expression is not None)
        else name_dim(name_position("expected_shape", index, names), *find_bounds(dim))
        for index, dim in enumerate(question.expected or ())
    ]
    return question._replace(expected=expected)


def explain_rejection(question: AnyQuestion, error: ReshapeError, contradiction: str = "") -> ReshapeError:
    """Returns the error with additional values in its metadata.

    The metadata `rule` is the number of the broken rule. The metadata `accepted` describes the values that would be
    accepted. The metadata `contradiction` is the text of `describe_contradiction`, unless this text is empty or too
    long.

    The error is returned unchanged if its reason does not belong to the five rules, or if this version does not know
    its reason.
    """
    reason = Reason(error.reason) if error.reason in Reason.__members__ else None
    describe = None if reason is None else _ACCEPTED.get(reason)
    if reason is None or describe is None:
        return error
    accepted = clip_text(describe(question, error), MAX_VALUE_CHARACTERS)
    metadata = {**error.metadata, "rule": str(reason.rule), "accepted": accepted}
    # If a part of the text were cut off, the rest would not be a contradiction. So a text that is too long is left out.
    text = clip_text(contradiction, MAX_VALUE_CHARACTERS + 1)
    if 0 < len(text) <= MAX_VALUE_CHARACTERS:
        metadata["contradiction"] = text
    return type(error)(_add_hint(error, accepted), reason=reason, field=error.field, metadata=metadata)


def describe_contradiction(question: AnyQuestion, conditions: Sequence[Condition]) -> str:
    """Returns a text with the conditions of a query and the declarations in the query that contradict them.

    The text is empty if there are no such conditions or declarations.

    Args:
        question: a query without accepted instances.
        conditions: the conditions of the query after its bounds are removed. They are sufficient for an accepted
            instance.
    """
    sides = (question.data or (), question.target or (), question.expected or ())
    declared = list_declared(*sides)
    if any(bounds.is_empty for bounds in declared.values()):
        return ""  # the bounds of a name contradict each other, so no condition takes part in the contradiction
    linked = _list_bases(symbol for condition in conditions for symbol in condition.list_symbols())
    # The value of each expression is an integer within its bounds. An expression takes part in the contradiction if it
    # has a name in common with the conditions, or with another expression that takes part. It also takes part if all
    # its names cancel each other, as in 4*N/N. The conditions already contain the expected dims.
    expressions = {
        (dim.bounds, dim.expression): _list_bases(dim.expression.symbols)
        for dims in sides[:2]
        for dim in dims
        if isinstance(dim, Dim) and dim.expression is not None and dim.is_product
    }
    for own in [*expressions.values()] * len(expressions):
        linked |= own if own & linked else set()
    texts = list[str]()
    for (bounds, expression), own in expressions.items():
        takes_part = own & linked or Counter(expression.factors) == Counter(expression.divisors)
        if takes_part and bounds != ANY:
            texts.append(f"{write_product(expression)} is {format_dim(make_dim(bounds))}")
        elif takes_part and (expression.divisor > 1 or expression.divisors):
            texts.append(f"{write_product(expression)} is an integer")
    for name, bounds in declared.items():
        symbol, dim = Symbol(name), make_dim(bounds)
        if dim is not None and linked & _list_bases([symbol]):
            texts.append(f"{write_product(make_expression(1, [symbol]))} is {format_dim(dim)}")
    return ", but ".join([", ".join(map(str, conditions)), ", ".join(texts)]) if conditions and texts else ""


def _list_bases(symbols: Iterable[Symbol]) -> set[Hashable]:
    """Returns the base of each name. Several sums may have the same base. A name that is not a sum is its own base."""
    return {read_multiple(symbol.name).base for symbol in symbols}


def hint_rejection(question: AnyQuestion, error: ReshapeError) -> ReshapeError:
    """Returns the error with the accepted values in its message, if these values depend on the query.

    Callers use this function only for single local queries, because the search for accepted values may take longer than
    the query itself.
    """
    if error.reason not in _HINTED:
        return error
    accepted = clip_text(_ACCEPTED[Reason(error.reason)](question, error), MAX_VALUE_CHARACTERS)
    return type(error)(_add_hint(error, accepted), reason=error.reason, field=error.field, metadata=error.metadata)


def _add_hint(error: ReshapeError, accepted: str) -> str:
    """Returns the message of the error, followed by the accepted values if these values depend on the query."""
    if error.reason not in _HINTED:
        return error.message
    return clip_text(f"{error.message}; accepted: {accepted}", MAX_MESSAGE_CHARACTERS)


def _explain_dim(question: AnyQuestion, target: Target[AnyDim], index: int, dim: AnyDim) -> Origin:
    kind, item = target.kinds[index], target.dims[index]
    if kind is Kind.INFERRED:
        return _explain_inferred(question, target, index, dim)
    if kind is Kind.COPIED:
        text = f"shape[{index}] is 0 and special_zero is true: input dimension {index}, {_show(dim)}"
        return Origin(kind, text, data_index=index)
    texts = {
        Kind.LITERAL: f"shape[{index}] is {format_dim(item)}",
        Kind.LENGTH: f"shape[{index}] is the size {_show(item)}; the number of elements allows {_show(dim)}",
        Kind.UNKNOWN: f"shape[{index}] is unknown; the number of elements allows {_show(dim)}",
    }
    return Origin(kind, texts[kind])


def _explain_inferred(question: AnyQuestion, target: Target[AnyDim], index: int, dim: AnyDim) -> Origin:
    above, below = balance(target, question.data or ())
    dividend = "?" if question.data is None else format_product(above)
    divisor = format_product(below)
    text = f"shape[{index}] is -1: {dividend} / {divisor}"
    if target.cancelled:
        text += ", the copied dimensions left out"
    return Origin(Kind.INFERRED, f"{text} = {_show(dim)}", None, dividend, divisor)


def _show(dim: AnyDim) -> str:
    """Returns a dim as text, including the bounds if the dim has a name."""
    if isinstance(dim, Dim) and dim.expression is not None and dim.bounds != (0, None):
        return f"{dim} ({Dim(dim.bounds)})"
    return format_dim(dim)


def _accept_division(question: AnyQuestion, error: ReshapeError) -> str:
    dividend, divisor = error.metadata.get("dividend", ""), error.metadata.get("divisor", "")
    text = f"other items whose product divides {dividend}"
    if not (dividend.isdecimal() and divisor.isdecimal()):
        return text
    numbers = [dim for dim in question.data or () if isinstance(dim, int)]
    near = find_near_divisors(int(dividend), int(divisor), numbers)
    found = " and ".join(map(str, near.values))
    if not near.are_nearest:
        return f"{text}, such as {found}"
    return f"{text}: the nearest {'are' if len(near.values) > 1 else 'is'} {found}"


def _accept_volume(question: AnyQuestion, _error: ReshapeError) -> str:
    have = format_product(question.data or ())
    text = f"items whose product is {have}"
    if not is_known(question):
        return text
    # The error does not contain the parsed target shape, so the target is read again. Rule 2 is checked before rule 4,
    # so a query that breaks rule 4 has a target in which each item can be read.
    items = read_target(question, question.target).dims
    volume = prod(question.data)
    for index in range(len(items)):
        others = prod(other for place, other in enumerate(items) if place != index)
        if others == 0 or volume % others or volume // others > MAX_DIM:
            continue
        # If special_zero is true, an item of 0 would copy a data dim, and this dim may have another value.
        if volume == 0 and question.special_zero:
            return f"{text}: -1 for shape[{index}]"
        return f"{text}: {format_value(volume // others)}, or -1, for shape[{index}]"
    return text


def _accept_zero_volume(question: AnyQuestion, _error: ReshapeError) -> str:
    if question.data is None or any(find_bounds(dim).max == 0 for dim in question.data):
        return "other items without a 0, or a size in place of the -1"
    return f"other items whose product divides {format_product(question.data)}, without a 0"


def _accept_expected(_question: AnyQuestion, error: ReshapeError) -> str:
    have = error.metadata.get("have", "")
    if "index" in error.metadata:
        return f"{have}, or an unknown dimension, for {error.field}"
    return f"{have}, or a shape that includes it, for {error.field}"


def _accept_copy(question: AnyQuestion, _error: ReshapeError) -> str:
    rank = len(question.data or ())
    return f"a 0 at an index below {rank}, or a size" if rank else "a size, because a scalar has no dimension to copy"


def _accept_rank(_question: AnyQuestion, error: ReshapeError) -> str:
    return f"up to {error.metadata.get('limit', '')} items"


def _say(text: str) -> _Describe:
    return lambda _question, _error: text


# For each reason of a rejection, this mapping has a function that describes the accepted values. `Reason.rule` is the
# number of the broken rule.
_ACCEPTED: dict[Reason, _Describe] = {
    Reason.DATA_TYPE_UNSUPPORTED: lambda _question, error: error.metadata.get("admitted", "a data type"),
    Reason.SPECIAL_ZERO_MISSING: _say("special_zero true or false"),
    Reason.RANK_UNSUPPORTED: _accept_rank,
    Reason.RANK_LIMIT_EXCEEDED: _accept_rank,
    Reason.DIM_OUT_OF_RANGE: _say("a dimension from 0 to 2^63 - 1"),
    Reason.INTERVAL_EMPTY: _say("an interval whose ends are in order"),
    Reason.EXPRESSION_INVALID: _say("names of 1 to 64 characters, and numbers from 1 to 2^63 - 1"),
    Reason.SYMBOL_CONFLICT: _say("bounds of one symbol that have a number in common"),
    Reason.INVALID_TARGET_VALUE: _say("a value from -1 to 2^63 - 1"),
    Reason.COPY_INDEX_OUT_OF_RANGE: _accept_copy,
    Reason.MULTIPLE_MINUS_ONE: _say("one -1, and sizes for the others"),
    Reason.MINUS_ONE_WITH_ZERO_VOLUME: _accept_zero_volume,
    Reason.NOT_DIVISIBLE: _accept_division,
    Reason.DIM_OVERFLOW: _say(
        "other items with a greater product that divides the number of elements: a dimension is at most 2^63 - 1"
    ),
    Reason.VOLUME_MISMATCH: _accept_volume,
    Reason.EXPECTED_SHAPE_MISMATCH: _accept_expected,
}


_Boundary: TypeAlias = tuple[int, int]
"""The number of data dims and of output dims before a boundary."""


def find_dim_groups(data: Sequence[AnyDim], output: Sequence[AnyDim], copied: Collection[int]) -> list[DimGroup]:
    """Returns the smallest groups of neighbouring data dims that become neighbouring output dims.

    Args:
        data: the data dims.
        output: the output dims of an accepted query.
        copied: the indices of output dims that are copies of the data dim with the same index.
    """
    left = [_factor(dim, ("data", index)) for index, dim in enumerate(data)]
    right = [left[index] if index in copied else _factor(dim, ("output", index)) for index, dim in enumerate(output)]
    boundaries = _find_boundaries(left, right)
    # If an unknown dim comes after the last boundary that was found, products with this dim cannot be compared. The
    # remaining boundaries are therefore found with products that start at the ends of both shapes.
    before, after = boundaries[-1]
    backwards = _find_boundaries(left[before:][::-1], right[after:][::-1])
    boundaries += [(len(left) - below, len(right) - above) for below, above in reversed(backwards)]
    return [DimGroup(range(low[0], high[0]), range(low[1], high[1])) for low, high in pairwise(boundaries)]


def _factor(dim: AnyDim, token: Hashable) -> Product[Hashable]:
    # A dim of 0 is handled like an unknown dim. All products with a 0 are equal, so equal products do not show which
    # dims belong together.
    if isinstance(dim, int) and dim != 0:
        return Product(dim, ())
    if not isinstance(dim, Dim) or dim.expression is None:
        return Product(1, (token,))
    return dim.expression.map_factors(lambda symbol: symbol.name)


def _find_boundaries(left: Sequence[Product[Hashable]], right: Sequence[Product[Hashable]]) -> list[_Boundary]:
    """Returns the boundaries at which both shapes can be split, beginning with the start of the shapes.

    Before each boundary, the dims of both shapes have equal products. The end of the shapes is not included.
    """
    # A dim of 1 does not change a product, so different numbers of dims may have the same product.
    known = defaultdict[Hashable, list[int]](list)
    for count, product in enumerate(_multiply(left)[:-1], 1):
        known[product].append(count)
    boundaries = [(0, 0)]
    for count, product in enumerate(_multiply(right)[:-1], 1):
        below = next((place for place in known.get(product, ()) if place > boundaries[-1][0]), None)
        if below is not None:
            boundaries.append((below, count))
    return boundaries


def _multiply(factors: Sequence[Product[Hashable]]) -> list[Hashable]:
    """Returns the products of the first factor, of the first two factors, and so on, in a form that can be compared."""
    above, below, powers = 1, 1, Counter[Hashable]()
    products = list[Hashable]()
    for coefficient, names, divisor, divisors in factors:
        common = gcd(above * coefficient, below * divisor)
        above, below = above * coefficient // common, below * divisor // common
        for name in names:
            powers[name] += 1
        for name in divisors:
            powers[name] -= 1
        products.append((above, below, frozenset(item for item in powers.items() if item[1])))
    return products
