"""Decides whether the output of a command is plain text, or is drawn with colours, tables and progress bars.

- Output to a pipe, a file or a dumb terminal is plain text, so that other programs can read it. Plain text is the same
  in every release, and writing it does not import the library rich. If FORCE_COLOR is set, output to a pipe or a file
  is drawn as on a terminal.
- If NO_COLOR is set, only the colours are removed. The library rich handles NO_COLOR and the width of the terminal.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TextIO

from tensor_reshape.client.progress import Progress, draw_bar

if TYPE_CHECKING:
    from rich.console import Console

LEAST_BYTES = 16 * 1024 * 1024
"""The smallest transfer with a bar. Smaller transfers end before a user could read the bar."""


def find_console(stream: TextIO) -> "Console | None":
    """Returns the console that draws on an output stream, or None if the output to this stream is plain text."""
    # The setting FORCE_COLOR is an environment variable and not an option, because a program that starts this command,
    # for example in CI, can often set variables but not options.
    if not (stream.isatty() or os.environ.get("FORCE_COLOR")):  # noqa: TID251 - as above
        return None
    from rich.console import Console  # noqa: PLC0415 - plain output does not need it

    console = Console(file=stream, highlight=False)
    return None if console.is_dumb_terminal or not console.is_terminal else console


def draw_progress(size: int, *, wanted: bool) -> AbstractContextManager[Progress | None]:
    """Draws a progress bar on standard error during the block, as `draw_bar` does. A small transfer has no bar."""
    return draw_bar(size) if wanted and size >= LEAST_BYTES else nullcontext()
