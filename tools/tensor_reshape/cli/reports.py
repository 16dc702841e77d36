"""Reports the error of a command as one line or as JSON. On a terminal, carets mark the item that is wrong.

- This module imports neither grpc nor the SDK. It imports protobuf only for errors as JSON.
- Error messages may contain control characters from a file or a server. Such characters are escaped and never sent to
  the terminal.
"""

import io
import json
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from tensor_reshape.cli.consoles import find_console
from tensor_reshape.rules.errors import (
    InvalidRequestError,
    LimitError,
    PermissionDeniedError,
    Reason,
    ReshapeError,
    TensorReshapeError,
    UnauthenticatedError,
    escape_unprintable,
)
from tensor_reshape.rules.notation import split_items

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_EXIT_CODES: dict[type[Exception], int] = {
    InvalidRequestError: 3,
    LimitError: 4,
    ConnectionError: 5,  # this entry applies to UnavailableError, which is a subclass of ConnectionError
    TimeoutError: 5,  # this entry applies to CallTimeoutError, which is a subclass of TimeoutError
    UnauthenticatedError: 6,
    PermissionDeniedError: 6,
}
# A mapping from the fields of errors to command-line options, for all options that are not named like their field.
_OPTIONS = {
    "data.dims": "--data",
    "data.strides": "--strides",
    "data.data": "INPUT",
    "expected_shape.dims": "--expect",
    "expected_shape": "--expect",
}
# newer releases of click raise an error of this class if all arguments are missing, and its text is the help
_BARE = "NoArgsIsHelpError"
_INDENT = "  "
# A shape in an error gets at least this width, because the dots before and after an item need six characters.
_LEAST_WIDTH = 7


def choose_exit_code(error: Exception) -> int:
    """Returns the exit code of the command for an error."""
    if isinstance(error, click.ClickException):
        return error.exit_code
    # Any other error comes from the operating system, for example if a pipe is closed.
    if not isinstance(error, TensorReshapeError):
        return 1
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)


def report(error: Exception, texts: Mapping[str, str]) -> None:
    """Prints an error to standard error, or as JSON if the user has set --json."""
    console = find_console(sys.stderr)
    if "--json" in sys.argv:  # sys.argv is searched, because click may have failed to parse the options
        _print_json(error)
    elif console is not None and type(error).__name__ != _BARE:
        _draw(console, error, texts)
    elif isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(shown)
        click.echo(_escape_lines(shown.getvalue()), err=True, nl=False)
    else:
        click.echo(f"Error: {escape_unprintable(_describe_for_people(error, texts))}", err=True)


def underline(text: str, index: int | None, width: int) -> tuple[str, str]:
    """Returns the text of a shape, and a line with carets for one of its items.

    Args:
        text: the shape.
        index: the index of the item. If the index is None, the whole shape is underlined.
        width: the available width in characters. If the shape is longer, dots replace the parts before and after the
            item.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - plain output does not need it

    text = "".join(character if character.isprintable() else "?" for character in text)
    items = split_items(text) or ()
    start, end = (0, len(text)) if index is None or index >= len(items) else items[index][1:]
    before, item, after = text[:start], text[start:end], text[end:]
    if len(text) > width:
        before, after = "..." if before else "", "..." if after else ""
        item = item[: width - len(before) - len(after)]
    return before + item + after, " " * cell_len(before) + "^" * max(cell_len(item), 1)


def _describe(error: Exception) -> str:
    """Returns the text of an error. If an option could prevent the error, the text names this option."""
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and not isinstance(error, TensorReshapeError):
        # The text of the exception is not used, because it begins with a number such as "[Errno 13]".
        return ": ".join(str(part) for part in (error.filename, error.strerror) if part) or "the system failed"
    # If a call has no response, its gRPC status is left out, because the status would only repeat that there is no
    # response.
    is_described = isinstance(error, ConnectionError | TimeoutError | ReshapeError)
    text = str(getattr(error, "message", error)) if is_described else str(error)
    return f"{text}{_advise(error)}"


def _advise(error: Exception) -> str:
    """Returns the end of an error's text, which names an option that could help, or an empty text."""
    if isinstance(error, UnauthenticatedError):
        return ". Send a token with --token-file, or a certificate with --tls-certificate and --tls-key"
    if isinstance(error, ReshapeError):
        if error.reason == Reason.MESSAGE_TOO_LARGE:
            return ". Raise --max-message-bytes of the server"
        if error.reason == Reason.STALLED:
            return ". Use a faster network, or raise this option of the server"
    return ""


def _describe_for_people(error: Exception, texts: Mapping[str, str]) -> str:
    """Returns the text of an error with its reason. Names of options replace the fields of the API."""
    text = _describe(error)
    if not isinstance(error, ReshapeError):
        return text
    for field, option in _OPTIONS.items():
        # If a command has no option --data, its data comes from a file.
        is_of_file = option == "--data" and "data" not in texts
        text = text.replace(field, "the shape of INPUT" if is_of_file else option)
    return f"{text} [{error.reason}]"


def _escape_lines(text: str) -> str:
    return "\n".join(map(escape_unprintable, text.expandtabs().split("\n")))  # click indents lists with tabs


def _print_json(error: Exception) -> None:
    """Prints an error as JSON to standard output.

    An error about wrong usage goes to standard error, because it is for the person who has written the command.
    """
    text = _format_json(error)
    if choose_exit_code(error) != click.UsageError.exit_code:
        with suppress(OSError):  # the program that reads standard output may have ended
            click.echo(text)
            return
    click.echo(text, err=True)


def _format_json(error: Exception) -> str:
    if not isinstance(error, ReshapeError):
        return json.dumps({"error": _describe(error)})
    from tensor_reshape.wire.batches import describe_rejection  # noqa: PLC0415 - it imports protobuf

    return json.dumps({"rejection": {**describe_rejection(error), "message": _describe(error)}})


def _draw(console: "Console", error: Exception, texts: Mapping[str, str]) -> None:
    from rich.text import Text  # noqa: PLC0415 - plain output does not need it

    if isinstance(error, click.UsageError) and error.ctx is not None:
        console.print(Text(error.ctx.get_usage(), "dim"))
    text = _escape_lines(_describe_for_people(error, texts))
    console.print(Text.assemble(("Error: ", "bold red"), text))
    rejection = error.__cause__ if isinstance(error, click.BadParameter) else error
    if isinstance(rejection, ReshapeError):
        name = error.param.name if isinstance(error, click.BadParameter) and error.param is not None else None
        for line in _draw_wrong_item(rejection, name, texts, console.width):
            console.print(line, no_wrap=True, crop=False)
        accepted = rejection.metadata.get("accepted", "")
        if accepted and accepted not in text:
            console.print(Text.assemble(("accepted: ", "bold green"), escape_unprintable(accepted)))


def _draw_wrong_item(error: ReshapeError, name: str | None, texts: Mapping[str, str], width: int) -> "list[Text]":
    """Returns the text that the user has entered, and a line with carets below the item that is wrong.

    If the error is not about an entered text, the result is empty.
    """
    from rich.text import Text  # noqa: PLC0415 - plain output does not need it

    field, index = _read_field(error.field)
    name = name or _OPTIONS.get(field, field).removeprefix("--")
    if name not in texts:
        return []
    flag = f"--{name} "
    shape, carets = underline(texts[name], index, max(width - len(_INDENT) - len(flag), _LEAST_WIDTH))
    below = " " * len(flag)
    return [Text.assemble(_INDENT, (flag, "dim"), shape), Text.assemble(_INDENT, below, (carets, "bold red"))]


def _read_field(field: str) -> tuple[str, int | None]:
    """Splits the path of an item, such as `shape[1]`, into the name of the field and the index of the item."""
    found = re.fullmatch(r"(.*)\[(\d+)\]", field)
    return (found[1], int(found[2])) if found else (field, None)
