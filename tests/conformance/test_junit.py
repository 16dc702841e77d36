"""JUnit XML, read by a library that CI tools use."""

from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from conformance_runs import HOSTILE, make_case
from tensor_reshape.conformance.junit import build_junit
from tensor_reshape.conformance.verdicts import Judgement, Verdict

# The judgement of each case, and the element that a CI tool shows.
JUDGEMENTS: dict[str, tuple[Judgement, list[type]]] = {
    "inferred/good": (Judgement(Verdict.AGREES), []),
    "inferred/wrong": (Judgement(Verdict.WRONG_SHAPE, "dim 0 is 7, not 6"), [Failure]),
    "inferred/crash": (Judgement(Verdict.CRASH, f"SIGSEGV {HOSTILE}"), [Error]),
    "partial/tighter": (Judgement(Verdict.TIGHTER, "dim 0 is 4..5"), []),
    "partial/not": (Judgement(Verdict.UNSUPPORTED, "no names"), [Skipped]),
    "partial/expected": (Judgement(Verdict.WEAKER, "dim 0 is ?"), [Failure]),
    "partial/changed": (Judgement(Verdict.HANG, "no answer in 1 s"), [Error]),
    "partial/gone": (Judgement(Verdict.AGREES), []),
}
KINDS = {name: kinds for name, (_, kinds) in JUDGEMENTS.items()}
EXPECTED = {f"partial/{name}@reshape": "weaker" for name in ("expected", "changed", "gone")}


def read(folder: Path, expected: dict[str, str]) -> tuple[JUnitXml, dict[str, TestCase]]:
    """Returns a file, and its test cases by their names."""
    cases = [make_case(name) for name in JUDGEMENTS]
    judgements = {f"{name}@reshape": judgement for name, (judgement, _) in JUDGEMENTS.items()}
    (folder / "junit.xml").write_bytes(build_junit(f"mine {HOSTILE}", cases, judgements, expected))
    xml = JUnitXml.fromfile(str(folder / "junit.xml"))
    tests = [test for suite in xml if isinstance(suite, TestSuite) for test in suite]
    return xml, {test.name.partition("@")[0]: test for test in tests}


def test_junit_report_fails_unexpected_differences(tmp_path: Path):
    _, cases = read(tmp_path, {})
    assert {name: [*map(type, case.result)] for name, case in cases.items()} == KINDS
    _, cases = read(tmp_path, EXPECTED)
    kinds = {name: [*map(type, case.result)] for name, case in cases.items()}
    # An expected difference that is gone fails as well.
    assert kinds == KINDS | {"partial/expected": [Skipped], "partial/gone": [Failure]}


def test_junit_report_has_a_suite_with_counts_per_rule(tmp_path: Path):
    xml, _ = read(tmp_path, {})
    counts = (xml.tests, xml.failures, xml.errors, xml.skipped)
    assert [(suite.name, suite.tests) for suite in xml] == [("inferred", 3), ("partial", 5)]
    xml.update_statistics()  # type: ignore[no-untyped-call] # recounts
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == counts == (8, 2, 2, 1)


def test_junit_failure_contains_the_difference_and_the_violated_rule(tmp_path: Path):
    _, cases = read(tmp_path, {})
    (failure,) = cases["inferred/wrong"].result
    assert (failure.message, failure.type) == ("dim 0 is 7, not 6", "wrong_shape")
    assert "as many elements" in (failure.text or "")
    (crash,) = cases["inferred/crash"].result
    assert crash.message == "SIGSEGV <script>alert(1)</script>\\ud800\\x1b[31m]]>&\\x00"
