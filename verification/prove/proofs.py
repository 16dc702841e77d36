"""Questions about shapes, each compared with brute force and sent over the wire and back.

Each accepted instance of a question must lie inside the answer, with the symbols and equalities that the answer has,
and be a view of the data where the answer says so (sound); where all instances can be tried, each end of the answer
must be reached by one (tight). Whatever is raised that is no refusal is a violation.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import are_known
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tests.oracles.round_trips import check_round_trips, format_item
from tests.oracles.shape_instances import Found, check_soundness, check_tightness, find_accepted, is_exact
from tests.oracles.view_instances import check_view, is_decided
from verification.prove.small_questions import STYLES, choose_question
from verification.prove.wide_questions import Wide
from verification.tasks import Progress, run_all

BATCH = 500
_ITEMS = 8  # of a batch that is sent
_MAX_SHOWN = 10


class Task(NamedTuple):
    """So many questions.

    Attributes:
        seed: of all.
        number: of this task.
        questions: how many.
        share: of how many of the small ones the instances are tried, and of how many batches every item is sent alone.
    """

    seed: str
    number: int
    questions: int
    share: float


@dataclass(slots=True)
class Tally:
    """What became of many questions."""

    outcomes: Counter[str] = field(default_factory=Counter)
    instances: int = 0
    violations: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Takes in another tally."""
        self.outcomes += other.outcomes
        self.instances += other.instances
        self.violations += other.violations

    def add_problems(self, task: Task, outcome: str, problems: Iterable[str]) -> None:
        """Takes in what is wrong with questions of one task."""
        self.violations += [f"batch {task.number}: {outcome}: {problem}" for problem in problems]


def choose_request(random: Random) -> tuple[str, ShapeRequest]:
    """Returns a small question, all of which is asked, and the name of its style."""
    name = random.choice(list(STYLES))
    question = choose_question(random, STYLES[name])
    rank = len(question.data) if question.data is not None else random.randint(0, 3)
    strides = Wide(random).choose_strides(question.data, rank) if random.random() < 0.7 else None
    return name, ShapeRequest(question, random.random() < 0.5, strides)


def prove(request: ShapeRequest, random: Random) -> tuple[str, Found, str]:
    """Returns what became of one question, its instances, and what is wrong, if anything."""
    found = find_accepted(request.question, random)
    try:
        answer = ask(request)
    except Exception as error:  # noqa: BLE001, whatever it is, it is to be shown
        return "crashed", found, repr(error)
    inference = None if answer is None else ShapeAnswer(answer.dims, answer.equalities)
    problem = check_soundness(found, inference) or _check_view(request, answer, found)
    if problem:
        return "unsound", found, problem
    if not found.complete:
        return "sound, not all tried", found, ""
    if not is_exact(request.question):
        return "sound", found, ""
    problem = check_tightness(found, inference)
    if problem:
        return "loose", found, problem
    return "refused" if answer is None else "sound and tight", found, ""


def ask(request: ShapeRequest) -> ShapeAnswer | None:
    """Returns the product's answer, None where it is a refusal."""
    try:
        return answer_question(request)
    except InvalidRequestError:
        return None


def _check_view(request: ShapeRequest, answer: ShapeAnswer | None, found: Found) -> str:
    strides, data = request.strides, request.question.data
    if strides is None or answer is None:
        return ""
    if answer.view is None:
        return "nothing is said of a view"
    if are_known(data) and are_known(answer.dims) and not is_decided(answer.view, data, strides, answer.dims):
        return "what is known of the view is not said"
    return check_view(found, answer.view, strides)


def list_tasks(seed: str, questions: int, share: float) -> list[Task]:
    """Returns the tasks, each of some hundred questions, that so many questions are."""
    sizes = [min(BATCH, questions - begin) for begin in range(0, questions, BATCH)]
    return [Task(seed, number, size, share) for number, size in enumerate(sizes)]


def run_task(task: Task) -> Tally:
    """Asks the questions of one task, and sends them in batches."""
    random, tally = Random(f"{task.seed}-{task.number}"), Tally()
    for begin in range(0, task.questions, _ITEMS):
        wide, items = Wide(random), list[BatchItem]()
        for index in range(min(_ITEMS, task.questions - begin)):
            if random.random() < 1 / 3:
                tally.outcomes["of wide"] += 1
                items.append(wide.choose_item(index))
            else:
                items.append(BatchItem(_prove_small(random, task, tally)))
        tally.add_problems(task, "different", check_round_trips(items, 1 if random.random() < task.share else _ITEMS))
    return tally


def _prove_small(random: Random, task: Task, tally: "Tally") -> ShapeRequest:
    name, request = choose_request(random)
    tally.outcomes[f"of {name}"] += 1
    if random.random() < task.share:
        outcome, found, problem = prove(request, random)
        tally.outcomes[outcome] += 1
        tally.instances += found.tried
        if problem:
            tally.add_problems(task, outcome, [f"{format_item(BatchItem(request))}: {problem}"])
    return request


def run_tasks(tasks: list[Task], processes: int) -> Tally:
    """Runs all tasks, and says how far it is and what is wrong."""
    tally, progress = Tally(), Progress(sum(task.questions for task in tasks), "questions")
    done = 0
    for batch in run_all(run_task, tasks, processes):
        for violation in batch.violations[: max(_MAX_SHOWN - len(tally.violations), 0)]:
            print(violation, flush=True)
        tally.add(batch)
        done += sum(count for name, count in batch.outcomes.items() if name.startswith("of "))
        progress.show(done, len(tally.violations))
    return tally
