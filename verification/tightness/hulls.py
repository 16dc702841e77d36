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
from verification.tightness.systems import OPEN, Reading, list_readings
from verification.tightness.witnesses import Search

_READINGS = 200  # so many are looked at
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
    """

    verdict: Verdict
    ends: tuple[str, ...]


class Instance(NamedTuple):
    """A witness."""

    data: tuple[int, ...]
    output: tuple[int, ...]


def judge(question: AnyQuestion, dims: Sequence[AnyDim], tries: int = TRIES) -> Judgement:
    """Returns whether an answer is the hull; it is known to be sound."""
    found, verdicts, ends = list[Instance](), Counter[Verdict](), list[str]()
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
    worst = Verdict.WIDE if verdicts[Verdict.WIDE] else Verdict.UNDECIDED if verdicts[Verdict.UNDECIDED] else None
    return Judgement(worst or Verdict.TIGHT, tuple(ends))


def reach(question: AnyQuestion, index: int, end: int | None, tries: int = TRIES) -> tuple[Verdict, Instance | None]:
    """Returns whether an instance has `end` as an output dim, and the instance; None: one as large as no dim is.

    A dim without a bound is a whole number of any size then: no end says MAX_DIM.
    """
    complete, random = True, Random(f"{index} {end}")
    for number, reading in enumerate(list_readings(question, MAX_DIM if end is not None else OPEN)):
        if number == _READINGS:
            complete = False
            break
        low, high = (MAX_DIM, None) if end is None else (end, end)
        reading.meet(reading.output[index], low, high)
        search = Search(tries, random)
        values = search.find(reading.spans, reading.relations)
        tries = search.tries
        if values is not None:
            return Verdict.TIGHT, None if end is None else _check(question, reading, values)
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
