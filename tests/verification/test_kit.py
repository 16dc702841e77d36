"""The core of the conformance kit is worth having: each planted mistake is caught, and each case is needed."""

from functools import cache
from typing import Any

import pytest

from tests.oracles.conformance_cases import load_cases
from tests.oracles.shape_instances import find_accepted
from verification.kit.checks import check_cases
from verification.kit.core_cases import CORE_CASES
from verification.kit.found_instances import FOUND, WIDER
from verification.kit.mistakes import (
    answer_rightly,
    find_caught,
    find_matching,
    is_right,
    list_mistakes,
)
from verification.kit.needs import find_needless
from verification.kit.questions import list_questions
from verification.kit.witnesses import list_found

CORE = [case for cases in CORE_CASES.values() for case in cases]


@cache
def find_failed() -> dict[str, list[str]]:
    return find_caught(CORE)


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


@pytest.mark.parametrize("rule", CORE_CASES)
def test_no_reading_and_no_instance_contradicts_the_core_and_each_end_is_reached(rule: str):
    findings = check_cases(CORE_CASES[rule])
    assert (findings.wrong, findings.loose) == ({}, {})


def test_no_reading_and_no_instance_contradicts_a_sample_of_the_other_sizes():
    findings = check_cases(load_cases()[::120])
    assert findings.checked > 150
    assert findings.wrong == {}


def test_what_was_found_by_hand_are_instances_that_are_accepted():
    questions = [list_questions(case)[0] for case in load_cases() if case["id"] in FOUND]
    accepted = [[bool(find_accepted(part).accepted) for part in list_found(question)] for question in questions]
    assert accepted == [[True] * len(FOUND[question["id"].partition("@")[0]]) for question in questions]
    assert len(questions) == len(FOUND)


@pytest.mark.parametrize("name", WIDER)
def test_what_is_known_to_be_wider_is_so(name: str):
    assert check_cases([case for case in load_cases() if case["id"] == name]).loose


def change_answer(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Returns a case of the core with another answer."""
    (case,) = [case for case in CORE if case["id"] == name]
    return {**case, "operations": ["reshape"], "answer": answer}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("volume/same", {"shape": [3, 2]}),
        ("volume/same", {"error": {"reason": "VOLUME_MISMATCH"}}),
        ("volume/more-elements", {"shape": [7]}),
        ("partial/bounded", {"shape": [{"min": 4, "max": 6}, 4]}),
        ("partial/bounded", {"error": {"reason": "NOT_DIVISIBLE"}}),
        ("partial/any", {"shape": [{"min": 1, "max": None}]}),
        ("symbols/multiplied", {"shape": [{"min": 0, "max": None, "name": "2*N"}]}),
    ],
)
def test_a_wrong_answer_is_found(name: str, answer: dict[str, Any]):
    assert check_cases([change_answer(name, answer)]).wrong.keys() == {f"{name}@reshape"}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("partial/bounded", {"shape": [{"min": 3, "max": 7}, 4]}),
        ("partial/bounded", {"shape": [{"min": 2, "max": 6}, 4]}),
        ("partial/bounded", {"shape": [{"min": 3, "max": None}, 4]}),
        ("partial/bounded", {"shape": None}),
        ("partial/no-multiple", {"shape": [40, 2]}),
    ],
)
def test_an_answer_that_is_no_hull_is_found(name: str, answer: dict[str, Any]):
    assert check_cases([change_answer(name, answer)]).loose.keys() == {f"{name}@reshape"}


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
