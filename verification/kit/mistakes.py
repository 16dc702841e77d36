"""All planted mistakes, and which case of the core each fails.

Law: each mistake fails a case that no other is given (a matching of mistakes and cases); `find_matching` shows it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import TypeAlias

from tensor_reshape.client import InferredShape, infer_locally
from tensor_reshape.client.queries import read_query
from tensor_reshape.conformance.cases import Question as AskedQuestion
from tensor_reshape.conformance.cases import split_case
from tensor_reshape.conformance.verdicts import judge
from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.records import Json
from verification.kit.executions import RUN_MISTAKES, Execution
from verification.kit.planted_dims import DIM_MISTAKES, REFUSED
from verification.kit.planted_names import NAME_MISTAKES
from verification.kit.planted_shapes import SHAPE_MISTAKES
from verification.kit.questions import is_known, make_query
from verification.kit.readings import Implementation, Question, RefusalError

Answer: TypeAlias = Callable[[Json], Json]


def ask_rules(question: Json) -> Json:
    """Returns what the project's own rules answer."""
    return _ask(json.dumps(question))


@lru_cache(2**12)  # most mistakes ask most questions as they are
def _ask(text: str) -> Json:
    (answer,) = infer_locally([make_query(json.loads(text))])
    if isinstance(answer, InferredShape):
        return {key: value for key, value in answer.to_json().items() if key != "equalities"}
    return {"error": {"reason": str(answer.reason), "field": answer.field}}


def is_searched(question: Json) -> bool:
    """Whether the rules answer within their step budget."""
    budget = StepBudget()
    with suppress(ReshapeError):
        answer_question(read_query(make_query(question)).request, budget=budget)
    return budget.left >= 0


def execute(execution: Execution, question: Json) -> Json:
    """Returns what an execution gives; its shape is that of the rules."""
    if "bytes" not in question:
        return ask_rules(question)
    answer = ask_rules({key: value for key, value in question.items() if key not in {"bytes", "strides"}})
    if "error" in answer:
        return answer
    try:
        return {"shape": answer["shape"], "bytes": execution.run(question)}
    except RefusalError:
        return REFUSED


answer_rightly: Answer = partial(execute, Execution())


def answer_plainly(implementation: Implementation, question: Json) -> Json:
    """Returns what a reading of the rules answers to known shapes."""
    asked = Question(question["operation"], question["data"], question["shape"], question.get("special_zero"))
    try:
        return {"shape": implementation.answer(asked)}
    except RefusalError:
        return REFUSED


def _answer_shapes(implementation: Implementation, question: Json) -> Json:
    """Returns what a wrong implementation of known shapes answers; of others, the right answer."""
    if not is_known(question) or {"expected", "strides", "data_type"} & question.keys():
        return answer_rightly(question)
    return answer_plainly(implementation, question)


def list_mistakes() -> dict[str, Answer]:
    """Returns each wrong implementation by what is wrong."""
    shapes = {name: partial(_answer_shapes, kind) for name, kind in SHAPE_MISTAKES.items()}
    runs = {name: partial(execute, kind) for name, kind in RUN_MISTAKES.items()}
    around = {**DIM_MISTAKES, **NAME_MISTAKES}
    return {**shapes, **runs, **{name: partial(mistake, answer_rightly) for name, mistake in around.items()}}


def is_right(case: Json, answer: Json) -> bool:
    """Whether an answer is that of the case: of refusals the fact, of others all."""
    if "error" in case["answer"] or "error" in answer:
        return ("error" in case["answer"]) is ("error" in answer)
    return bool(case["answer"] == answer)


def find_caught(cases: Iterable[Json]) -> dict[str, list[str]]:
    """Returns the cases that each mistake fails."""
    asked = [(case["id"], list(split_case(case))) for case in cases]
    return {
        name: [case for case, questions in asked if any(_fails(answer, question) for question in questions)]
        for name, answer in list_mistakes().items()
    }


def _fails(answer: Answer, question: AskedQuestion) -> bool:
    """Whether an answer is a difference for those who run the kit: a narrower one that may be right is none."""
    told = answer(question.asked)
    return told != question.right and judge(question, told).verdict.is_difference


def find_matching(caught: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns a different case for each mistake, for as many as there can be (augmenting paths)."""
    given: dict[str, str] = {}

    def give(name: str, seen: set[str]) -> bool:
        for case in caught[name]:
            if case in seen:
                continue
            seen.add(case)
            if case not in given or give(given[case], seen):
                given[case] = name
                return True
        return False

    for name in sorted(caught, key=lambda name: len(caught[name])):
        give(name, set())
    return {name: case for case, name in given.items()}
