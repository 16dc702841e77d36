"""Reads the answer of an implementation from JSON, and compares it with the right answer.

Invariants:

- If a JSON record is not a valid answer, reading it raises an `InvalidAnswerError`.
- A null counts as a missing key, because the serializers of many languages write null for a missing value.
- An answer whose shape has more than _MAX_DIMS dims is invalid, and the shape is not read.
- If the range of a dim is wider than in the right answer, the answer is weaker, but not wrong. If the range is narrower
  and an instance of the query contradicts it, the answer is wrong. If the range is narrower and no such instance was
  found, the answer is tighter.
- Two answers that reject the query agree even if their reasons differ.
- If a case asks for conditions and the answer has none, the verdict is unsupported. However, if the shape in the answer
  is also wrong or weaker, this difference is the verdict.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain, islice
from math import isqrt
from typing import Any, NamedTuple, TypeAlias

from tensor_reshape.conformance.cases import Case, read_case_question
from tensor_reshape.conformance.instances import (
    find_outside,
    list_accepted,
    list_candidates,
    list_instances,
    list_names,
)
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Expression,
    Interval,
    check_dims,
    check_partial_dims,
    find_bounds,
    format_dim,
    format_dims,
)
from tensor_reshape.rules.errors import InvalidRequestError, ReshapeError
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.inference import read_infer_response
from tensor_reshape.wire.json_messages import Json, read_message

_MAX_INSTANCES = 200
_MAX_CANDIDATES = 3000
_MAX_BEYOND = 24
MAX_QUOTED = 200
NO_CONDITIONS = "The answer has no conditions."
"""The explanation for an answer that has the right shape, but not the conditions for which the case asks."""

_KEYS = ("answer", "output", "rejection", "unsupported")
_MAX_DIMS = 4096
_MAX_CONDITIONS = 1000
_CONDITIONS = ("conditions", "conditionsComplete", "conditions_complete")


class CaseVerdict(StrEnum):
    """The verdict about an implementation's answer to a case. The members are ordered from the worst to the best."""

    CRASH = "crash"
    HANG = "hang"
    GARBAGE = "garbage"
    WRONG_BYTES = "wrong_bytes"
    WRONG_SHAPE = "wrong_shape"
    MISSING_ERROR = "missing_error"
    SPURIOUS_ERROR = "spurious_error"
    WEAKER = "weaker"
    TIGHTER = "tighter"
    UNSUPPORTED = "unsupported"
    AGREES = "agrees"

    @property
    def is_difference(self) -> bool:
        """Whether this verdict means that the answer is worse than the right answer."""
        return self not in {CaseVerdict.TIGHTER, CaseVerdict.UNSUPPORTED, CaseVerdict.AGREES}


class InvalidAnswerError(Exception):
    """A JSON record is not a valid answer. The error text describes the fault of the record."""


class GivenShape(NamedTuple):
    """An answer with an output shape.

    Attributes:
        dims: the dims of the output shape, or None if its rank is unknown.
        data: the bytes of the output tensor, or None if the answer contains no bytes.
        conditions: the conditions in the answer, or None if the answer says nothing about conditions.
        conditions_complete: whether, according to the answer, the rules accept every instance that satisfies the
            conditions.
    """

    dims: tuple[AnyDim, ...] | None
    data: bytes | None = None
    conditions: tuple[Condition, ...] | None = None
    conditions_complete: bool = True


class Unsupported(NamedTuple):
    """The answer of an implementation that does not support the query.

    Attributes:
        why: the explanation that the implementation gives.
    """

    why: str


GivenAnswer: TypeAlias = GivenShape | Unsupported | None
"""None is a rejection. Its reason is not compared."""


def read_answer(record: Json) -> GivenAnswer:
    """Returns the answer that a JSON record contains. Raises InvalidAnswerError if the record is not a valid answer."""
    parts = [key for key in _KEYS if record.get(key) is not None]
    if not parts:
        raise InvalidAnswerError(f"the answer has none of the keys {', '.join(_KEYS)}")
    if len(parts) > 1:
        raise InvalidAnswerError(f"the answer has both {parts[0]} and {parts[1]}, but only one of them is allowed")
    value = record[parts[0]]
    match parts[0]:
        case "unsupported":
            return Unsupported(str(value)[:MAX_QUOTED])
        case "rejection":
            return None
        case "output":
            return _read_output(value)
        case _:
            return _read_shape(value)


def _read_output(value: object) -> GivenShape:
    _check_count(value, "dims", _MAX_DIMS)
    try:
        tensor = read_message(tensor_pb2.Tensor, value, "output", ignores_unknown=True)
        return GivenShape(tuple(check_dims(tensor.dims, "output.dims")), tensor.data)
    except InvalidRequestError as error:
        raise InvalidAnswerError(error.message) from None


def _read_shape(value: object) -> GivenShape:
    for path, limit in (("shape.dims", _MAX_DIMS), ("shape.partial", _MAX_DIMS), ("conditions", _MAX_CONDITIONS)):
        _check_count(value, path, limit)
    listed = _get(value, "shape.dims")
    # If an answer contains numbers that are not valid dims, it is readable, but wrong. The protobuf message cannot
    # represent all such numbers, so 0 replaces them here.
    dims = listed if isinstance(listed, list) else []
    invalid = {index: dim for index, dim in enumerate(dims) if type(dim) is int and not -1 <= dim <= MAX_DIM}
    if isinstance(value, Mapping) and invalid:
        possible = [0 if index in invalid else dim for index, dim in enumerate(dims)]
        value = {**value, "shape": {**value["shape"], "dims": possible}}
    try:
        message = read_message(reshape_pb2.InferShapeResponse, value, "answer", ignores_unknown=True)
        answer = read_infer_response(message)
        for index, condition in enumerate(answer.conditions):
            _check_condition(condition, f"conditions[{index}]")
    except ReshapeError as error:
        raise InvalidAnswerError(error.message) from None
    if len(_get(value, "conditions") or ()) != len(answer.conditions):
        raise InvalidAnswerError("a condition must have the kind KIND_EQUAL, KIND_DIVIDES or KIND_RANGE")
    if any(find_bounds(dim).is_empty for dim in answer.dims or ()):
        raise InvalidAnswerError("a dimension of the shape has bounds that contain no value")
    conditions = answer.conditions if any(_get(value, key) is not None for key in _CONDITIONS) else None
    given = None if answer.dims is None else tuple(invalid.get(index, dim) for index, dim in enumerate(answer.dims))
    return GivenShape(given, None, conditions, answer.conditions_complete)


def _check_condition(condition: Condition, path: str) -> None:
    """Raises InvalidAnswerError if a condition cannot be evaluated."""
    ends = [end for end in (condition.min, condition.max) if end is not None]
    products = [product for product in (condition.left, condition.right, condition.unless_zero) if product is not None]
    if condition.kind is ConditionKind.RANGE:
        is_valid = condition.right is None and bool(ends) and min(ends) >= 0
    else:
        is_valid = condition.right is not None and not any(one.divisors or one.divisor != 1 for one in products)
    if not is_valid:
        raise InvalidAnswerError(f"{path} must have either right and no divisor, or a range with min or max")
    for product in products:
        if product.symbols:
            check_partial_dims([Dim(ANY, product)], path)
        elif product.coefficient < 0 or product.divisor < 1:
            raise InvalidAnswerError(f"{path} has a number that is out of range")


def _check_count(value: object, path: str, limit: int) -> None:
    """Raises InvalidAnswerError if the value at a path of keys is a list with more than `limit` items."""
    found = _get(value, path)
    if isinstance(found, list) and len(found) > limit:
        raise InvalidAnswerError(f"{path} has {len(found)} items, but at most {limit} are allowed")


def _get(value: object, path: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the value at a path of keys in a JSON object, or None if the path does not exist."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


class Judgement(NamedTuple):
    """A verdict about an answer, with a description of the difference.

    Attributes:
        verdict: the verdict about the answer.
        why: a short description of the difference, or an empty text if there is none.
    """

    verdict: CaseVerdict
    why: str = ""


AGREES = Judgement(CaseVerdict.AGREES)


def judge(case: Case, record: Json) -> Judgement:
    """Compares the JSON of an answer with the right answer."""
    try:
        answer = read_answer(record)
    except InvalidAnswerError as error:
        return Judgement(CaseVerdict.GARBAGE, str(error)[:MAX_QUOTED])
    right = read_answer(case.right)
    if isinstance(answer, Unsupported):
        return Judgement(CaseVerdict.UNSUPPORTED, answer.why)
    if not isinstance(right, GivenShape):
        if answer is None:
            return AGREES
        return Judgement(CaseVerdict.MISSING_ERROR, f"{format_dims(answer.dims)} instead of a rejection")
    if answer is None:
        return Judgement(CaseVerdict.SPURIOUS_ERROR, f"a rejection instead of {format_dims(right.dims)}")
    return min(_judge_parts(case, right, answer), key=lambda judgement: list(CaseVerdict).index(judgement.verdict))


def _judge_parts(case: Case, right: GivenShape, answer: GivenShape) -> Iterator[Judgement]:
    """Yields judgements about the parts of an answer. The worst judgement is the verdict about the answer."""
    yield AGREES
    if right.data is not None and answer.data is None:
        yield Judgement(CaseVerdict.WEAKER, "nothing was executed")
    elif right.data is not None and answer.data is not None and right.data != answer.data:
        yield Judgement(CaseVerdict.WRONG_BYTES, f"the bytes are {answer.data.hex()[:MAX_QUOTED]}")
    if answer.dims is None:
        yield AGREES if right.dims is None else Judgement(CaseVerdict.WEAKER, "its rank is unknown")
    elif right.dims is None:  # the query has outputs of several ranks
        yield Judgement(CaseVerdict.WRONG_SHAPE, f"its rank is {len(answer.dims)}, but any rank is possible")
    elif len(right.dims) != len(answer.dims):
        yield Judgement(CaseVerdict.WRONG_SHAPE, f"its rank is {len(answer.dims)}, not {len(right.dims)}")
    else:
        yield from _judge_dims(read_case_question(case.query), right.dims, answer.dims)
    yield from _judge_conditions(case, right, answer)


def _judge_conditions(case: Case, right: GivenShape, answer: GivenShape) -> Iterator[Judgement]:
    if right.conditions is None:  # the case does not ask for conditions
        return
    have = answer.conditions
    if have is None:
        yield Judgement(CaseVerdict.UNSUPPORTED, NO_CONDITIONS)
        return
    candidates = list(islice(list_candidates(read_case_question(case.query)), _MAX_CANDIDATES))
    accepted = [values for values, is_accepted in candidates if is_accepted]
    # If a condition in the answer limits a dim, the values just beyond the limit show whether the limit is right.
    beyond = [value for one in have if one not in right.conditions for value in _list_beyond(one)]
    extra = list_accepted(read_case_question(case.query), [*dict.fromkeys(beyond)][:_MAX_BEYOND]) if beyond else ()
    tried = chain(accepted, extra)
    broken = next(((one, values) for values in tried for one in have if not _holds(one, values)), None)
    if broken is not None:
        text = f"the condition {str(broken[0])[:100]} excludes {_format(broken[1])}, which is accepted"
        yield Judgement(CaseVerdict.WRONG_SHAPE, text)
    # If neither the right answer nor this answer has complete conditions, an instance only counts as rejected if it
    # also violates the right conditions.
    are_all = right.conditions_complete or answer.conditions_complete
    admitted = next(
        (
            values
            for values, is_accepted in candidates
            if not is_accepted
            and (are_all or not all(_holds(one, values) for one in right.conditions))
            and all(_holds(one, values) for one in have)
        ),
        None,
    )
    if admitted is not None:
        verdict = CaseVerdict.WRONG_SHAPE if answer.conditions_complete else CaseVerdict.WEAKER
        yield Judgement(verdict, f"the conditions admit {_format(admitted)}, which is rejected")
    elif right.conditions_complete and not answer.conditions_complete:
        yield Judgement(CaseVerdict.WEAKER, "the conditions are complete, but conditionsComplete is false")


def _list_beyond(condition: Condition) -> Iterator[int]:
    """Yields values just beyond the limits or numbers of a condition, because it may wrongly exclude these values."""
    left = condition.left
    for end, step in ((condition.max, 1), (condition.min, -1)):
        if end is not None and (end + step) >= 0:
            value = -(-(end + step) * left.divisor // max(left.coefficient, 1))
            yield value
            yield from (value + near * step for near in (1, 2) if value + near * step >= 0)
            if len(left.factors) > 1:
                root = isqrt(value)
                yield from (root, root + 1)
    for product in (left, condition.right):
        if condition.right is not None and product is not None and product.coefficient > 1:
            yield from (product.coefficient, 2 * product.coefficient, product.coefficient + 1)


def _holds(condition: Condition, values: Mapping[str, int]) -> bool:
    """Whether the values of names satisfy a condition. If a name in the condition has no value, the result is False."""
    return condition.symbols <= values.keys() and condition.holds(values)


def _format(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {format_dims([value])[1:-1]}" for name, value in values.items()) or "the query"


def _judge_dims(question: AnyQuestion, right: Sequence[AnyDim], answer: Sequence[AnyDim]) -> Iterator[Judgement]:
    known = list_names(question)
    for index, (want, have) in enumerate(zip(right, answer, strict=True)):
        yield from _judge_bounds(question, index, want, have)
        yield from _judge_name(question, index, _find_name(want, known), _find_name(have, known))
    yield from _judge_new_names(question, answer, known)


def _judge_new_names(question: AnyQuestion, answer: Sequence[AnyDim], known: frozenset[str]) -> Iterator[Judgement]:
    """Judges names in an answer that do not occur in the query.

    The only meaning of such a name is that all dims with this name are equal.
    """
    places = dict[str, list[int]]()
    for index, dim in enumerate(answer):
        if isinstance(dim, Dim) and dim.expression is not None and _find_name(dim, known) is None:
            places.setdefault(str(dim.expression), []).append(index)
    for name, indexes in places.items():
        instances = islice(list_instances(question) if len(indexes) > 1 else (), _MAX_INSTANCES)
        if found := next((one for one in instances if len({one.output[index] for index in indexes}) > 1), None):
            yield Judgement(CaseVerdict.WRONG_SHAPE, f"dimensions {indexes} are not all {name[:MAX_QUOTED]}: {found}")


def _judge_bounds(question: AnyQuestion, index: int, want: AnyDim, have: AnyDim) -> Iterator[Judgement]:
    ours, theirs = find_bounds(want), find_bounds(have)
    if ours == theirs:
        return
    text = f"dimension {index} is {_describe(have)}, not {_describe(want)}"
    if isinstance(want, int) and not theirs.holds(want):
        yield Judgement(CaseVerdict.WRONG_SHAPE, text)
        return
    below = Interval(ours.min, theirs.min - 1).meet(ours)
    above = [] if theirs.max is None else [Interval(theirs.max + 1, None).meet(ours)]
    for part in (part for part in (below, *above) if not part.is_empty):
        instance = find_outside(question, index, part)
        if instance is None:
            yield Judgement(CaseVerdict.TIGHTER, text)
        else:
            yield Judgement(CaseVerdict.WRONG_SHAPE, f"{text}: {instance}")
    if ours.meet(theirs) != theirs:
        yield Judgement(CaseVerdict.WEAKER, text)


def _describe(dim: AnyDim) -> str:
    named = isinstance(dim, Dim) and dim.expression is not None
    return f"{format_dim(dim)} ({format_dim(Dim(find_bounds(dim)))})" if named else format_dim(dim)


def _find_name(dim: AnyDim, known: frozenset[str]) -> Expression | None:
    """Returns the expression of a dim.

    The result is None if there is none, or if it contains a name that the query does not contain.
    """
    if not isinstance(dim, Dim) or dim.expression is None:
        return None
    names = {symbol.name for symbol in dim.expression.symbols}
    return dim.expression if names <= known else None


def _judge_name(
    question: AnyQuestion, index: int, want: Expression | None, have: Expression | None
) -> Iterator[Judgement]:
    if str(want) == str(have):
        return
    if have is None:
        yield Judgement(CaseVerdict.WEAKER, f"dimension {index} has no name; it is {want}")
        return
    for instance in islice(list_instances(question), _MAX_INSTANCES):
        if not instance.evaluate(have, instance.output[index]):
            yield Judgement(CaseVerdict.WRONG_SHAPE, f"dimension {index} is not {have}: {instance}")
            return
    if want is None:  # if the right answer has another name for the dim, both names are right
        yield Judgement(CaseVerdict.TIGHTER, f"dimension {index} has the name {have}")
