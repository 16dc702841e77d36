"""The core of the conformance kit is worth having: each planted mistake is caught, and each case is needed."""

from functools import cache
from typing import Any

import pytest

from verification.kit.core_cases import CORE_CASES
from verification.kit.mistakes import (
    answer_rightly,
    find_caught,
    find_matching,
    is_right,
    list_mistakes,
)
from verification.kit.needs import find_needless
from verification.kit.questions import list_questions
from verification.kit.readings import Implementation, Question, RefusalError

CORE = [case for cases in CORE_CASES.values() for case in cases]
KNOWN_RULES = ("admitted", "target", "inferred", "copies", "volume")


@cache
def find_failed() -> dict[str, list[str]]:
    return find_caught(CORE)


def infer_plainly(question: dict[str, Any]) -> list[int] | None:
    asked = Question(question["operation"], question["data"], question["shape"], question.get("special_zero"))
    try:
        return Implementation().answer(asked)
    except RefusalError:
        return None


@pytest.mark.parametrize("name", sorted(list_mistakes()))
def test_a_planted_mistake_fails_a_case(name: str):
    assert find_failed()[name]


def test_forty_mistakes_and_more_have_a_case_of_their_own_each():
    matching = find_matching(find_failed())
    assert sorted(matching) == sorted(list_mistakes())
    assert len(set(matching.values())) == len(matching) >= 40


def test_no_two_mistakes_share_the_only_case_that_tells_them():
    assert len(find_matching({"one": ["case"], "other": ["case"], "third": ["case", "more"]})) == 2


@pytest.mark.parametrize("rule", CORE_CASES)
def test_what_makes_no_mistake_fails_no_case(rule: str):
    asked = [(case, question) for case in CORE_CASES[rule] for question in list_questions(case)]
    assert [question["id"] for case, question in asked if not is_right(case, answer_rightly(question))] == []


@pytest.mark.parametrize("rule", KNOWN_RULES)
def test_a_plain_reading_of_the_rules_answers_each_case_of_known_shapes(rule: str):
    asked = [(case, question) for case in CORE_CASES[rule] for question in list_questions(case)]
    assert [question["id"] for case, question in asked if infer_plainly(question) != case["answer"].get("shape")] == []


def test_no_case_could_be_dropped():
    assert find_needless(CORE, find_failed()) == []


def test_a_case_that_says_what_another_one_says_could_be():
    twin = {
        **CORE_CASES["volume"][0],
        "id": "volume/twin",
        "data": [5, 7],
        "shape": [5, 7],
        "answer": {"shape": [5, 7]},
    }
    assert find_needless([*CORE, twin], find_failed()) == [CORE_CASES["volume"][0]["id"], "volume/twin"]
