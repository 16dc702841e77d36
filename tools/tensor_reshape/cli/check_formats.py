"""The forms in which `check` reports to a terminal and to CI systems."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree as ET

import click

from tensor_reshape.rules.errors import escape_unprintable

if TYPE_CHECKING:
    from tensor_reshape.onnx import Finding, ModelReport, ProfileReport
    from tensor_reshape.wire.json_messages import Json

FORMATS = ("text", "json", "github", "sarif", "junit")
REJECTED, UNDECIDED, NO_MODEL = 3, 7, 2
"""The exit codes. No model is the worst, and undecided the best of them."""

_WIDEST = 40  # the columns of a terminal that names of nodes may use
_COLORS = {"error": "red", "warning": "yellow", "note": None}
_REMARKS = {"closed": "; unknown to onnx", "narrowed": "; known only in part to onnx", "open": "; it stays unknown"}
"""A remark after the line of a node, by its verdict."""


class Problem(NamedTuple):
    """A finding or a remark about a model.

    Attributes:
        level: error, warning or note, as in SARIF.
        kind: a verdict, or the kind of a remark.
        text: the problem in one sentence, or in several lines. Unprintable characters of the model are escaped.
        finding: the node, or None if the problem is about the model.
    """

    level: str
    kind: str
    text: str
    finding: "Finding | None" = None


@dataclass(slots=True, kw_only=True)
class Checked:
    """One file and what the check found.

    Attributes:
        path: the file.
        report: the report, or None if the file is not a model.
        profiles: the profiles.
        error: why the file is not a model, or an empty text.
        fail_on: the verdicts that make the exit code REJECTED.
    """

    path: Path
    report: "ModelReport | None" = None
    profiles: "list[ProfileReport]" = field(default_factory=list)
    error: str = ""
    fail_on: frozenset[str] = frozenset()

    @property
    def code(self) -> int:
        """The exit code for this file."""
        if self.report is None:
            return NO_MODEL
        results = {profile.result for profile in self.profiles}
        if self.report.verdicts & self.fail_on or "rejected" in results:
            return REJECTED
        return UNDECIDED if "undecided" in results or self.report.undecided else 0

    def to_json(self) -> "Json":
        """Returns the report in the form of JSON."""
        if self.report is None:
            return {"path": str(self.path), "error": self.error}
        return {
            "path": str(self.path),
            **self.report.to_json(),
            "profiles": [profile.to_json() for profile in self.profiles],
        }

    def list_problems(self) -> "Iterator[Problem]":
        """Yields each finding and remark."""
        if self.report is None:
            yield Problem("error", "no-model", escape_unprintable(self.error))
            return
        yield from self._list_node_problems(self.report)
        if self.report.contradiction:
            labels = [(one, self.report.findings[node].node.label) for one, node in self.report.contradiction]
            listed = ", ".join(f"{one} (node {label})" for one, label in labels)
            text = f"This model accepts no input with elements: {listed}"
            yield Problem(self._level("contradiction"), "contradiction", escape_unprintable(text))
        for text in self.report.undecided:
            yield Problem("warning", "undecided", escape_unprintable(f"undecided: {text}"))
        for text in self.report.claims:
            yield Problem(self._level("disagrees"), "disagrees", escape_unprintable(text))
        for text in self.report.remarks:
            yield Problem("note", text.partition(":")[0], escape_unprintable(text))
        for profile in self.profiles:
            level = {"accepted": "note", "undecided": "warning"}.get(profile.result, "error")
            lines = map(escape_unprintable, (format_profile(profile), *profile.problems))
            yield Problem(level, "profile", "\n  ".join(lines))

    def _list_node_problems(self, report: "ModelReport") -> "Iterator[Problem]":
        """Yields the findings about single nodes."""
        for finding in report.findings:
            if finding.verdict.value == "rejected":
                yield Problem(self._level("rejected"), "rejected", escape_unprintable(str(finding)), finding)
            for text in finding.disagreements:
                label = escape_unprintable(f"{finding.node.label}: {text}")
                yield Problem(self._level("disagrees"), "disagrees", label, finding)
        for requirement in report.requirements:
            kind = requirement.verdict.value
            if kind != "ok":
                text = f"This model requires: {requirement}"
                yield Problem(self._level(kind), kind, escape_unprintable(text), report.findings[requirement.nodes[0]])
        for failed in report.failed_probes:
            text = escape_unprintable(str(failed))
            yield Problem(self._level("restricted"), "restricted", text, report.findings[failed.node])

    def _level(self, kind: str) -> str:
        return "error" if kind in self.fail_on else "warning" if kind == "restricted" else "note"


def find_worst(checked: Sequence[Checked]) -> int:
    """Returns the exit code of several files."""
    codes = {one.code for one in checked}
    return next((code for code in (NO_MODEL, REJECTED, UNDECIDED) if code in codes), 0)


def format_profile(profile: "ProfileReport") -> str:
    """Returns the line of a profile."""
    shapes = " ".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in profile.shapes.items())
    return f"profile {shapes}: {profile.result}"


def write(checked: Sequence[Checked], form: str, *, explain: bool, is_list: bool) -> str:
    """Returns the output of the command."""
    if form == "json":
        records = [one.to_json() for one in checked]
        return json.dumps({"models": records} if is_list else records[0])
    if form == "text":
        return "\n".join(line for one in checked for line in _write_text(one, explain=explain, has_path=is_list))
    if form == "github":
        return "\n".join(line for one in checked for line in _write_github(one))
    return json.dumps(_build_sarif(checked)) if form == "sarif" else _write_junit(checked)


def _write_text(one: Checked, *, explain: bool, has_path: bool) -> Iterator[str]:
    """Yields the lines for a terminal. Unprintable characters are escaped, because names come from the model."""
    prefix = f"{escape_unprintable(str(one.path))}: " * has_path
    if one.report is None:
        return
    report = one.report
    width = min(_WIDEST, max((len(finding.node.label) for finding in report.findings), default=0))
    problems = list(one.list_problems())
    troubled = {id(problem.finding) for problem in problems if problem.level != "note"}
    for finding in report.findings:
        label, _, rest = str(finding).partition(": ")
        color = "red" if finding.verdict.value == "rejected" else None
        line = f"{label}: {' ' * (width - len(label))}{rest}{_REMARKS.get(finding.verdict.value, '')}"
        yield click.style(prefix + escape_unprintable(line), fg=color)
        details = [*finding.disagreements, *finding.copies]
        if explain and not isinstance(finding.answer, Exception):
            details += [origin.text for origin in finding.answer.origins]
        if id(finding) in troubled:
            details += [f"at {finding.origin}"] * bool(finding.origin) + [finding.advice] * bool(finding.advice)
        yield from (f"{prefix}  {escape_unprintable(text)}" for text in details)
    yield from (prefix + escape_unprintable(note) for note in report.notes)
    if explain:
        for requirement in report.requirements:
            if requirement.verdict.value == "ok":
                yield prefix + escape_unprintable(f"This model requires: {requirement}")
    for problem in problems:
        if problem.kind != "rejected" and (problem.kind != "disagrees" or problem.finding is None):
            yield from (click.style(prefix + line, fg=_COLORS[problem.level]) for line in problem.text.split("\n"))
    yield click.style(f"{prefix}{_summarize(report)}", fg={0: "green", UNDECIDED: "yellow"}.get(one.code, "red"))


def _summarize(report: "ModelReport") -> str:
    """Returns the last line, with the verdict."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items() if count)
    number = len(report.findings)
    nodes = f"{number} Reshape {'node' if number == 1 else 'nodes'}{f' ({counts})' if counts else ''}"
    tried = f"{report.tried or 'no'} {'size' if report.tried == 1 else 'sizes'} tried"
    return f"{report.verdict.value}: {nodes}, {tried}"


def _write_github(one: Checked) -> Iterator[str]:
    """Yields annotations of GitHub Actions."""
    for level, kind, text, finding in one.list_problems():
        file, line = _find_place(one, finding)
        where = f"file={_escape(file, ',:')}{f',line={line}' if line else ''},title={_escape(f'check: {kind}', ',:')}"
        name = "notice" if level == "note" else level
        advice = f" ({escape_unprintable(finding.advice)})" if finding and finding.advice else ""
        yield f"::{name} {where}::{_escape(text + advice, '')}"


def _escape(text: str, more: str) -> str:
    """Returns a text in which the characters are escaped that end an annotation or one of its parts."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _find_place(one: Checked, finding: "Finding | None") -> tuple[str, int]:
    """Returns the source file and line of a node, or the model and 0."""
    if finding is None or not finding.origin:
        return str(one.path), 0
    file, _, rest = finding.origin.rpartition(": ")[0].rpartition(":")
    return (file, int(rest)) if rest.isdecimal() else (str(one.path), 0)


def _build_sarif(checked: Sequence[Checked]) -> Mapping[str, Any]:
    results = [
        {
            "ruleId": kind,
            "level": level,
            "message": {"text": text},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}}}],
        }
        for one in checked
        for uri in [one.path.as_uri() if one.path.is_absolute() else quote(one.path.as_posix())]
        for level, kind, text, _ in one.list_problems()
    ]
    rules = [{"id": kind} for kind in sorted({str(result["ruleId"]) for result in results})]
    driver = {"name": "tensor-reshape check", "version": version("tensor-reshape"), "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _write_junit(checked: Sequence[Checked]) -> str:
    root = ET.Element("testsuites")
    for one in checked:
        suite = ET.SubElement(root, "testsuite", name=str(one.path))
        problems = list(one.list_problems())
        labels = [finding.node.label for finding in one.report.findings] if one.report else []
        for place, label in enumerate(labels):
            case = ET.SubElement(suite, "testcase", classname=str(one.path), name=escape_unprintable(label))
            own = one.report.findings[place] if one.report else None
            _add_failures(case, [problem for problem in problems if problem.finding is own])
        case = ET.SubElement(suite, "testcase", classname=str(one.path), name="model")
        _add_failures(case, [problem for problem in problems if problem.finding is None])
        suite.set("tests", str(len(labels) + 1))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _add_failures(case: ET.Element, problems: Sequence[Problem]) -> None:
    errors = [text for level, _, text, _ in problems if level == "error"]
    undecided = [text for level, kind, text, _ in problems if level == "warning" and kind in {"undecided", "profile"}]
    for tag, texts in (("failure", errors), ("skipped", [] if errors else undecided)):
        if texts:
            ET.SubElement(case, tag, message="; ".join(texts))
