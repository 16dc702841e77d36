"""The command that checks the Reshape nodes of a model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tensor_reshape.cli.lazy_commands import reject_missing_extra
from tensor_reshape.cli.options import JSON_OPTION, NEW_FILE, Connection, connection_options
from tensor_reshape.cli.outputs import write_file
from tensor_reshape.cli.parameter_types import Choices, InputShapes
from tensor_reshape.client import ReshapeError, infer_locally
from tensor_reshape.rules.errors import escape_unprintable

if TYPE_CHECKING:
    from tensor_reshape.onnx import Finding, ModelReport
    from tensor_reshape.onnx.checks import Ask
    from tensor_reshape.rules.json_format import Json

_REJECTED = 3  # this is the exit code if the check fails
_REMARKS = {
    "closed": "; unknown to onnx",
    "narrowed": "; known only in part to onnx",
    "open": "; it stays unknown",
}
"""A remark after the line of a node, by its verdict."""

_FAIL_ON = Choices(("frozen", "restricted"))

_EPILOG = """
Prints one line for each node: its name, the data shape, the target shape, and the output shape. The library onnx made
names such as unk__3_onnx; the model does not contain them. Then prints one line for each condition that the inputs of
the model must satisfy. With --explain, lines for the dims follow each node, with the source of each, and the conditions
include those that only exclude empty tensors.

The exit code is 3 if a node is rejected, if the model or onnx states another output shape, if no input with elements
satisfies the conditions of all nodes, if a node rejects a profile, or for a verdict of --fail-on.
"""


@click.command(epilog=_EPILOG)
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--local", is_flag=True, help="Infer the shapes in this process, without a server.")
@click.option("--explain", is_flag=True, help="Show where each dim of each output comes from.")
@click.option(
    "--write",
    type=NEW_FILE,
    help="Write a copy of the model, with the inferred shapes, to this file.",
)
@click.option(
    "--profile",
    "profiles",
    type=InputShapes(),
    multiple=True,
    help="Test shapes of a model input, for example images=1x3x512x512,4x3x512x512. Repeat the option for more inputs.",
)
@click.option(
    "--fail-on",
    type=_FAIL_ON,
    default=None,
    help="Exit with 3 for these verdicts about the inputs: frozen, restricted, or both with a comma between them.",
)
@JSON_OPTION
@connection_options
def check(
    connection: Connection,
    *,
    model: Path,
    local: bool,
    as_json: bool,
    profiles: Sequence[tuple[str, tuple[tuple[int, ...], ...]]],
    **options: Any,
) -> None:
    """Check the Reshape nodes of a model, and show what the model requires of its inputs.

    The model is an ONNX file, or an OpenVINO IR that consists of model.xml and model.bin. It is not run, and its
    weights are not read. ONNX nodes follow the rules of ONNX, and IR layers those of Reshape-1.
    """
    shapes = _combine_profiles(profiles)
    if local:
        found, tested = _check(infer_locally, model, options["write"], shapes)
    else:
        with connection.open() as client:
            found, tested = _check(client.infer_shapes, model, options["write"], shapes)
    if as_json:
        record = found.to_json()
        click.echo(json.dumps({**record, "profiles": [one.to_json() for one in tested]} if tested else record))
    else:
        lines = (*_format_report(found, explain=options["explain"]), *(line for one in tested for line in one.format()))
        # Unprintable characters are escaped, because the names come from the model.
        click.echo("\n".join(map(escape_unprintable, lines)))
    verdicts = {requirement.verdict.value for requirement in found.requirements}
    is_restricted = bool(verdicts & (options["fail_on"] or frozenset()))
    if not found.is_good or is_restricted or not all(one.report.is_good for one in tested):
        raise click.exceptions.Exit(_REJECTED)


class _ProfileFault(click.ClickException):
    """The shapes of a profile do not fit the model."""

    exit_code = 2  # this is the exit code for wrong usage


class _Tested(NamedTuple):
    """A profile and the report for its shapes."""

    shapes: Mapping[str, Sequence[int]]
    report: "ModelReport"

    @property
    def result(self) -> str:
        """Whether the model accepts the shapes, as far as the check knows."""
        if not self.report.is_good:
            return "rejected"
        return "undecided" if self.report.undecided else "accepted"

    def format(self) -> Iterator[str]:
        """Yields the line of the profile, and a line for each node that rejects it."""
        shapes = " ".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in self.shapes.items())
        nodes = ", ".join(finding.node.label for finding in self.report.undecided)
        yield f"profile {shapes}: {self.result}{f', because of unknown dims: {nodes}' * (self.result == 'undecided')}"
        bad = [text for one in self.report.findings if not one.is_good for text in (str(one), *one.disagreements)]
        yield from (f"  {text}" for text in (*bad, *_list_contradiction(self.report), *self.report.notes))

    def to_json(self) -> "Json":
        """Returns the profile and its result in the form of JSON."""
        contradicting = {node for _, node in self.report.contradiction}
        nodes = [*enumerate(zip(self.report.findings, self.report.to_json()["nodes"], strict=True))]
        return {
            "inputs": {name: list(shape) for name, shape in self.shapes.items()},
            "result": self.result,
            "rejecting": [
                {"node": place, **{key: record[key] for key in ("error", "disagreements") if key in record}}
                for place, (finding, record) in nodes
                if not finding.is_good or place in contradicting
            ],
            "undecided": [place for place, (finding, _) in nodes if finding.is_undecided],
            "notes": list(self.report.notes),
        }


def _combine_profiles(
    options: Sequence[tuple[str, tuple[tuple[int, ...], ...]]],
) -> list[dict[str, tuple[int, ...]]]:
    """Returns the input shapes of each profile. An input with a single shape has this shape in every profile."""
    by_input: dict[str, tuple[tuple[int, ...], ...]] = {}
    for name, shapes in options:
        by_input[name] = (*by_input.get(name, ()), *shapes)
    count = max(map(len, by_input.values()), default=0)
    for name, shapes in by_input.items():
        if len(shapes) not in {1, count}:
            message = (
                f"--profile has {len(shapes)} shapes for {name} and {count} for another input: use as many, or one"
            )
            raise _ProfileFault(message)
    return [{name: shapes[place % len(shapes)] for name, shapes in by_input.items()} for place in range(count)]


def _check(
    ask: "Ask", model: Path, write: Path | None, profiles: Sequence[Mapping[str, Sequence[int]]]
) -> "tuple[ModelReport, list[_Tested]]":
    """Returns the report of a model, and the reports of the profiles. Writes the model if `write` is set."""
    try:  # the optional onnx package is imported only here, because the help of the command does not need it
        from tensor_reshape.onnx import (  # noqa: PLC0415
            ModelError,
            ProfileError,
            annotate_model,
            check_model,
            check_profile,
        )
    except ModuleNotFoundError as error:
        raise reject_missing_extra(error, name="check", extra="onnx") from None
    if write is not None and write.exists() and write.samefile(model):
        message = f"--write {write} is the model itself: name another file"
        raise click.UsageError(message)
    try:
        tested = [_Tested(shapes, check_profile(model, shapes, ask=ask)) for shapes in profiles]
        if write is None:
            return check_model(model, ask=ask), tested
        found, annotated = annotate_model(model, ask=ask)
    except ProfileError as error:
        message = f"--profile: {error}"
        raise _ProfileFault(message) from None
    except ModelError as error:
        message = f"{model}: {error}"
        raise click.ClickException(message) from None
    write_file(write, annotated.SerializeToString())
    return found, tested


def _format_report(found: "ModelReport", *, explain: bool) -> Iterator[str]:
    for finding in found.findings:
        yield f"{finding}{_REMARKS.get(finding.verdict.value, '')}"
        yield from (f"  {text}" for text in _list_details(finding, explain=explain))
    yield from found.notes
    yield from (
        f"This model requires: {requirement}"
        for requirement in found.requirements
        if explain or requirement.verdict.value != "ok"
    )
    if found.contradiction:
        yield f"This model accepts no input with elements: {', '.join(_list_contradiction(found))}"
    counts = ", ".join(f"{count} {verdict}" for verdict, count in found.to_json()["counts"].items() if count)
    nodes, verdict = len(found.findings), found.verdict.value
    text = f"{nodes} Reshape {'node' if nodes == 1 else 'nodes'}{': ' if counts else ''}{counts}"
    yield text if verdict in {"ok", "rejected"} else f"{text}; verdict: {verdict}"


def _list_contradiction(report: "ModelReport") -> list[str]:
    """Returns each condition of a contradiction with the name of its node."""
    return [f"{condition} (node {report.findings[node].node.label})" for condition, node in report.contradiction]


def _list_details(finding: "Finding", *, explain: bool) -> Iterator[str]:
    yield from finding.disagreements
    yield from finding.copies
    if not isinstance(finding.answer, ReshapeError):
        yield from (origin.text for origin in finding.answer.origins if explain)
