"""Reads the conditions of an answer, and finds instances that contradict them.

A product is text such as `2*b`, `N^2*M`, `data[0]`, or `a*b/2` in a range. A dim without a name is called by its
position.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from tensor_reshape.conformance.instances import Candidate, list_candidates
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import Expression, Symbol, format_dims, make_expression
from tensor_reshape.rules.json_format import Json
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion

_KEYS = ("kind", "left", "right", "min", "max", "unless_zero")
_FACTOR = re.compile(r"([0-9]{1,19})|([^\W\d]\w*(?:\[[0-9]+\]'*)?)(?:\^([0-9]{1,2}))?")
_MAX_CONDITIONS = 1000
_MAX_CANDIDATES = 3000


class InvalidConditionError(Exception):
    """A JSON record is not a valid condition. The text describes the fault."""


def read_conditions(value: object) -> tuple[Condition, ...]:
    """Returns the conditions in a JSON list.

    Raises:
        InvalidConditionError: the list or one of its items does not have the required form.
    """
    if not isinstance(value, list) or len(value) > _MAX_CONDITIONS:
        message = f"conditions must be a list of at most {_MAX_CONDITIONS} objects"
        raise InvalidConditionError(message)
    return tuple(_read_condition(record) for record in value)


def describe_conditions(conditions: Sequence[Json]) -> list[Json]:
    """Returns conditions of the project's own JSON with only the keys that the suite compares."""
    return [{key: record[key] for key in _KEYS if key in record} for record in conditions]


def list_values(question: AnyQuestion) -> Sequence[Candidate]:
    """Returns values of the unknown dims of a query, each with whether the rules accept them."""
    return tuple(islice(list_candidates(question), _MAX_CANDIDATES))


def find_excluded(candidates: Iterable[Candidate], conditions: Sequence[Condition]) -> str:
    """Returns a text with an accepted instance that violates a condition. The text is empty if none was found."""
    for values, is_accepted in candidates:
        broken = next((one for one in conditions if is_accepted and not _holds(one, values)), None)
        if broken is not None:
            return f"the condition {str(broken)[:100]} excludes {_format(values)}, which is accepted"
    return ""


def find_admitted(
    candidates: Iterable[Candidate], conditions: Sequence[Condition], right: Sequence[Condition], *, is_complete: bool
) -> str:
    """Returns a text with values that satisfy `conditions`, but not what is right. The text is empty if none was found.

    Args:
        candidates: the result of `list_values` for the query.
        conditions: the conditions of an answer.
        right: the conditions of the right answer.
        is_complete: whether all rejected instances count. Otherwise only those count that violate `right`.
    """
    for values, is_accepted in candidates:
        is_wrong = not is_accepted and (is_complete or not all(_holds(one, values) for one in right))
        if is_wrong and all(_holds(one, values) for one in conditions):
            return f"the conditions admit {_format(values)}, which is rejected"
    return ""


def _holds(condition: Condition, values: Mapping[str, int]) -> bool:
    """Whether values satisfy a condition. A condition with an unknown name is never satisfied."""
    return condition.symbols <= values.keys() and condition.holds(values)


def _format(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {format_dims([value])[1:-1]}" for name, value in values.items()) or "the query"


def _read_condition(record: object) -> Condition:
    if not isinstance(record, dict) or record.get("kind") not in {kind.value for kind in ConditionKind}:
        message = 'a condition must be an object with the "kind" equal, divides or range'
        raise InvalidConditionError(message)
    kind = ConditionKind(record["kind"])
    low, high = record.get("min"), record.get("max")
    if any(end is not None and (type(end) is not int or not 0 <= end <= MAX_DIM) for end in (low, high)):
        message = "min and max of a condition must be numbers from 0 to 2^63 - 1"
        raise InvalidConditionError(message)
    right = None if kind is ConditionKind.RANGE else _read_product(record.get("right"))
    unless = None if record.get("unless_zero") is None else _read_product(record["unless_zero"])
    return Condition(kind, _read_product(record.get("left")), right, low, high, unless)


def _read_product(value: object) -> Expression:
    above, _, below = ("" if value is None else str(value)).partition("/")
    coefficient, factors = _read_factors(above)
    divisor, divisors = _read_factors(below.strip("()")) if below else (1, [])
    if divisor == 0:
        message = f"{str(value)[:100]!r} divides by 0"
        raise InvalidConditionError(message)
    return make_expression(coefficient, factors, divisor, divisors)


def _read_factors(text: str) -> tuple[int, list[Symbol]]:
    number, symbols = 1, list[Symbol]()
    for part in text.split("*"):
        found = _FACTOR.fullmatch(part)
        if found is None:
            message = f"{text[:100]!r} is not a product of numbers and names"
            raise InvalidConditionError(message)
        if found[1] is not None:
            number *= int(found[1])
        else:
            symbols += [Symbol(found[2])] * int(found[3] or 1)
    return number, symbols
