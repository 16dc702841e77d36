"""The command that checks the Reshape nodes of an ONNX model."""

import json
from collections.abc import Iterator
from pathlib import Path

import click

from tensor_reshape.cli.outputs import write_file
from tensor_reshape.cli.parameters import JSON_OPTION, Connection, connection_options
from tensor_reshape.client import ReshapeError, infer_locally
from tensor_reshape.onnx import Finding, ModelReport, Verdict, annotate_model, check_model
from tensor_reshape.onnx.checks import Ask
from tensor_reshape.rules.errors import escape_unprintable

_REFUSED = 3  # as the exit code of a single question
_REMARKS = {
    Verdict.CLOSED: "; onnx leaves it open",
    Verdict.NARROWED: "; onnx leaves more of it open",
    Verdict.OPEN: "; it stays open",
}
_EPILOG = """
A line for each node: its name, the shape of its data, its target, and what its output is. A name that onnx has made, as
unk__3_onnx, is none of the model's. With --explain, the dims follow, and where each comes from.

Exit code 3 if a node is refused, or if the model or onnx has another shape for its output.
"""


@click.command(epilog=_EPILOG)
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--local", is_flag=True, help="Answer in this process, without a server.")
@click.option("--explain", is_flag=True, help="Tell where each dim of each output comes from.")
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the model with the shapes that it leaves open to this file.",
)
@JSON_OPTION
@connection_options
def check(
    connection: Connection, *, model: Path, local: bool, explain: bool, write: Path | None, as_json: bool
) -> None:
    """Check the Reshape nodes of an ONNX model.

    The model is not run, and its weights are not read. Every Reshape node is asked for as Reshape-1, where a 0 copies
    unless the node says allowzero.
    """
    if local:
        found = _check(infer_locally, model, write)
    else:
        with connection.open() as client:
            found = _check(client.infer_shapes, model, write)
    lines = map(escape_unprintable, _format_report(found, explain=explain))  # names are the model's
    click.echo(json.dumps(found.to_json()) if as_json else "\n".join(lines))
    if not found.is_good:
        raise click.exceptions.Exit(_REFUSED)


def _check(ask: Ask, model: Path, write: Path | None) -> ModelReport:
    if write is None:
        return check_model(model, ask=ask)
    if write.exists() and write.samefile(model):
        message = "--write must name another file than the model"
        raise click.UsageError(message)
    found, annotated = annotate_model(model, ask=ask)
    write_file(write, annotated.SerializeToString())
    return found


def _format_report(found: ModelReport, *, explain: bool) -> Iterator[str]:
    for finding in found.findings:
        yield f"{finding}{_REMARKS.get(finding.verdict, '')}"
        yield from (f"  {text}" for text in _list_details(finding, explain=explain))
    yield from found.notes
    counts = ", ".join(f"{found.count(verdict)} {verdict.value}" for verdict in Verdict if found.count(verdict))
    nodes = len(found.findings)
    yield f"{nodes} Reshape {'node' if nodes == 1 else 'nodes'}{': ' if counts else ''}{counts}"


def _list_details(finding: Finding, *, explain: bool) -> Iterator[str]:
    yield from finding.disagreements
    yield from finding.copies
    if not isinstance(finding.answer, ReshapeError):
        yield from (origin.text for origin in finding.answer.origins if explain)
