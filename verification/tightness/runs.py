"""Many questions of one kind, and how many answers to them are the hull of the instances."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tensor_reshape.rules.dims import find_bounds, format_dims
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.questions import AnyQuestion
from verification.tightness import hostile_questions, model_questions
from verification.tightness.hulls import TRIES, Verdict, judge
from verification.tightness.model_questions import ModelQuestion

REFUSED = "refused"
_CHUNK = 50
_VARIED = frozenset({"names with bounds", "intervals"})  # the kinds that are other questions each time


class Task(NamedTuple):
    """Some questions of one kind, all of which follow from the seed.

    Attributes:
        kind: the kind.
        is_hostile: whether nobody's model asks them.
        seed: of all.
        number: of this task.
        questions: how many it has; of models, how often each question is varied.
        tries: of each end.
    """

    kind: str
    is_hostile: bool
    seed: str
    number: int
    questions: int
    tries: int = TRIES


@dataclass(slots=True)
class Tally:
    """What became of the questions of one kind.

    Attributes:
        kind: the kind.
        is_hostile: whether nobody's model asks them.
        verdicts: how many answers are so, by the value of the verdict, or refusals.
        near: how many answers have an instance at each end, or within a thousandth of it.
        shown: what is not known to be tight, as text.
    """

    kind: str
    is_hostile: bool
    verdicts: Counter[str] = field(default_factory=Counter)
    near: int = 0
    shown: list[str] = field(default_factory=list)

    @property
    def answers(self) -> int:
        """How many answers there are."""
        return self.verdicts.total() - self.verdicts[REFUSED]

    @property
    def least_share(self) -> float:
        """The share of answers that are tight for sure."""
        return self.verdicts[Verdict.TIGHT.value] / max(self.answers, 1)


def list_tasks(seed: str, questions: int, varied: int, tries: int = TRIES) -> list[Task]:
    """Returns tasks of so many hostile questions of each kind, and so many variants of each question of models."""
    models = [Task(kind, False, seed, 0, varied if kind in _VARIED else 1, tries) for kind in model_questions.KINDS]
    hostile = [
        Task(kind, True, seed, number, min(_CHUNK, questions - start), tries)
        for kind in hostile_questions.KINDS
        for number, start in enumerate(range(0, questions, _CHUNK))
    ]
    return models + hostile


def run_task(task: Task) -> Tally:
    """Asks the questions of one task."""
    tally = Tally(task.kind, task.is_hostile)
    for question in _choose_questions(task):
        _add_answer(tally, question, task.tries)
    return tally


def _choose_questions(task: Task) -> Iterator[AnyQuestion]:
    random = Random(f"{task.seed}-{task.kind}-{task.number}")
    if task.is_hostile:
        return (hostile_questions.choose_question(random, task.kind) for _ in range(task.questions))
    asked: list[ModelQuestion] = model_questions.load_questions()
    return (model_questions.vary(one.question, task.kind, random) for one in asked for _ in range(task.questions))


def _add_answer(tally: Tally, question: AnyQuestion, tries: int) -> None:
    """Takes in what is to be said of the answer to a question."""
    try:
        dims = infer(question).dims or ()  # all targets have a length
    except InvalidRequestError:
        tally.verdicts[REFUSED] += 1
        return
    judgement = judge(question, dims, tries)
    tally.verdicts[judgement.verdict.value] += 1
    tally.near += judgement.is_near
    if judgement.ends:
        bounds = ", ".join(f"{low}..{'' if high is None else high}" for low, high in map(find_bounds, dims))
        asked = f"{format_dims(question.data)} under {format_dims(question.target)}"
        tally.shown.append(f"{question.operation.name} of {asked} is [{bounds}]: {'; '.join(judgement.ends)}")


def join_tallies(tallies: Iterable[Tally]) -> list[Tally]:
    """Returns one tally for each kind, in the order of the kinds."""
    joined = {
        (kind, is_hostile): Tally(kind, is_hostile)
        for kinds, is_hostile in ((model_questions.KINDS, False), (hostile_questions.KINDS, True))
        for kind in kinds
    }
    for tally in tallies:
        own = joined[tally.kind, tally.is_hostile]
        own.verdicts += tally.verdicts
        own.near += tally.near
        own.shown += tally.shown
    return list(joined.values())
