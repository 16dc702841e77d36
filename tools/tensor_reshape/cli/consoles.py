"""Decides whether output is plain text, or is drawn with colours, tables and progress bars. Draws the progress bars.

- Output to a pipe, a file or a dumb terminal is plain text, which other programs read. Plain text is the same in every
  release, and writing it does not import rich. If FORCE_COLOR is set, output to a pipe or a file is drawn as on a
  terminal.
- If NO_COLOR is set, only the colours are removed. The library rich handles NO_COLOR and the width of the terminal.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int, int], None]
"""A function that takes the number of bytes that have arrived, and the total."""

LEAST_BYTES = 16 * 1024 * 1024
"""The smallest transfer with a bar. Smaller transfers end before a user could read the bar."""


def find_console(stream: TextIO) -> "Console | None":
    """Returns the console for an output stream. The result is None if the output to this stream is plain text."""
    # This setting is an environment variable (FORCE_COLOR) and not an option. If another program starts this command,
    # for example in CI, it can set a variable but often not an option.
    if not (stream.isatty() or os.environ.get("FORCE_COLOR")):  # noqa: TID251 - as above
        return None
    from rich.console import Console  # noqa: PLC0415 - plain output does not need it

    console = Console(file=stream, highlight=False)
    return None if console.is_dumb_terminal or not console.is_terminal else console


@contextmanager
def draw_progress(size: int, *, wanted: bool) -> Iterator[Advance | None]:
    """Draws a progress bar on standard error during the block.

    The block gets a function that updates the bar, or None if there is no bar.
    """
    console = find_console(sys.stderr) if wanted and size >= LEAST_BYTES else None
    # A log file gets no progress bar, even if FORCE_COLOR is set.
    if console is None or not console.is_terminal or not sys.stderr.isatty():
        yield None
        return
    from rich import progress  # noqa: PLC0415 - plain output does not need it

    columns = (
        progress.BarColumn(bar_width=None),
        progress.DownloadColumn(binary_units=True),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=size)
        yield lambda arrived, total: bar.update(task, completed=arrived, total=total)
