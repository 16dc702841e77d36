"""Progress bars for transfers and runs of queries, on terminals only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tensor_reshape.cli.consoles import find_console

Advance = Callable[[int, int], None]
"""Receives the number of bytes that have arrived, and the total number."""

LEAST_BYTES = 16 * 1024 * 1024
"""Smaller transfers end before a bar could be read."""


@contextmanager
def draw_progress(size: int, *, wanted: bool) -> Iterator[Advance | None]:
    """Draws a bar on standard error during the block, and yields a function that updates it; None without a bar.

    Args:
        size: the number of bytes of the transfer.
        wanted: False: no bar.
    """
    console = find_console(sys.stderr) if wanted and size >= LEAST_BYTES else None
    # FORCE_COLOR does not make a log a terminal
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


@contextmanager
def count_replies(size: int) -> Iterator[Callable[[], object]]:
    """Draws a bar on standard error during the block, and yields a function that counts one reply.

    Any thread may call it.

    Args:
        size: the number of queries.
    """
    console = find_console(sys.stderr)
    if console is None or not sys.stderr.isatty():  # FORCE_COLOR does not make a log a terminal
        yield bool
        return
    from rich import progress  # noqa: PLC0415 - plain output does not need it

    columns = (progress.BarColumn(bar_width=None), progress.MofNCompleteColumn(), progress.TimeElapsedColumn())
    with progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=size)
        yield lambda: bar.advance(task)
