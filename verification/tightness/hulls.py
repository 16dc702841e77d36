"""Whether each end of an answer is reached by an instance."""

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from math import prod
from random import Random
from typing import NamedTuple

from tensor_reshape.rules.dims import AnyDim, find_bounds
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion
from tests.oracles.shape_instances import answer_concrete
from verification.tightness.systems import OPEN, Reading, Span, list_readings
from verification.tightness.witnesses import Search

_READINGS = 200  # so many are looked at
_NEAR = 1000
TRIES = 400
"""So many values are tried for one end, in all of its readings."""


class Verdict(Enum):
    """What is to be said of an end, and of an answer."""

    TIGHT = "tight"
    """An instance reaches it; of an answer, each end."""

    WIDE = "wide"
    """No instance reaches it; of an answer, one end."""

    UNDECIDED = "undecided"
    """Neither is found."""


class Judgement(NamedTuple):
    """What is found of an answer.

    Attributes:
        verdict: the worst of its ends.
        ends: each end that is not reached for sure, as text.
        is_near: whether an instance comes within a thousandth of each end.
    """

    verdict: Verdict
    ends: tuple[str, ...]
    is_near: bool


class Instance(NamedTuple):
    """A witness."""

    data: tuple[int, ...]
    output: tuple[int, ...]


def judge(question: AnyQuestion, dims: Sequence[AnyDim], tries: int = TRIES) -> Judgement:
    """Returns whether an answer is the hull; it is known to be sound."""
    found, verdicts, ends, is_near = list[Instance](), Counter[Verdict](), list[str](), True
    for index, dim in enumerate(dims):
        low, high = find_bounds(dim)
        for end in dict.fromkeys((low, high)):
            if end is not None and any(instance.output[index] == end for instance in found):
                continue
            verdict, instance = reach(question, index, end, tries)
            verdicts[verdict] += 1
            if instance is not None:
                found.append(instance)
            if verdict is not Verdict.TIGHT:
                ends.append(f"dim {index}: {end} is {verdict.value}")
                is_near = is_near and end is not None and _is_near(question, index, end, tries, is_low=end == low)
    worst = Verdict.WIDE if verdicts[Verdict.WIDE] else Verdict.UNDECIDED if verdicts[Verdict.UNDECIDED] else None
    return Judgement(worst or Verdict.TIGHT, tuple(ends), is_near)


def reach(question: AnyQuestion, index: int, end: int | None, tries: int = TRIES) -> tuple[Verdict, Instance | None]:
    """Returns whether an instance has `end` as an output dim, and the instance; None: one as large as no dim is.

    A dim without a bound is a whole number of any size then: no end says MAX_DIM.
    """
    if end is None:
        verdict, _ = _reach_between(question, index, (MAX_DIM, OPEN), tries)
        return verdict, None
    return _reach_between(question, index, (end, end), tries)


def _is_near(question: AnyQuestion, index: int, end: int, tries: int, *, is_low: bool) -> bool:
    margin = end // _NEAR
    ends = (end, end + margin) if is_low else (end - margin, end)
    return margin > 0 and _reach_between(question, index, ends, tries)[0] is Verdict.TIGHT


def _reach_between(question: AnyQuestion, index: int, ends: Span, tries: int) -> tuple[Verdict, Instance | None]:
    """Returns whether an instance has an output dim between two ends, and the instance where it has no huge dims."""
    complete, random, cap = True, Random(f"{index} {ends}"), max(MAX_DIM, ends[1])
    for number, reading in enumerate(list_readings(question, cap)):
        if number == _READINGS:
            complete = False
            break
        reading.meet(reading.output[index], *ends)
        search = Search(tries, random)
        values = search.find(reading.spans, reading.relations)
        tries = search.tries
        if values is not None:
            return Verdict.TIGHT, _check(question, reading, values) if cap == MAX_DIM else None
        complete = complete and search.complete
    return (Verdict.WIDE if complete else Verdict.UNDECIDED), None


def _check(question: AnyQuestion, reading: Reading, values: Sequence[int]) -> Instance:
    """Returns the instance; ValueError where the rules, as the tests' oracle has them, answer otherwise."""
    data = tuple(values[key] for key in reading.data)
    output = tuple(values[key] for key in reading.output)
    items = [
        (instruction is None and not _is_number(question, index), value if instruction is None else instruction)
        for index, (instruction, value) in enumerate(zip(reading.instructions, output, strict=True))
    ]
    if answer_concrete(question, data, items) != output or prod(data) != prod(output):
        message = f"{question}: {data} under {items} is not {output}"
        raise ValueError(message)
    return Instance(data, output)


def _is_number(question: AnyQuestion, index: int) -> bool:
    return question.target is not None and isinstance(question.target[index], int)
