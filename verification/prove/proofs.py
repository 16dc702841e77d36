"""Shape queries that are compared with brute force, and sent over the wire and back.

The answer is sound if it contains each accepted instance of a query, with the symbols and conditions of the answer. If
the conditions are complete, every rejected instance must violate one. If all instances can be tried, each end of the
answer must be reached by one (tight). An exception that is not a rejection is a violation.
"""

from math import prod
from random import Random

from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tests.oracles.round_trips import check_round_trips, format_item
from tests.oracles.shape_instances import find_accepted, find_fault
from verification.checker import Found
from verification.prove.small_questions import STYLES, choose_question
from verification.prove.wide_questions import Wide
from verification.tasks import Tally, Task

BATCH = 500
_ITEMS = 8  # in each batch that is sent


def choose_request(random: Random) -> tuple[str, ShapeRequest]:
    """Returns a small query with all its options, and the name of its style."""
    name = random.choice(list(STYLES))
    question = choose_question(random, STYLES[name])
    return name, ShapeRequest(question, random.random() < 0.5)


def prove(request: ShapeRequest, random: Random) -> tuple[list[str], Found, str]:
    """Returns the outcomes of one query, its instances, and what is wrong, if anything."""
    found = find_accepted(request.question, random)
    try:
        answer = infer(request)
    except Exception as error:  # noqa: BLE001, every exception is reported
        return ["crashed"], found, repr(error)
    outcome, problem = _judge(answer, found)
    if answer is None:
        return [outcome], found, problem
    question = request.question
    is_open = question.data is None or question.target is None or None in question.target
    kind = "unknown items or rank" if is_open else "known items"
    outcomes = [outcome, f"{kind}, conditions complete: {answer.conditions_complete}"]
    return outcomes, found, problem


def _judge(answer: ShapeAnswer | None, found: Found) -> tuple[str, str]:
    kind, problem = find_fault(answer, found)
    if problem:
        return kind, problem
    problem = _check_groups(answer, found)
    if problem:
        return "unsound", problem
    if answer is None:
        return "rejected", ""
    return "sound and tight" if found.complete else "sound", ""


def infer(request: ShapeRequest) -> ShapeAnswer | None:
    """Returns the product's answer, or None for a rejection."""
    try:
        return answer_question(request)
    except InvalidRequestError:
        return None


def _check_groups(answer: ShapeAnswer | None, found: Found) -> str:
    for group in () if answer is None else answer.groups:
        for instance in found.accepted:
            left, right = (
                [instance.data[index] for index in group.data],
                [instance.output[index] for index in group.output],
            )
            if 0 not in instance.data and prod(left) != prod(right):
                return f"the group {group} of {instance} has different products"
    return ""


def run_task(task: Task) -> Tally:
    """Runs the queries of one task, and sends them in batches."""
    seed, number, questions = task
    random, tally = Random(seed), Tally(questions)
    for begin in range(0, questions, _ITEMS):
        wide, items = Wide(random), list[BatchItem]()
        for index in range(min(_ITEMS, questions - begin)):
            if random.random() < 1 / 3:
                tally.outcomes["of wide"] += 1
                items.append(wide.choose_item(index))
            else:
                items.append(BatchItem(_prove_small(random, number, tally)))
        tally.findings += [f"batch {number}: different: {problem}" for problem in check_round_trips(items, 1)]
    return tally


def _prove_small(random: Random, number: int, tally: Tally) -> ShapeRequest:
    name, request = choose_request(random)
    outcomes, found, problem = prove(request, random)
    tally.outcomes.update([f"of {name}", *[f"of {name}, {outcome}" for outcome in outcomes[1:]], *outcomes])
    tally.outcomes["instances tried"] += len(found.accepted) + len(found.rejected)
    if problem:
        tally.findings.append(f"batch {number}: {outcomes[0]}: {format_item(BatchItem(request))}: {problem}")
    return request
