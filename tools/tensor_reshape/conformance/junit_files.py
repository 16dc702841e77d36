"""The results of a run as JUnit XML, which CI services read: a suite for each rule, a test case for each question.

A difference fails; one that is agreed to, and what is not offered, is skipped; a crash, a hang and garbage are errors.
What no XML may hold, controls and halves of characters, is escaped. The format is that of the JUnit task of Ant, which
has no other definition than what is read of it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from tensor_reshape.conformance.cases import Question
from tensor_reshape.conformance.verdicts import Judgement, Verdict
from tensor_reshape.rules.errors import escape_unprintable

_ERRORS = {Verdict.CRASH, Verdict.HANG, Verdict.GARBAGE}
_TAGS = ("failure", "error", "skipped")


def build_junit(
    name: str, questions: Sequence[Question], judgements: Mapping[str, Judgement], agreed: Mapping[str, str]
) -> bytes:
    """Returns the file.

    Args:
        name: of the implementation.
        questions: what was asked.
        judgements: of each answer, by the id of the question.
        agreed: the verdicts of differences that are agreed to, by id.
    """
    root = ET.Element("testsuites", name=escape_unprintable(name))
    suites, counts = dict[str, ET.Element](), dict[str, Counter[str]]()
    for question in questions:
        if question.rule not in suites:
            suites[question.rule] = ET.SubElement(root, "testsuite", name=question.rule)
        case = ET.SubElement(suites[question.rule], "testcase", classname=question.rule, name=question.id)
        tag, judgement = _choose_tag(judgements[question.id], agreed.get(question.id)), judgements[question.id]
        counts.setdefault(question.rule, Counter()).update(["tests", *([tag] if tag else [])])
        if tag:
            told = ET.SubElement(
                case, tag, message=escape_unprintable(judgement.why or judgement.verdict), type=judgement.verdict
            )
            told.text = escape_unprintable(question.because)
    for rule, suite in suites.items():
        _write_counts(suite, counts[rule])
    _write_counts(root, sum(counts.values(), Counter()))
    ET.indent(root)
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _choose_tag(judgement: Judgement, agreed: str | None) -> str:
    verdict = judgement.verdict
    if verdict is Verdict.UNSUPPORTED or (verdict.is_difference and verdict == agreed):
        return "skipped"
    if agreed is not None and verdict != agreed:  # also one that agrees now: the agreement is to be taken back
        return "error" if verdict in _ERRORS else "failure"
    return ("error" if verdict in _ERRORS else "failure") if verdict.is_difference else ""


def _write_counts(element: ET.Element, counts: Counter[str]) -> None:
    element.set("tests", str(counts["tests"]))
    for tag, attribute in zip(_TAGS, ("failures", "errors", "skipped"), strict=True):
        element.set(attribute, str(counts[tag]))
