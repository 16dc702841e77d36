"""Writes the results of a conformance run as JUnit XML for CI services.

The XML has a test suite for each rule, and a test case for each conformance case.

A difference is written as a failure, but a crash, a hang and garbage are written as errors. An expected difference and
an unsupported case are written as skipped. Characters that XML does not allow, such as control characters and lone
surrogates, are escaped. The XML has the format of Ant's JUnit task, which has no specification. This module writes only
elements that common readers of JUnit XML understand.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from tensor_reshape.conformance.cases import Case
from tensor_reshape.conformance.verdicts import Judgement, Verdict
from tensor_reshape.rules.errors import escape_unprintable

_ERRORS = {Verdict.CRASH, Verdict.HANG, Verdict.GARBAGE}
_ATTRIBUTES = {"failure": "failures", "error": "errors", "skipped": "skipped"}
"""The attribute that contains the number of each element."""


def build_junit(
    name: str, cases: Sequence[Case], judgements: Mapping[str, Judgement], expected: Mapping[str, str]
) -> bytes:
    """Returns the contents of the JUnit XML file.

    Args:
        name: the name of the implementation.
        cases: the cases of the run.
        judgements: the judgement of each case, by its id.
        expected: the verdicts of expected differences, by id.
    """
    root = ET.Element("testsuites", name=escape_unprintable(name))
    suites, counts = dict[str, ET.Element](), dict[str, Counter[str]]()
    for case in cases:
        if case.rule not in suites:
            suites[case.rule] = ET.SubElement(root, "testsuite", name=case.rule)
        test = ET.SubElement(suites[case.rule], "testcase", classname=case.rule, name=case.id)
        judgement = judgements[case.id]
        tag = _choose_tag(judgement.verdict, expected.get(case.id))
        counts.setdefault(case.rule, Counter()).update(["tests", *([tag] if tag else [])])
        if tag:
            text = escape_unprintable(judgement.why or judgement.verdict)
            ET.SubElement(test, tag, message=text, type=judgement.verdict).text = escape_unprintable(case.because)
    for rule, suite in suites.items():
        _write_counts(suite, counts[rule])
    _write_counts(root, sum(counts.values(), Counter()))
    ET.indent(root)
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _choose_tag(verdict: Verdict, expected: str | None) -> str:
    if verdict is Verdict.UNSUPPORTED or (verdict.is_difference and verdict == expected):
        return "skipped"
    # The test case also fails if an expected difference no longer occurs.
    if verdict.is_difference or expected is not None:
        return "error" if verdict in _ERRORS else "failure"
    return ""


def _write_counts(element: ET.Element, counts: Counter[str]) -> None:
    element.set("tests", str(counts["tests"]))
    for tag, attribute in _ATTRIBUTES.items():
        element.set(attribute, str(counts[tag]))
