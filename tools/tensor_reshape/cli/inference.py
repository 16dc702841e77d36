"""The command that infers shapes, for one query from its options or for many queries from a file."""

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from tensor_reshape.cli.consoles import find_console
from tensor_reshape.cli.options import JSON_OPTION, Connection, connection_options
from tensor_reshape.cli.parameter_types import OPERATION_NAME, PartialDims, PartialShape
from tensor_reshape.client import InferredShape, ReshapeError, ShapeQuery, infer_locally, infer_shape_locally
from tensor_reshape.rules.dims import format_dim
from tensor_reshape.rules.errors import escape_unprintable
from tensor_reshape.rules.operations import OperationName

if TYPE_CHECKING:
    from tensor_reshape.client import Client

_PARTIAL = PartialDims()
_REJECTED = 3  # the exit code if a query or a line of a batch is rejected
_EPILOG = """
A dimension is a number, a range such as 2..8 or 2.., ? (any value), a name such as N, a name with a range such as
N:1..8, or a product such as 4*C and N/2. An expression of an exporter, for example seq + past or floor(height/8),
counts as one name. Any other name must be in quotes.

--json prints the message InferShapeResponse in protobuf's JSON mapping, with 64-bit numbers as numbers: {"shape":
{"dims": [...], "partial": [...]}}. Without a shape, the rank is unknown. A dimension of -1 is not one known number, and
its entry in "partial" has its range or name. "conditions" follows if the reshape demands something of its inputs, and
"conditionsComplete" is false if these are not all. "origins" and "groups" follow with --explain.

A line of --batch is a BatchInferShapeItem in the same mapping: {"question": {"operation": "OPERATION_RESHAPE",
"specialZero": false, "data": {"shape": {"dims": [2, 3]}}, "shape": {"items": [-1]}}}. It may have an "id", and
"dataFrom", the number of an earlier line, from 0, whose output is the input. If "data" is a Tensor, with "dataType",
"dims" and "data", the command also reshapes it. Each line has one line of output, with the "id" of the line, if any: an
"answer", an "output", which is a Tensor, or a "rejection". The exit code is 3 if any line is rejected.
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--data",
    type=_PARTIAL,
    help="The input shape, for example 2,3,4 or N,4,?; empty for a scalar; ... if the rank is unknown.",
)
@click.option("--shape", type=_PARTIAL, help="The requested shape, for example 0,-1; ... if its length is unknown.")
@click.option(
    "--operation",
    type=OPERATION_NAME,
    help="The operation: static_reshape, dynamic_reshape, reshape or onnx_reshape. Default: static_reshape.",
)
@click.option(
    "--special-zero/--no-special-zero",
    default=None,
    help="Whether a 0 in the requested shape copies the input dimension at its index, or is a dimension of size 0.",
)
@click.option("--expect", type=_PARTIAL, help="The expected output shape, which may be partial.")
@click.option(
    "--explain", is_flag=True, help="Show where each dimension comes from. With --json, errors have more details."
)
@click.option(
    "--batch",
    type=click.File("rb"),
    help="A file with one query as JSON a line, instead of the options; - for standard input.",
)
@click.option("--local", is_flag=True, help="Infer the shapes in this process, without a server.")
@JSON_OPTION
@connection_options
def infer(connection: Connection, *, local: bool, **options: Any) -> None:
    """Infer the output shape, without data."""
    opened: AbstractContextManager[Client | None] = nullcontext() if local else connection.open()
    with opened as client:
        _answer(client, **options)


def _answer(client: "Client | None", *, batch: BinaryIO | None, as_json: bool, **options: object) -> None:
    if batch is not None:
        # The value of an option that the user has not set is None, or False if the option is a flag.
        given = [name for name, value in options.items() if value is not None and (name, value) != ("explain", False)]
        if given:
            raise click.UsageError(f"--batch reads its queries from the file: remove --{given[0].replace('_', '-')}")
        _print_batch(batch, client)
        return
    query = _build_query(**options)  # type: ignore[arg-type] # click has converted each option
    try:
        answer = _infer(query, client)
    except ReshapeError as error:
        raise _explain(error, query) from None
    click.echo(
        json.dumps(answer.to_json()) if as_json else "\n".join(map(escape_unprintable, _format_answer(answer, query)))
    )


def _build_query(
    *,
    data: PartialShape | None,
    shape: PartialShape | None,
    special_zero: bool | None,
    expect: PartialShape | None,
    operation: OperationName | None,
    explain: bool,
) -> ShapeQuery:
    if data is None or shape is None or special_zero is None:
        missing = "--data" if data is None else "--shape" if shape is None else "--special-zero or --no-special-zero"
        raise click.UsageError(f"{missing} is required without --batch")
    return ShapeQuery(
        data_shape=data.dims,
        shape=shape.dims,
        special_zero=special_zero,
        expected_shape=None if expect is None else expect.dims,
        operation=operation or "static_reshape",
        explain=explain,
    )


def _explain(error: ReshapeError, query: ShapeQuery) -> ReshapeError:
    """Returns the error of a rejected query. On a terminal, the error also contains the accepted shapes."""
    # the accepted shapes are added only for people, because a program can get them with --explain
    if find_console(sys.stderr) is None:
        return error
    (answer,) = infer_locally([replace(query, explain=True)])
    return answer if isinstance(answer, ReshapeError) and answer.reason == error.reason else error


def _infer(query: ShapeQuery, client: "Client | None") -> InferredShape:
    infer_shape = infer_shape_locally if client is None else client.infer_shape
    return infer_shape(
        query.data_shape,
        query.shape,
        special_zero=query.special_zero,
        operation=query.operation,
        expected_shape=query.expected_shape,
        explain=query.explain,
    )


def _print_batch(batch: BinaryIO, client: "Client | None") -> None:
    from tensor_reshape.cli.batches import answer_records  # noqa: PLC0415 - it imports protobuf, which plain output does not need

    rejected, console = False, find_console(sys.stderr)
    # Each record is printed at once, because another program may read the output at the same time.
    for line, record in enumerate(answer_records(batch, client), 1):
        click.echo(json.dumps(record))
        error = record.get("rejection")
        rejected = rejected or error is not None
        if error is not None and console is not None:
            text = escape_unprintable(f"{batch.name}:{line}: {error['message']} [{error['reason']}]")
            console.print(text, style="red", markup=False)
    if rejected:
        raise click.exceptions.Exit(_REJECTED)


def _format_answer(answer: InferredShape, query: ShapeQuery) -> Iterator[str]:
    yield "..." if answer.dims is None else ",".join(map(format_dim, answer.dims))
    if query.explain:
        yield from (origin.text for origin in answer.origins)
        if answer.groups:
            sides = [[",".join(map(str, indices)) or "none" for indices in group] for group in answer.groups]
            yield f"groups: {'; '.join(map(' -> '.join, sides))}"
    yield from (f"requires: {condition}" for condition in answer.conditions)
