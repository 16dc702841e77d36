"""Explanations of a result: the origins of output dims, and for a rejected value, the values that would be accepted.

Invariants: an explanation never changes a result. An explanation uses the items that the module `targets` has read. No
text of an explanation is longer than MAX_VALUE_CHARACTERS.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

from tensor_reshape.rules.conditions import Condition, list_declared
from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Expression,
    Symbol,
    find_bounds,
    format_dim,
    format_dims,
    format_product,
)
from tensor_reshape.rules.divisors import find_near_divisors
from tensor_reshape.rules.errors import (
    MAX_MESSAGE_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    Reason,
    ReshapeError,
    clip_text,
    format_value,
)
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion, Kind, Origin, is_known
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
    """Returns the query without the bounds of the unknown dims of its data and of its target."""
    sides = (question.data, question.target)
    data, target = (None if dims is None else [_remove_bounds(dim) for dim in dims] for dims in sides)
    return question._replace(data=data, target=target)


def _remove_bounds(dim: AnyDim) -> AnyDim:
    if not isinstance(dim, Dim) or dim.expression is None:
        return dim if isinstance(dim, int) else None
    coefficient, factors, divisor, divisors = dim.expression
    above, below = (tuple([Symbol(symbol.name) for symbol in own]) for own in (factors, divisors))
    return Dim(ANY, Expression(coefficient, above, divisor, below))


def explain_rejection(question: AnyQuestion, error: ReshapeError, conditions: Sequence[Condition] = ()) -> ReshapeError:
    """Returns the error with additional values in its metadata.

    The metadata `rule` is the number of the broken rule. The metadata `accepted` describes the values that would be
    accepted. If there are conditions, the metadata `contradiction` has those that contradict the declared bounds or the
    expected shape, and these bounds and this shape.

    The error is returned unchanged if its reason does not belong to the five rules, or if this version does not know
    its reason.
    """
    reason = Reason(error.reason) if error.reason in Reason.__members__ else None
    describe = None if reason is None else _ACCEPTED.get(reason)
    if reason is None or describe is None:
        return error
    accepted = clip_text(describe(question, error), MAX_VALUE_CHARACTERS)
    metadata = {**error.metadata, "rule": str(reason.rule), "accepted": accepted}
    contradiction = _describe_contradiction(question, conditions)
    if contradiction:
        metadata["contradiction"] = clip_text(contradiction, MAX_VALUE_CHARACTERS)
    return type(error)(_add_hint(error, accepted), reason=reason, field=error.field, metadata=metadata)


def _describe_contradiction(question: AnyQuestion, conditions: Sequence[Condition]) -> str:
    declared = list_declared(question.data, question.target, None)
    names = dict.fromkeys(symbol.name for condition in conditions for symbol in condition.list_symbols())
    bounds = [f"{name} is {Dim(declared[name])}" for name in names if declared.get(name, ANY) != ANY]
    if question.expected is not None and any(condition.right is not None for condition in conditions):
        bounds.append(f"expected_shape is {format_dims(question.expected)}")
    return ", but ".join([", ".join(map(str, conditions)), ", ".join(bounds)]) if conditions and bounds else ""


def hint_rejection(question: AnyQuestion, error: ReshapeError) -> ReshapeError:
    """Returns the error with the accepted values in its message, if these values depend on the query.

    Callers use this function only for single local queries, because the search for accepted values may take longer than
    the query.
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
        text = f"shape[{index}] is 0 and special_zero is true: data dim {index}, {_show(dim)}"
        return Origin(kind, text, data_index=index)
    texts = {
        Kind.LITERAL: f"shape[{index}] is {format_dim(item)}",
        Kind.LENGTH: f"shape[{index}] is the length {_show(item)}; the number of elements allows {_show(dim)}",
        Kind.UNKNOWN: f"shape[{index}] is unknown; the number of elements allows {_show(dim)}",
    }
    return Origin(kind, texts[kind])


def _explain_inferred(question: AnyQuestion, target: Target[AnyDim], index: int, dim: AnyDim) -> Origin:
    above, below = balance(target, question.data or ())
    dividend = "?" if question.data is None else format_product(above)
    divisor = format_product(below)
    text = f"shape[{index}] is -1: {dividend} / {divisor}"
    if target.cancelled:
        text += ", the copied dims left out"
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
        return "other items without a 0, or a length in place of the -1"
    return f"other items whose product divides {format_product(question.data)}, without a 0"


def _accept_expected(_question: AnyQuestion, error: ReshapeError) -> str:
    return f"{error.metadata.get('have', '')}, or an unknown dim, for {error.field}"


def _accept_copy(question: AnyQuestion, _error: ReshapeError) -> str:
    return f"a 0 at an index below {len(question.data or ())}, or a length"


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
    Reason.DIM_OUT_OF_RANGE: _say("a dim from 0 to 2^63 - 1"),
    Reason.INTERVAL_EMPTY: _say("an interval whose ends are in order"),
    Reason.EXPRESSION_INVALID: _say("names of 1 to 64 characters, and numbers from 1 to 2^63 - 1"),
    Reason.SYMBOL_CONFLICT: _say("bounds of one symbol that have a number in common"),
    Reason.INVALID_TARGET_VALUE: _say("a value from -1 to 2^63 - 1"),
    Reason.COPY_INDEX_OUT_OF_RANGE: _accept_copy,
    Reason.MULTIPLE_MINUS_ONE: _say("one -1, and lengths for the others"),
    Reason.MINUS_ONE_WITH_ZERO_VOLUME: _accept_zero_volume,
    Reason.NOT_DIVISIBLE: _accept_division,
    Reason.DIM_OVERFLOW: _say(
        "other items with a greater product that divides the number of elements: a dim is at most 2^63 - 1"
    ),
    Reason.VOLUME_MISMATCH: _accept_volume,
    Reason.EXPECTED_SHAPE_MISMATCH: _accept_expected,
}
