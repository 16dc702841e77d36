"""How an answer stands to the right one.

Laws:

- A wider answer is weaker, and not wrong. A narrower one is wrong where an instance of the question contradicts it, and
  tighter where none was found.
- That something is rejected decides; for which reason does not.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from tensor_reshape.conformance.answers import Answer, GarbledError, Rejected, Told, Unsupported, read_answer
from tensor_reshape.conformance.cases import Question
from tensor_reshape.conformance.instances import find_outside, list_instances, list_names, read_rules_question
from tensor_reshape.rules.dims import AnyDim, Dim, Expression, Interval, find_bounds, format_dim, format_dims
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.json_format import Json
from tensor_reshape.rules.questions import AnyQuestion
from tensor_reshape.rules.views import infer_view

_MAX_INSTANCES = 200
_MAX_QUOTED = 200


class Verdict(StrEnum):
    """What an answer is; from the worst to the best."""

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
        """Whether an implementation that answers so differs from the kit."""
        return self not in {Verdict.TIGHTER, Verdict.UNSUPPORTED, Verdict.AGREES}


class Judgement(NamedTuple):
    """A verdict.

    Attributes:
        verdict: which one.
        why: what differs, in a few words; empty where nothing does.
    """

    verdict: Verdict
    why: str = ""


AGREES = Judgement(Verdict.AGREES)


def judge(question: Question, record: Json) -> Judgement:
    """Holds the JSON of an answer against the kit's."""
    try:
        answer = read_answer(record)
    except GarbledError as error:
        return Judgement(Verdict.GARBAGE, str(error)[:_MAX_QUOTED])
    return _judge_answer(question, answer)


def _judge_answer(question: Question, answer: Answer) -> Judgement:
    right = read_answer(question.right)
    if isinstance(answer, Unsupported):
        return Judgement(Verdict.UNSUPPORTED, answer.why)
    if isinstance(right, Rejected) or not isinstance(right, Told):
        if isinstance(answer, Rejected):
            return AGREES
        return Judgement(Verdict.MISSING_ERROR, f"{format_dims(answer.dims)}, where it is to be rejected")
    if isinstance(answer, Rejected):
        return Judgement(Verdict.SPURIOUS_ERROR, f"rejected, where {format_dims(right.dims)} is right")
    return min(_judge_parts(question, right, answer), key=lambda judgement: list(Verdict).index(judgement.verdict))


def _judge_parts(question: Question, right: Told, answer: Told) -> Iterator[Judgement]:
    """Yields a judgement of each part of an answer: the worst one counts."""
    yield AGREES
    yield from _judge_bytes(right.data, answer.data)
    if right.dims is None or answer.dims is None:
        yield _judge_rank(right.dims, answer.dims)
    elif len(right.dims) != len(answer.dims):
        yield Judgement(Verdict.WRONG_SHAPE, f"its rank is {len(answer.dims)}, not {len(right.dims)}")
    else:
        yield from _judge_view(question, right, answer)
        yield from _judge_dims(read_rules_question(question.asked), right.dims, answer.dims)


def _judge_bytes(right: str | None, answer: str | None) -> Iterator[Judgement]:
    if right is not None and answer is None:
        yield Judgement(Verdict.WEAKER, "nothing was executed")
    elif right is not None and answer is not None and right != answer.lower():
        yield Judgement(Verdict.WRONG_BYTES, f"the bytes are {answer[:_MAX_QUOTED]}")


def _judge_rank(right: tuple[AnyDim, ...] | None, answer: tuple[AnyDim, ...] | None) -> Judgement:
    if right is None and answer is None:
        return AGREES
    if answer is None:
        return Judgement(Verdict.WEAKER, "its rank is unknown")
    # Where the kit leaves the rank open, it has an instance of another one.
    return Judgement(Verdict.WRONG_SHAPE, f"its rank is {len(answer)}, where any is possible")


def _judge_view(question: Question, right: Told, answer: Told) -> Iterator[Judgement]:
    if right.view is None or answer.view is None:  # whoever cannot tell leaves it away
        return
    want, have = right.view["possibility"], answer.view.get("possibility")
    if have == want:
        dims = right.dims or ()
        if not _are_equal_strides(dims, right.view.get("strides"), answer.view.get("strides")):
            yield Judgement(Verdict.WRONG_SHAPE, f"the strides of the view are {answer.view.get('strides')}")
    elif have == "unknown":
        yield Judgement(Verdict.WEAKER, "whether it can be a view is unknown")
    else:
        told = f"a view is {str(have)[:_MAX_QUOTED]}, not {want}"
        outside = _find_other_view(question, have) if want == "unknown" else ""
        yield Judgement(Verdict.TIGHTER if outside is None else Verdict.WRONG_SHAPE, f"{told}{outside or ''}")


def _find_other_view(question: Question, possibility: object) -> str | None:
    """Returns an instance of which something else is true than what is said of all; None: none was found."""
    asked, strides = read_rules_question(question.asked), question.asked["strides"]
    for instance in islice(list_instances(asked), _MAX_INSTANCES):
        if infer_view(instance.data, strides, instance.output, ()).possibility.value != possibility:
            return f": {instance}"
    return None


def _are_equal_strides(dims: Sequence[AnyDim], want: object, have: object) -> bool:
    """Whether strides are the same, but for those of dims on which nothing is stepped over."""
    if not isinstance(want, list) or have is None or 0 in dims:
        return True
    if not isinstance(have, list) or len(have) != len(want):
        return False
    return all(dim == 1 or one == other for dim, one, other in zip(dims, want, have, strict=True))


def _judge_dims(question: AnyQuestion, right: Sequence[AnyDim], answer: Sequence[AnyDim]) -> Iterator[Judgement]:
    asked = list_names(question)
    for index, (want, have) in enumerate(zip(right, answer, strict=True)):
        yield from _judge_bounds(question, index, want, have)
        yield from _judge_name(question, index, _find_name(want, asked), _find_name(have, asked))
    yield from _judge_new_names(question, answer, asked)


def _judge_new_names(question: AnyQuestion, answer: Sequence[AnyDim], asked: frozenset[str]) -> Iterator[Judgement]:
    """Judges names that nobody asked with: they say nothing of one dim, but that two of the same name are equal."""
    places = dict[str, list[int]]()
    for index, dim in enumerate(answer):
        if isinstance(dim, Dim) and dim.expression is not None and _find_name(dim, asked) is None:
            places.setdefault(str(dim.expression), []).append(index)
    for name, indexes in places.items():
        instances = islice(list_instances(question) if len(indexes) > 1 else (), _MAX_INSTANCES)
        if found := next((one for one in instances if len({one.output[index] for index in indexes}) > 1), None):
            yield Judgement(Verdict.WRONG_SHAPE, f"dims {indexes} are not all {name[:_MAX_QUOTED]}: {found}")


def _judge_bounds(question: AnyQuestion, index: int, want: AnyDim, have: AnyDim) -> Iterator[Judgement]:
    ours, theirs = find_bounds(want), find_bounds(have)
    if ours == theirs:
        return
    told = f"dim {index} is {_describe(have)}, not {_describe(want)}"
    if isinstance(want, int) and not theirs.holds(want):
        yield Judgement(Verdict.WRONG_SHAPE, told)
        return
    for part in _list_left_out(ours, theirs):
        outside = find_outside(question, index, part)
        yield Judgement(
            Verdict.TIGHTER if outside is None else Verdict.WRONG_SHAPE,
            told if outside is None else f"{told}: {outside}",
        )
    if ours.meet(theirs) != theirs:
        yield Judgement(Verdict.WEAKER, told)


def _describe(dim: AnyDim) -> str:
    named = isinstance(dim, Dim) and dim.expression is not None
    return f"{format_dim(dim)} ({format_dim(Dim(find_bounds(dim)))})" if named else format_dim(dim)


def _list_left_out(ours: Interval, theirs: Interval) -> Iterator[Interval]:
    """Yields what of our bounds lies below theirs, and above."""
    below = Interval(ours.min, theirs.min - 1).meet(ours)
    above = None if theirs.max is None else Interval(theirs.max + 1, None).meet(ours)
    yield from (part for part in (below, above) if part is not None and not part.is_empty)


def _find_name(dim: AnyDim, asked: frozenset[str]) -> Expression | None:
    """Returns the name of a dim, None where it is of names that nobody asked with: these say nothing."""
    if not isinstance(dim, Dim) or dim.expression is None:
        return None
    names = {symbol.name for symbol in (*dim.expression.factors, *dim.expression.divisors)}
    return dim.expression if names <= asked else None


def _judge_name(
    question: AnyQuestion, index: int, want: Expression | None, have: Expression | None
) -> Iterator[Judgement]:
    if str(want) == str(have):
        return
    if have is None:
        yield Judgement(Verdict.WEAKER, f"dim {index} is not called {want}")
        return
    for instance in islice(list_instances(question), _MAX_INSTANCES):
        if not instance.evaluate(have, instance.output[index]):
            yield Judgement(Verdict.WRONG_SHAPE, f"dim {index} is not {have}: {instance}")
            return
    if want is None:  # else both names are right
        yield Judgement(Verdict.TIGHTER, f"dim {index} is called {have}")


def find_other_reason(question: Question, record: Json) -> str:
    """Returns the reason of a rejection where it is another one than the kit's; empty: it is not, or none is told."""
    try:
        right, answer = read_answer(question.right), read_answer(record)
    except (GarbledError, InvalidRequestError):
        return ""
    is_other = isinstance(right, Rejected) and isinstance(answer, Rejected) and answer.reason != right.reason
    return answer.reason if is_other and isinstance(answer, Rejected) else ""
