"""What is said of a command that failed: one line, JSON, or on a terminal the item to blame underlined.

Laws:

- Nothing of grpc or of the SDK is imported to tell of a mistake.
- What a file or a server has put into a message is shown, and never obeyed, by a terminal.
"""

import io
import json
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tensor_reshape.cli.consoles import find_console
from tensor_reshape.rules.errors import (
    InvalidRequestError,
    LimitError,
    PermissionDeniedError,
    ReshapeError,
    TensorReshapeError,
    UnauthenticatedError,
    escape_unprintable,
)
from tensor_reshape.rules.typed_shapes import TypedItem, split_items

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_EXIT_CODES: dict[type[Exception], int] = {
    InvalidRequestError: 3,
    LimitError: 4,
    ConnectionError: 5,  # which UnavailableError is
    TimeoutError: 5,  # which CallTimeoutError is
    UnauthenticatedError: 6,
    PermissionDeniedError: 6,
}
# The option whose text a field of a refusal was read from, where it is not the option of that name.
_OPTIONS = {"data.dims": "data", "expected_shape.dims": "expect", "data.strides": "strides"}
_BARE = "NoArgsIsHelpError"  # of newer releases of click, whose message is the help
_INDENT = "  "
_ELLIPSIS = "..."


def choose_exit_code(error: Exception) -> int:
    """Returns the exit code of a command that ended with this error."""
    if isinstance(error, click.ClickException):
        return error.exit_code
    if not isinstance(error, TensorReshapeError):  # the system's: a file, or a pipe that is closed
        return 1
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)


def report(error: Exception, typed: Mapping[str, str]) -> None:
    """Says on standard error what went wrong.

    Args:
        error: what ended the command.
        typed: the text of each option that is a shape, by the name of its parameter.
    """
    console = find_console(sys.stderr)
    if "--json" in sys.argv:  # not click's own option: the command line may be what could not be read
        click.echo(_format_json(error), err=True)
    elif console is not None and type(error).__name__ != _BARE:
        _draw(console, error, typed)
    elif isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(shown)
        click.echo(_escape_lines(shown.getvalue()), err=True, nl=False)
    else:
        click.echo(f"Error: {_describe(error)}", err=True)


def underline(text: str, index: int | None, width: int) -> tuple[str, str]:
    """Returns a shape as it was typed, and below it carets under one of its items; both are cut to a width.

    Args:
        text: the shape.
        index: of the item; None: the whole of it.
        width: in characters, above those of an item.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - plain output does without it

    text = "".join(character if character.isprintable() else "?" for character in text)
    items = split_items(text) or ()
    whole = TypedItem(text, 0, len(text))
    item = whole if index is None or index >= len(items) else items[index]
    room = len(text) if len(text) <= width else width - 2 * len(_ELLIPSIS)
    end = max(min(item.end, item.start + room), item.start + 1)  # of an item that is missing, its place
    first = max(0, end - room) if len(text) > width else 0
    last = first + room
    before, after = _ELLIPSIS if first else "", _ELLIPSIS if last < len(text) else ""
    carets = " " * (len(before) + cell_len(text[first : item.start])) + "^" * max(cell_len(text[item.start : end]), 1)
    return f"{before}{text[first:last]}{after}", carets


def _describe(error: Exception) -> str:
    text = f"{error} [{error.reason}]" if isinstance(error, ReshapeError) else str(error)
    if isinstance(error, ConnectionError) and "no server at" in text:
        text = f'{text}. Start one with "tensor-reshape serve", or name one with --server'
    return escape_unprintable(text)


def _escape_lines(text: str) -> str:
    return "\n".join(map(escape_unprintable, text.expandtabs().split("\n")))  # click indents lists by tabs


def _format_json(error: Exception) -> str:
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    record: dict[str, Any] = {"error": text}
    if isinstance(error, ReshapeError):
        record.update(reason=error.reason, field=error.field, metadata=error.metadata)
    return json.dumps(record, sort_keys=True)


def _draw(console: "Console", error: Exception, typed: Mapping[str, str]) -> None:
    from rich.text import Text  # noqa: PLC0415 - plain output does without it

    if isinstance(error, click.UsageError) and error.ctx is not None:
        console.print(Text(error.ctx.get_usage(), "dim"))
    text = _escape_lines(error.format_message()) if isinstance(error, click.ClickException) else _describe(error)
    console.print(Text.assemble(("Error: ", "bold red"), text))
    refusal = error.__cause__ if isinstance(error, click.BadParameter) else error
    if isinstance(refusal, ReshapeError):
        name = error.param.name if isinstance(error, click.BadParameter) and error.param is not None else None
        for line in _draw_blame(refusal, name, typed, console.width):
            console.print(line, no_wrap=True, crop=False)
        accepted = refusal.metadata.get("accepted", "")
        if accepted and accepted not in text:
            console.print(Text.assemble(("accepted: ", "bold green"), escape_unprintable(accepted)))


def _draw_blame(error: ReshapeError, name: str | None, typed: Mapping[str, str], width: int) -> "list[Text]":
    """Returns two lines: what was typed, and carets under the item; nothing where the error blames no such item."""
    from rich.text import Text  # noqa: PLC0415 - plain output does without it

    field, index = _read_field(error.field)
    name = name or _OPTIONS.get(field, field)
    if name not in typed:
        return []
    flag = f"--{name} "
    shape, carets = underline(typed[name], index, max(width - len(_INDENT) - len(flag), 2 * len(_ELLIPSIS) + 1))
    below = " " * len(flag)
    return [Text.assemble(_INDENT, (flag, "dim"), shape), Text.assemble(_INDENT, below, (carets, "bold red"))]


def _read_field(field: str) -> tuple[str, int | None]:
    """Returns what a field names, and the index of its item: `shape[1]` is item 1 of `shape`."""
    found = re.fullmatch(r"(.*)\[(\d+)\]", field)
    return (found[1], int(found[2])) if found else (field, None)
