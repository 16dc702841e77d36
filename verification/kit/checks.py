"""Checks the answers of cases independently of the product: with a plain reading, and with instances."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tensor_reshape.conformance import verdicts
from tensor_reshape.conformance.cases import read_case_question
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.json_messages import Json
from verification import instances
from verification.kit.answers import is_right, read_plainly
from verification.kit.questions import is_known, list_questions

WIDER: Mapping[str, str] = {
    "partial/rv-03815": "4 divides the volume only if its second dim is 4, so a -1 begins at 9007199254740993",
}
"""The cases whose answer is known to be wider than the hull, with the cause."""

_BY_ITSELF = frozenset({"DIM_OUT_OF_RANGE", "INTERVAL_EMPTY", "MESSAGE_MALFORMED", "RANK_UNSUPPORTED"})
"""The reasons of rejections for an invalid dimension or rank. No instance is searched for these."""


class Findings(NamedTuple):
    """The findings for some cases.

    Attributes:
        wrong: the contradiction with each wrong answer, by query.
        loose: the ends that no instance was found to reach, by query.
        checked: the number of queries that were compared with another reading.
    """

    wrong: dict[str, str]
    loose: dict[str, str]
    checked: int


def check_cases(cases: Iterable[Json]) -> Findings:
    """Compares known shapes with the plain reading, and others with instances; servers test queries with a layout."""
    wrong, loose, checked = dict[str, str](), dict[str, str](), 0
    for case in cases:
        if "dataType" in case["question"]["data"] and is_known(case):
            continue
        for question in list_questions(case):
            checked += 1
            found = _check(case, question)
            wrong |= {question["id"]: found.wrong} if found.wrong else {}
            loose |= {question["id"]: "; ".join(found.loose)} if found.loose else {}
    return Findings(wrong, loose, checked)


def _check(case: Json, question: Json) -> instances.Findings:
    if is_known(question) and "expectedShape" not in question["question"]:
        plain = read_plainly(question)
        return instances.Findings("" if is_right(case, plain) else f"a plain reading returns {plain}")
    if case["result"].get("rejection", {}).get("reason") in _BY_ITSELF:
        return instances.Findings()
    expected = verdicts.read_answer(case["result"])
    answer = None
    if isinstance(expected, verdicts.GivenShape):
        # A case without conditions says nothing about them.
        listed, is_complete = expected.conditions, expected.conditions is not None and expected.conditions_complete
        answer = ShapeAnswer(expected.dims, listed or (), conditions_complete=is_complete)
    return instances.check_answer(read_case_question(question), answer)
