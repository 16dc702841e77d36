"""The conformance suite: a plain reading and instances confirm its answers, and find a wrong one."""

from typing import Any

from conformance_runs import UNRANKED, write_shape
from tests.oracles.conformance_cases import load_cases
from verification.kit import (
    WIDER,
    check_cases,
    is_stale,
    list_files,
    read_cases,
    read_size,
    renew,
)

CORE = read_size("core")


def test_core_conformance_cases_are_confirmed_by_instance_search():
    findings = check_cases(CORE)
    assert findings.checked == 993
    assert (findings.wrong, findings.loose) == ({}, {})


def test_sampled_conformance_cases_are_confirmed_by_instance_search():
    findings = check_cases(load_cases()[::40])
    assert findings.checked > 400
    assert (findings.wrong, findings.loose) == ({}, {})


def test_conformance_cases_with_known_loose_bounds_are_detected():
    findings = check_cases([case for case in load_cases() if case["id"] in WIDER])
    assert (findings.wrong, {name.partition("@")[0] for name in findings.loose}) == ({}, set(WIDER))


def test_wrong_conformance_case_is_detected():
    rows: list[tuple[str, dict[str, Any], str]] = [
        ("volume/same", write_shape(3, 2), "wrong"),
        ("volume/same", {"rejection": {"reason": "VOLUME_MISMATCH"}}, "wrong"),
        ("volume/more-elements", write_shape(7), "wrong"),
        ("partial/bounded", write_shape((4, 6), 4), "wrong"),
        ("partial/bounded", {"rejection": {"reason": "NOT_DIVISIBLE"}}, "wrong"),
        ("partial/any", write_shape((1, None)), "wrong"),
        ("symbols/multiplied", write_shape("2*N"), "wrong"),
        ("expected/other-rank", write_shape(6), "loose"),
        ("partial/bounded", write_shape((3, 7), 4), "loose"),
        ("partial/bounded", UNRANKED, "loose"),
    ]
    found = []
    for name, answer, _ in rows:
        (case,) = [case for case in CORE if case["id"] == name]
        findings = check_cases([{**case, "operations": ["OPERATION_RESHAPE"], "result": answer}])
        found.append((name, answer, "wrong" if findings.wrong else "loose" if findings.loose else "right"))
    assert found == rows


def test_outdated_conformance_case_is_detected_and_updated():
    path = list_files("hostile")[0]
    cases = read_cases(path)
    wrong = {**cases[0], "result": write_shape(7)}

    assert [is_stale(case) for case in (wrong, cases[0])] == [True, False]
    assert renew([wrong, *cases[1:]]) == path.read_text()
