"""JUnit XML, as a library reads it that CI tools use."""

from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from conformance_runs import HOSTILE, make_question
from tensor_reshape.conformance.junit_files import build_junit
from tensor_reshape.conformance.verdicts import Judgement, Verdict

JUDGEMENTS = {
    "inferred/good": Judgement(Verdict.AGREES),
    "inferred/wrong": Judgement(Verdict.WRONG_SHAPE, "dim 0 is 7, not 6"),
    "inferred/crash": Judgement(Verdict.CRASH, f"SIGSEGV {HOSTILE}"),
    "partial/tighter": Judgement(Verdict.TIGHTER, "dim 0 is 4..5"),
    "partial/not": Judgement(Verdict.UNSUPPORTED, "no names"),
    "partial/agreed": Judgement(Verdict.WEAKER, "dim 0 is ?"),
    "partial/changed": Judgement(Verdict.HANG, "no answer in 1 s"),
    "partial/gone": Judgement(Verdict.AGREES),
}
AGREED = {f"partial/{name}@reshape": "weaker" for name in ("agreed", "changed", "gone")}


def read(folder: Path, agreed: dict[str, str]) -> JUnitXml:
    questions = [make_question(name) for name in JUDGEMENTS]
    judgements = {f"{name}@reshape": judgement for name, judgement in JUDGEMENTS.items()}
    (folder / "junit.xml").write_bytes(build_junit(f"mine {HOSTILE}", questions, judgements, agreed))
    return JUnitXml.fromfile(str(folder / "junit.xml"))


def list_cases(xml: JUnitXml) -> dict[str, TestCase]:
    return {case.name: case for suite in xml if isinstance(suite, TestSuite) for case in suite}


def find_kinds(xml: JUnitXml) -> dict[str, list[type]]:
    cases = list_cases(xml).items()
    return {name.partition("@")[0]: [type(result) for result in case.result] for name, case in cases}


def test_a_difference_fails_and_what_has_no_answer_is_an_error(tmp_path: Path):
    assert find_kinds(read(tmp_path, {})) == {
        "inferred/good": [],
        "inferred/wrong": [Failure],
        "inferred/crash": [Error],
        "partial/tighter": [],
        "partial/not": [Skipped],
        "partial/agreed": [Failure],
        "partial/changed": [Error],
        "partial/gone": [],
    }


def test_what_is_agreed_to_is_skipped_and_what_is_gone_fails(tmp_path: Path):
    kinds = find_kinds(read(tmp_path, AGREED))
    assert [kinds[f"partial/{name}"] for name in ("agreed", "changed", "gone")] == [[Skipped], [Error], [Failure]]


def test_suites_are_rules_and_their_numbers_are_right(tmp_path: Path):
    xml = read(tmp_path, {})
    counts = (xml.tests, xml.failures, xml.errors, xml.skipped)
    assert [(suite.name, suite.tests) for suite in xml] == [("inferred", 3), ("partial", 5)]
    xml.update_statistics()  # type: ignore[no-untyped-call] # counted anew
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == counts == (8, 2, 2, 1)


def test_a_failure_says_what_differs_and_which_sentence_decides(tmp_path: Path):
    cases = list_cases(read(tmp_path, {}))
    (failure,) = cases["inferred/wrong@reshape"].result
    assert (failure.message, failure.type) == ("dim 0 is 7, not 6", "wrong_shape")
    assert "as many elements" in (failure.text or "")
    (crash,) = cases["inferred/crash@reshape"].result
    assert crash.message == "SIGSEGV <script>alert(1)</script>\\ud800\\x1b[31m]]>&\\x00"
