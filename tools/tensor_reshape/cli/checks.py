"""The command that checks the Reshape nodes of an ONNX model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensor_reshape.cli.lazy_commands import reject_missing_extra
from tensor_reshape.cli.options import JSON_OPTION, NEW_FILE, Connection, connection_options
from tensor_reshape.cli.outputs import write_file
from tensor_reshape.client import ReshapeError, infer_locally
from tensor_reshape.rules.errors import escape_unprintable

if TYPE_CHECKING:
    from tensor_reshape.onnx import Finding, ModelReport
    from tensor_reshape.onnx.checks import Ask

_REJECTED = 3  # this is the exit code if a node is rejected or contradicts the model
_REMARKS = {
    "closed": "; unknown to onnx",
    "narrowed": "; known only in part to onnx",
    "open": "; it stays unknown",
}
"""A remark after the line of a node, by its verdict."""

_EPILOG = """
Prints one line for each node: its name, the data shape, the target shape, and the output shape. The library onnx made
names such as unk__3_onnx; the model does not contain them. With --explain, lines for the dims follow, with the source
of each.

The exit code is 3 if a node is rejected, or if the model or onnx states another output shape.
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
@JSON_OPTION
@connection_options
def check(
    connection: Connection, *, model: Path, local: bool, explain: bool, write: Path | None, as_json: bool
) -> None:
    """Check the Reshape nodes of an ONNX model.

    The model is not run, and its weights are not read. The rules of Reshape-1 apply to every Reshape node, with
    special_zero unless the node sets allowzero.
    """
    if local:
        found = _check(infer_locally, model, write)
    else:
        with connection.open() as client:
            found = _check(client.infer_shapes, model, write)
    # Unprintable characters are escaped, because the names come from the model.
    lines = map(escape_unprintable, _format_report(found, explain=explain))
    click.echo(json.dumps(found.to_json()) if as_json else "\n".join(lines))
    if not found.is_good:
        raise click.exceptions.Exit(_REJECTED)


def _check(ask: "Ask", model: Path, write: Path | None) -> "ModelReport":
    try:  # the optional onnx package is imported only here, because the help of the command does not need it
        from tensor_reshape.onnx import ModelError, annotate_model, check_model  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise reject_missing_extra(error, name="check", extra="onnx") from None
    if write is not None and write.exists() and write.samefile(model):
        message = f"--write {write} is the model itself: name another file"
        raise click.UsageError(message)
    try:
        if write is None:
            return check_model(model, ask=ask)
        found, annotated = annotate_model(model, ask=ask)
    except ModelError as error:
        message = f"{model}: {error}"
        raise click.ClickException(message) from None
    write_file(write, annotated.SerializeToString())
    return found


def _format_report(found: "ModelReport", *, explain: bool) -> Iterator[str]:
    for finding in found.findings:
        yield f"{finding}{_REMARKS.get(finding.verdict.value, '')}"
        yield from (f"  {text}" for text in _list_details(finding, explain=explain))
    yield from found.notes
    counts = ", ".join(f"{count} {verdict}" for verdict, count in found.to_json()["counts"].items() if count)
    nodes = len(found.findings)
    yield f"{nodes} Reshape {'node' if nodes == 1 else 'nodes'}{': ' if counts else ''}{counts}"


def _list_details(finding: "Finding", *, explain: bool) -> Iterator[str]:
    yield from finding.disagreements
    yield from finding.copies
    if not isinstance(finding.answer, ReshapeError):
        yield from (origin.text for origin in finding.answer.origins if explain)
