"""Draws progress bars for transfers, only on terminals."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tensor_reshape.cli.consoles import find_console

Advance = Callable[[int, int], None]
"""A function that takes the number of bytes that have arrived, and the total."""

LEAST_BYTES = 16 * 1024 * 1024
"""The smallest transfer with a bar. Smaller transfers end before a user could read the bar."""


@contextmanager
def draw_progress(size: int, *, wanted: bool) -> Iterator[Advance | None]:
    """Draws a progress bar on standard error during the block.

    The block gets a function that updates the bar, or None if there is no bar.

    Args:
        size: the number of bytes of the transfer.
        wanted: whether to draw a progress bar.
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
