"""Reads the answer of an implementation from JSON, and compares it with the right answer.

Invariants:

- If a JSON record is not a valid answer, reading it raises an `InvalidAnswerError`.
- A null counts as a missing key, because the serializers of many languages write null for a missing value.
- A shape with more than _MAX_DIMS dims is rejected before it is read.
- An answer with a wider range is weaker, but not wrong. An answer with a narrower range is wrong if an instance of the
  query contradicts it, and tighter if no such instance was found.
- Two answers that reject the query agree even if their reasons differ.
- An answer without conditions is unsupported if the case asks for them. If its shape is wrong or weaker, it still is a
  difference.
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
    """The verdict about an answer of an implementation. The members are ordered from the worst verdict to the best."""

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
        """Whether the answer differs from the right answer."""
        return self not in {CaseVerdict.TIGHTER, CaseVerdict.UNSUPPORTED, CaseVerdict.AGREES}


class InvalidAnswerError(Exception):
    """A JSON record is not a valid answer. The error text describes the fault of the record."""


class GivenShape(NamedTuple):
    """An output shape.

    Attributes:
        dims: the dims. The value is None if the rank is unknown.
        data: the bytes of the output. The value is None if the answer has no bytes.
        conditions: the conditions. The value is None if the answer does not mention any.
        conditions_complete: whether the answer accepts every instance that satisfies the conditions.
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
    """Returns the answer in a JSON record."""
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
    # An answer with numbers that no dim has is readable, but wrong. A message can hold only some of these numbers.
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
    """Checks that a condition can be evaluated."""
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
    """Checks the length of the list at a path of keys, if there is a list."""
    found = _get(value, path)
    if isinstance(found, list) and len(found) > limit:
        raise InvalidAnswerError(f"{path} has {len(found)} items, but at most {limit} are allowed")


def _get(value: object, path: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the value at a path of keys; None without one."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


class Judgement(NamedTuple):
    """A verdict about an answer, with an explanation.

    Attributes:
        verdict: the verdict.
        why: a short description of the difference. Empty without a difference.
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
    """Yields a judgement of each part of an answer. Of these judgements, the worst one counts."""
    yield AGREES
    if right.data is not None and answer.data is None:
        yield Judgement(CaseVerdict.WEAKER, "nothing was executed")
    elif right.data is not None and answer.data is not None and right.data != answer.data:
        yield Judgement(CaseVerdict.WRONG_BYTES, f"the bytes are {answer.data.hex()[:MAX_QUOTED]}")
    if answer.dims is None:
        yield AGREES if right.dims is None else Judgement(CaseVerdict.WEAKER, "its rank is unknown")
    elif right.dims is None:  # outputs with several ranks are possible
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
    # If an answer limits a dim, the values just beyond the limit show whether it may be limited.
    beyond = [value for one in have if one not in right.conditions for value in _list_beyond(one)]
    extra = list_accepted(read_case_question(case.query), [*dict.fromkeys(beyond)][:_MAX_BEYOND]) if beyond else ()
    tried = chain(accepted, extra)
    broken = next(((one, values) for values in tried for one in have if not _holds(one, values)), None)
    if broken is not None:
        text = f"the condition {str(broken[0])[:100]} excludes {_format(broken[1])}, which is accepted"
        yield Judgement(CaseVerdict.WRONG_SHAPE, text)
    # If neither list of conditions is complete, only instances that violate the right conditions count as rejected.
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
    """Yields values of a name that a condition may exclude: just beyond its range, or that are not its numbers."""
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
    """Whether values satisfy a condition. A condition with an unknown name is never satisfied."""
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

    Such names only mean that dims with the same name are equal.
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
    """Returns the name of a dim in an answer.

    The result is None if the dim has no name, or uses a name that the query does not contain.
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
    if want is None:  # if the expected answer also has a name for the dim, both names are accepted
        yield Judgement(CaseVerdict.TIGHTER, f"dimension {index} has the name {have}")
