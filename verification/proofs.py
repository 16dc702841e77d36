"""Asks as many questions about shapes as there is time for, and compares the answers with brute force, and each other.

Two of three questions are small enough to try their instances one by one. Each accepted instance must lie inside the
answer, with the symbols and equalities that the answer has, and be a view of the data where the answer says so (sound);
where all instances can be tried, each end of the answer must be reached by one (tight). The others are as wide as the
contract. All of them go over the wire and back, alone and in batches with links: the answers must be those of
`infer_locally`, and whatever is raised that is no refusal is a violation. All questions follow from the seed.
"""

import argparse
import multiprocessing
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from verification.small import STYLES, choose_question
from verification.wide import Wide

from conformance_cases import count_tighter
from round_trips import check_round_trips, format_item
from shape_instances import Found, check_soundness, check_tightness, find_accepted, is_exact
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import are_known
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from view_instances import check_view, is_decided

BATCH = 500
_ITEMS = 8  # of a batch that is sent
_MAX_SHOWN = 10
_PROGRESS_SECONDS = 10.0


class _Task(NamedTuple):
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

    def add_problems(self, task: _Task, outcome: str, problems: Iterable[str]) -> None:
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


def run_task(task: _Task) -> Tally:
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


def _prove_small(random: Random, task: _Task, tally: "Tally") -> ShapeRequest:
    name, request = choose_request(random)
    tally.outcomes[f"of {name}"] += 1
    if random.random() < task.share:
        outcome, found, problem = prove(request, random)
        tally.outcomes[outcome] += 1
        tally.instances += found.tried
        if problem:
            tally.add_problems(task, outcome, [f"{format_item(BatchItem(request))}: {problem}"])
    return request


def run_tasks(tasks: list[_Task], processes: int, say: Callable[[str], None]) -> Tally:
    """Runs all tasks, and says how far it is."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return _collect(pool.imap_unordered(run_task, tasks), sum(task.questions for task in tasks), say)


def _collect(batches: Iterable[Tally], total: int, say: Callable[[str], None]) -> Tally:
    tally, begin = Tally(), time.monotonic()
    shown, done = begin, 0
    for batch in batches:
        for violation in batch.violations[: max(_MAX_SHOWN - len(tally.violations), 0)]:
            say(violation)
        tally.add(batch)
        done += sum(count for name, count in batch.outcomes.items() if name.startswith("of "))
        if time.monotonic() - shown > _PROGRESS_SECONDS:
            shown = time.monotonic()
            pace, found = done / (shown - begin), len(tally.violations)
            say(f"  {done} of {total} questions, {pace:.0f} a second, {found} violations")
    return tally


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/prove", description=__doc__)
    parser.add_argument("questions", nargs="?", type=int, default=1_000_000, help="how many")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same questions")
    parser.add_argument("--batch", type=int, help="only this one, as a violation names it")
    parser.add_argument("--share", type=float, default=1.0, help="of how many all is tried; the others go in batches")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--conformance", action="store_true", help="compare the cases of the libraries instead")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where there is a violation."""
    arguments = parse_arguments()
    if arguments.conformance:
        return 0 if compare_cases() else 1
    count = arguments.questions
    print(f"seed {arguments.seed}, {arguments.processes} processes", flush=True)
    sizes = [min(BATCH, count - begin) for begin in range(0, count, BATCH)]
    tasks = [_Task(arguments.seed, number, size, arguments.share) for number, size in enumerate(sizes)]
    begin = time.monotonic()
    tasks = tasks if arguments.batch is None else tasks[arguments.batch :][:1]
    tally = run_tasks(tasks, arguments.processes, lambda text: print(text, flush=True))
    for name, number in tally.outcomes.most_common():
        print(f"{number:10} {name}")
    print(f"{tally.instances:10} instances tried")
    print(f"{time.monotonic() - begin:.0f} s: {len(tally.violations)} violations")
    return 1 if tally.violations or not tasks else 0


def compare_cases() -> bool:
    """Prints how the answers compare with those of the libraries; False where one is wider."""
    counts = count_tighter()
    for name, number in counts.items():
        print(f"{number:10} {name}")
    return counts["wider"] == 0


if __name__ == "__main__":
    sys.exit(main())
