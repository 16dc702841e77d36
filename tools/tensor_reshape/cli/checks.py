"""The command that checks the Reshape nodes of models, and its output formats for people and CI systems."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree as ET

import click

from tensor_reshape.cli.lazy_commands import reject_missing_extra
from tensor_reshape.cli.options import JSON_OPTION, OPTIONAL_SERVER_OPTION, Connection, connection_options
from tensor_reshape.cli.parameter_types import InputShapes, NewFile, Words
from tensor_reshape.client import infer_locally
from tensor_reshape.rules.errors import escape_unprintable

if TYPE_CHECKING:
    from tensor_reshape.onnx import Finding, ModelReport, ProfileReport
    from tensor_reshape.onnx.checks import Ask
    from tensor_reshape.wire.json_messages import Json

FORMATS = ("text", "json", "github", "sarif", "junit")
REJECTED, UNDECIDED, NO_MODEL = 3, 7, 2
"""The exit codes. No model is the worst, and undecided the best of them."""

_WIDEST = 40  # the largest width of the column with the names of nodes, in characters
_COLORS = {"error": "red", "warning": "yellow", "note": None}
_REMARKS = {"closed": "; unknown to onnx", "narrowed": "; known only in part to onnx", "open": "; it stays unknown"}
"""A remark after the line of a node, by its verdict."""
_FAIL_ON = Words(("rejected", "contradiction", "frozen", "restricted", "disagrees", "leaves"))
_DESCRIPTIONS = {
    "no-model": "The file is not a model.",
    "rejected": "A Reshape node fails for every input.",
    "contradiction": "No input with elements satisfies the conditions of all nodes.",
    "frozen": "A dynamic dimension, or a product of dynamic dimensions, has only one legal value.",
    "restricted": "The model accepts only some sizes of its inputs.",
    "undecided": "The check could not decide whether the model works.",
    "disagrees": "A declared or inferred shape is wrong.",
    "needs": "Another node cannot run with some sizes, or dimensions can only change together.",
    "leaves": "A Reshape node moves the first dimension of the inputs, usually the batch.",
    "profile": "The result of a profile.",
}
"""The title of each kind of problem. Code scanning shows it above the alerts."""
_IR_BYTES = 4096  # an XML file is an IR only if its root element begins within this number of bytes

_EPILOG = """
Prints one line for each node: its name, the input shape, the requested shape, and the output shape. The library onnx
made names such as unk__3_onnx; the model does not contain them. Then prints what the model requires of its inputs, and
remarks. The last line has the verdict. With --explain, the source of each dimension follows its node, and the
conditions include those that only exclude empty tensors.

The exit code is 2 if a file is not a model, 3 for a word of --fail-on or a rejected profile, and 7 if the check or a
profile is undecided. Of several files, the first of these codes counts.
"""


class Problem(NamedTuple):
    """A finding or a remark about a model.

    Attributes:
        level: error, warning or note, as in SARIF.
        kind: the verdict of the finding, or the kind of the remark.
        text: the problem in one sentence, or in several lines. Unprintable characters of the model are escaped.
        finding: the finding about a node, or None if the problem is about the whole model.
    """

    level: str
    kind: str
    text: str
    finding: "Finding | None" = None


@dataclass(slots=True, kw_only=True)
class Checked:
    """A checked file, with the report and the results of the profiles.

    Attributes:
        path: the file.
        report: the report about the model, or None if the file is not a model.
        profiles: the results of the profiles.
        error: the reason why the file is not a model, or an empty text.
        fail_on: the verdicts and remarks for which the exit code is REJECTED.
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
        found = self.report.verdicts.union(map(_find_kind, self.report.remarks))
        if found & self.fail_on or "rejected" in results:
            return REJECTED
        return UNDECIDED if "undecided" in results or self.report.undecided else 0

    def to_json(self) -> "Json":
        """Returns the report as a dictionary for JSON."""
        if self.report is None:
            return {"path": str(self.path), "error": self.error}
        return {
            "path": str(self.path),
            **self.report.to_json(),
            "profiles": [profile.to_json() for profile in self.profiles],
        }

    def list_problems(self) -> "Iterator[Problem]":
        """Yields each finding and each remark as a problem."""
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
            kind = _find_kind(text)
            yield Problem(self._level(kind), kind, escape_unprintable(text))
        for profile in self.profiles:
            level = {"accepted": "note", "undecided": "warning"}.get(profile.result, "error")
            lines = map(escape_unprintable, (format_profile(profile), *profile.problems))
            yield Problem(level, "profile", "\n  ".join(lines))

    def _list_node_problems(self, report: "ModelReport") -> "Iterator[Problem]":
        """Yields the findings about single nodes as problems."""
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


def _find_kind(remark: str) -> str:
    """Returns the word before the colon of a remark."""
    return remark.partition(":")[0]


def find_worst(checked: Sequence[Checked]) -> int:
    """Returns the exit code of the command for several files, which is the worst exit code of a file."""
    codes = {one.code for one in checked}
    return next((code for code in (NO_MODEL, REJECTED, UNDECIDED) if code in codes), 0)


def format_profile(profile: "ProfileReport") -> str:
    """Returns the output line for a profile, with its shapes and its result."""
    shapes = " ".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in profile.shapes.items())
    return f"profile {shapes}: {profile.result}"


def write(checked: Sequence[Checked], form: str, *, explain: bool, is_list: bool) -> str:
    """Returns the output of the command in the chosen format."""
    if form == "json":
        records = [one.to_json() for one in checked]
        return json.dumps({"models": records} if is_list else records[0])
    if form == "text":
        return "\n".join(line for one in checked for line in _write_text(one, explain=explain, has_path=is_list))
    if form == "github":
        return "\n".join(line for one in checked for line in _write_github(one))
    return json.dumps(_build_sarif(checked)) if form == "sarif" else _write_junit(checked)


def _write_text(one: Checked, *, explain: bool, has_path: bool) -> Iterator[str]:
    """Yields the lines of the text format. Unprintable characters are escaped, because names come from the model."""
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
    yield click.style(f"{prefix}{report.summary}", fg={0: "green", UNDECIDED: "yellow"}.get(one.code, "red"))


def _write_github(one: Checked) -> Iterator[str]:
    """Yields the problems as annotations for GitHub Actions."""
    for level, kind, text, finding in one.list_problems():
        file, line = _find_place(one, finding)
        where = f"file={_escape(file, ',:')}{f',line={line}' if line else ''},title={_escape(f'check: {kind}', ',:')}"
        name = "notice" if level == "note" else level
        yield f"::{name} {where}::{_escape(_add_advice(text, finding), '')}"


def _add_advice(text: str, finding: "Finding | None") -> str:
    """Returns the text of a problem, followed by the advice of its finding if there is any."""
    return f"{text} ({escape_unprintable(finding.advice)})" if finding and finding.advice else text


def _escape(text: str, more: str) -> str:
    """Escapes each character that would end an annotation or one of its parts."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _find_place(one: Checked, finding: "Finding | None") -> tuple[str, int]:
    """Returns the source file and the line that created a node, or the path of the model and 0 if they are unknown."""
    if finding is None or not finding.origin:
        return str(one.path), 0
    file, _, rest = finding.origin.rpartition(": ")[0].rpartition(":")
    return (file, int(rest)) if rest.isdecimal() else (str(one.path), 0)


def _build_sarif(checked: Sequence[Checked]) -> Mapping[str, Any]:
    results = [
        {
            "ruleId": kind,
            "level": level,
            "message": {"text": _add_advice(text, finding)},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}}}],
        }
        for one in checked
        for uri in [one.path.as_uri() if one.path.is_absolute() else quote(one.path.as_posix())]
        for level, kind, text, finding in one.list_problems()
    ]
    kinds = sorted({str(result["ruleId"]) for result in results})
    rules = [{"id": kind, "shortDescription": {"text": _DESCRIPTIONS[kind]}} for kind in kinds]
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
    errors = [_add_advice(text, finding) for level, _, text, finding in problems if level == "error"]
    undecided = [text for level, kind, text, _ in problems if level == "warning" and kind in {"undecided", "profile"}]
    for tag, texts in (("failure", errors), ("skipped", [] if errors else undecided)):
        if texts:
            ET.SubElement(case, tag, message="; ".join(texts))


@click.command(epilog=_EPILOG)
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--explain", is_flag=True, help="Show where each dimension of each output comes from.")
@click.option("--write", type=NewFile(), help="Write a copy of the model, with the inferred shapes, to this file.")
@click.option(
    "--profile",
    "profiles",
    type=InputShapes(),
    multiple=True,
    help="Compute shapes of an input, for example images=1x3x512x512,4x3x512x512. Repeat the option for more inputs.",
)
@click.option("--no-probes", is_flag=True, help="Try no sizes of the inputs; use only the rules.")
@click.option(
    "--fail-on",
    type=_FAIL_ON,
    default="rejected,contradiction,frozen",
    show_default=True,
    help="Exit with 3 for these verdicts, with commas between them; also: restricted, disagrees, leaves.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="The output.")
@JSON_OPTION
@partial(connection_options, server_option=OPTIONAL_SERVER_OPTION)
def check(
    connection: Connection,
    *,
    models: Sequence[Path],
    as_json: bool,
    form: str,
    profiles: Sequence[tuple[str, tuple[tuple[int, ...], ...]]],
    **options: Any,
) -> None:
    """Check the Reshape nodes of models, and show what the models require of their inputs.

    A model is an ONNX file, or an OpenVINO IR that consists of model.xml and model.bin. In a folder, every model is
    checked. The command computes the shapes of a model for some sizes of its inputs. It does not run the model, and
    does not read its weights. ONNX nodes follow the rules of ONNX, and IR layers follow those of Reshape-1. Without
    --server, no server is needed.
    """
    form = "json" if as_json else form
    shapes = _combine_profiles(profiles)
    if "leaves" in options["fail_on"] and options["no_probes"]:
        raise click.UsageError("--fail-on leaves needs the probes: remove --no-probes")
    is_list = len(models) > 1 or models[0].is_dir()
    if options["write"] is not None and is_list:
        raise click.UsageError("--write accepts only one model, not a folder or several models")
    paths = [path for model in models for path in _list_models(model)]
    if not connection.server:
        checked = [_check(infer_locally, path, shapes, **options) for path in paths]
    else:
        with connection.open() as client:
            checked = [_check(client.infer_shapes, path, shapes, **options) for path in paths]
    for one in checked:
        if one.error and form != "json":
            click.echo(f"Error: {one.path}: {one.error}", err=True)
    text = write(checked, form, explain=options["explain"], is_list=is_list)
    if text:
        click.echo(text)
    code = find_worst(checked)
    if code:
        raise click.exceptions.Exit(code)


class _ProfileFault(click.ClickException):
    """The error of a profile whose shapes do not fit the model."""

    exit_code = 2  # the exit code of wrong usage


def _list_models(path: Path) -> Iterator[Path]:
    """Yields the path itself if it is a file, and otherwise the models in this folder."""
    if not path.is_dir():
        yield path
        return
    found = [file for file in sorted(path.rglob("*")) if file.is_file() and _is_model(file)]
    if not found:
        raise click.UsageError(f"{path} has no file *.onnx and no OpenVINO IR")
    yield from found


def _is_model(file: Path) -> bool:
    if file.suffix != ".xml":
        return file.suffix == ".onnx"
    with file.open("rb") as opened:
        return b"<net" in opened.read(_IR_BYTES)


def _combine_profiles(options: Sequence[tuple[str, tuple[tuple[int, ...], ...]]]) -> list[dict[str, tuple[int, ...]]]:
    """Returns the shape of each input by its name, for each profile.

    An input with a single shape has this shape in every profile.
    """
    by_input: dict[str, tuple[tuple[int, ...], ...]] = {}
    for name, shapes in options:
        by_input[name] = (*by_input.get(name, ()), *shapes)
    count = max(map(len, by_input.values()), default=0)
    for name, shapes in by_input.items():
        if len(shapes) not in {1, count}:
            message = (
                f"--profile has {len(shapes)} shapes for {name} and {count} for another input: give each input the "
                "same number of shapes, or one shape"
            )
            raise _ProfileFault(message)
    return [{name: shapes[place % len(shapes)] for name, shapes in by_input.items()} for place in range(count)]


def _check(  # the arguments after `profiles` are the options of the command
    ask: "Ask",
    model: Path,
    profiles: Sequence[Mapping[str, Sequence[int]]],
    *,
    write: Path | None,
    fail_on: frozenset[str],
    no_probes: bool,
    **_: object,
) -> Checked:
    """Checks one file. If `write` is set, the function also writes the model with its inferred shapes to this path."""
    try:  # the optional onnx package is imported only here, because the help of the command does not need it
        from tensor_reshape.onnx import (  # noqa: PLC0415
            ModelError,
            ProfileError,
            annotate_model,
            check_model,
            check_profile,
        )
        from tensor_reshape.onnx.probes import SECONDS  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise reject_missing_extra(error, name="check", extra="onnx") from None
    if write is not None and write.exists() and write.samefile(model):
        raise click.UsageError(f"--write {write} is the model itself: name another file")
    try:
        tested = [check_profile(model, shapes) for shapes in profiles]
        seconds = 0 if no_probes else SECONDS
        if write is None:
            report = check_model(model, ask=ask, probe_seconds=seconds)
        else:
            report, annotated = annotate_model(model, ask=ask, probe_seconds=seconds)
    except ProfileError as error:
        raise _ProfileFault(f"--profile: {error}") from None
    except ModelError as error:
        return Checked(path=model, error=str(error))
    except ConnectionError:  # this OSError is about the server, not about the file
        raise
    except OSError as error:
        return Checked(path=model, error=f"{error.filename}: {error.strerror}")
    if write is not None:
        from tensor_reshape.cli.destinations import write_file  # noqa: PLC0415 - it imports numpy

        write_file(write, annotated.SerializeToString())
    return Checked(path=model, report=report, profiles=tested, fail_on=fail_on)
