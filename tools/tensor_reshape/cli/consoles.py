"""Decides whether output is drawn with colours, tables and progress bars, or is plain text.

- A pipe, a file and a dumb terminal get plain text, which other programs read. It is the same in every release and does
  not import rich. FORCE_COLOR draws there as on a terminal.
- NO_COLOR removes only the colours. rich handles it, and the width of the terminal.
"""

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def find_console(stream: TextIO) -> "Console | None":
    """Returns the console for a stream; None if its output is plain text."""
    # Only an environment variable reaches programs that other programs start, for example in CI. An option would not.
    if not (stream.isatty() or os.environ.get("FORCE_COLOR")):  # noqa: TID251 - as above
        return None
    from rich.console import Console  # noqa: PLC0415 - plain output does not need it

    console = Console(file=stream, highlight=False)
    return None if console.is_dumb_terminal or not console.is_terminal else console
