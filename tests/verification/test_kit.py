"""The core of the conformance kit is worth having: each planted mistake is caught, and each case is needed."""

from functools import cache
from typing import Any

from tests.oracles.conformance_cases import load_cases
from verification.kit.boundaries import find_needless
from verification.kit.checks import WIDER, check_cases
from verification.kit.files import CORE_CASES
from verification.kit.mistakes import answer_rightly, find_caught, find_matching, is_right, list_mistakes
from verification.kit.questions import list_questions

CORE = [case for cases in CORE_CASES.values() for case in cases]


@cache
def find_failed() -> dict[str, list[str]]:
    return find_caught(CORE)


def test_each_mistake_fails_a_case_of_its_own():
    matching = find_matching(find_failed())
    assert sorted(matching) == sorted(list_mistakes())
    assert len(set(matching.values())) == len(matching) >= 120


def test_two_mistakes_cannot_share_the_only_case_that_tells_them():
    assert len(find_matching({"one": ["case"], "other": ["case"], "third": ["case", "more"]})) == 2


def test_right_answers_fail_no_case():
    asked = [(case, question) for case in CORE for question in list_questions(case)]
    assert [question["id"] for case, question in asked if not is_right(case, answer_rightly(question))] == []


def test_instances_and_a_plain_reading_confirm_the_core():
    findings = check_cases(CORE)
    assert findings.checked == 599
    assert (findings.wrong, findings.loose) == ({}, {})


def test_instances_confirm_a_sample_of_the_other_sizes():
    findings = check_cases(load_cases()[::40])
    assert findings.checked > 400
    assert (findings.wrong, findings.loose) == ({}, {})


def test_cases_that_are_known_to_be_wider_are_found():
    findings = check_cases([case for case in load_cases() if case["id"] in WIDER])
    assert (findings.wrong, {name.partition("@")[0] for name in findings.loose}) == ({}, set(WIDER))


def test_a_wrong_answer_is_found():
    rows: list[tuple[str, dict[str, Any], str]] = [
        ("volume/same", {"shape": [3, 2]}, "wrong"),
        ("volume/same", {"error": {"reason": "VOLUME_MISMATCH"}}, "wrong"),
        ("volume/more-elements", {"shape": [7]}, "wrong"),
        ("partial/bounded", {"shape": [{"min": 4, "max": 6}, 4]}, "wrong"),
        ("partial/bounded", {"error": {"reason": "NOT_DIVISIBLE"}}, "wrong"),
        ("partial/any", {"shape": [{"min": 1, "max": None}]}, "wrong"),
        ("symbols/multiplied", {"shape": [{"min": 0, "max": None, "name": "2*N"}]}, "wrong"),
        ("expected/other-rank", {"shape": [6]}, "loose"),
        ("partial/bounded", {"shape": [{"min": 3, "max": 7}, 4]}, "loose"),
        ("partial/bounded", {"shape": None}, "loose"),
    ]
    found = []
    for name, answer, _ in rows:
        (case,) = [case for case in CORE if case["id"] == name]
        findings = check_cases([{**case, "operations": ["reshape"], "answer": answer}])
        found.append((name, answer, "wrong" if findings.wrong else "loose" if findings.loose else "right"))
    assert found == rows


def test_no_case_could_be_dropped():
    assert find_needless(CORE, find_failed()) == []


def test_a_case_that_repeats_another_could_be_dropped():
    first = CORE_CASES["volume"][0]
    twin = {**first, "id": "volume/twin", "data": [5, 7], "shape": [5, 7], "answer": {"shape": [5, 7]}}
    assert find_needless([*CORE, twin], find_failed()) == [first["id"], "volume/twin"]
