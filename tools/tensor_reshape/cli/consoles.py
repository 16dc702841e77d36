"""Where output is drawn, with colour, tables and progress, and where it is plain text.

Laws:

- A pipe, a file and a terminal that says that it is dumb get plain text, which other programs read: it is the same in
  every release, and costs no import of rich. FORCE_COLOR has the same drawn there as on a terminal.
- NO_COLOR leaves the drawing and takes its colours; rich sees to that, and to the terminal's width.
"""

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def find_console(stream: TextIO) -> "Console | None":
    """Returns what draws on a stream; None where its output is plain."""
    # Programs that have no terminal say so to all that they start, as CI services do: no option could.
    if not (stream.isatty() or os.environ.get("FORCE_COLOR")):  # noqa: TID251 - as above
        return None
    from rich.console import Console  # noqa: PLC0415 - plain output does without it

    console = Console(file=stream, highlight=False)
    return None if console.is_dumb_terminal or not console.is_terminal else console
