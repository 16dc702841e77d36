"""How far something long is, a transfer or a run of questions: a bar, on a terminal alone."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tensor_reshape.cli.consoles import find_console

Advance = Callable[[int, int], None]
"""Told of the bytes that have arrived, and of how many there will be."""

LEAST_BYTES = 16 * 1024 * 1024
"""What is smaller is there before a bar could be read."""


@contextmanager
def draw_progress(size: int, *, wanted: bool) -> Iterator[Advance | None]:
    """Draws a bar on standard error while the block runs; yields what moves it, None where there is none.

    Args:
        size: of what is to arrive, in bytes.
        wanted: False: there is none in any case.
    """
    console = find_console(sys.stderr) if wanted and size >= LEAST_BYTES else None
    if console is None or not console.is_terminal or not sys.stderr.isatty():  # FORCE_COLOR makes no terminal of a log
        yield None
        return
    from rich import progress  # noqa: PLC0415 - plain output does without it

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
    """Draws a bar on standard error while the block runs; yields what moves it by one question, for any thread.

    Args:
        size: how many questions there are.
    """
    console = find_console(sys.stderr)
    if console is None or not sys.stderr.isatty():  # as above
        yield bool
        return
    from rich import progress  # noqa: PLC0415 - as above

    columns = (progress.BarColumn(bar_width=None), progress.MofNCompleteColumn(), progress.TimeElapsedColumn())
    with progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=size)
        yield lambda: bar.advance(task)
