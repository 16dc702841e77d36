"""Whether the answers of cases are right, by what is not the product: a plain reading, and instances one by one."""

from collections.abc import Iterable
from typing import NamedTuple

from tensor_reshape.rules.records import Json
from verification.kit.mistakes import is_right
from verification.kit.questions import is_known, list_questions
from verification.kit.readings import Implementation, Question, RefusalError
from verification.kit.witnesses import show

_PLAIN = Implementation()
_BY_ITSELF = frozenset({"DIM_OUT_OF_RANGE", "INTERVAL_EMPTY", "RANK_UNSUPPORTED"})
"""What is refused for a dim that is none, or for a rank: no instance is looked at."""


class Findings(NamedTuple):
    """What was found of some cases.

    Attributes:
        wrong: by question, what contradicts its answer.
        loose: by question, the end that no instance was found to reach.
        checked: how many questions were compared with another reading.
    """

    wrong: dict[str, str]
    loose: dict[str, str]
    checked: int


def check_cases(cases: Iterable[Json]) -> Findings:
    """Asks the plain reading about known shapes, and the instances about others; executions are left to servers."""
    findings, checked = Findings({}, {}, 0), 0
    for case in cases:
        if not {"expected", "strides", "data_type"} & case.keys() or not is_known(case):
            for question in list_questions(case):
                checked += 1
                _check(case, question, findings)
    return findings._replace(checked=checked)


def _check(case: Json, question: Json, findings: Findings) -> None:
    if is_known(question):
        answer = infer_plainly(question)
        if not is_right(case, answer):
            findings.wrong[question["id"]] = f"a plain reading answers {answer}"
        return
    if case["answer"].get("error", {}).get("reason") in _BY_ITSELF:
        return
    showing = show(question, case["answer"])
    if showing.wrong:
        findings.wrong[question["id"]] = showing.wrong
    if showing.loose:
        findings.loose[question["id"]] = showing.loose


def infer_plainly(question: Json) -> Json:
    """Returns what the plain reading answers to known shapes."""
    asked = Question(question["operation"], question["data"], question["shape"], question.get("special_zero"))
    try:
        return {"shape": _PLAIN.answer(asked)}
    except RefusalError:
        return {"error": {}}
