"""Implements the option `progress` of a call. The package rich draws the progress bars on standard error.

Invariants:

- Without a terminal, nothing is written and rich is not imported, even if FORCE_COLOR is set.
- All running calls share one display, because two displays would overwrite each other on the terminal.
- If the terminal cannot be written, the call does not fail.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, TypeGuard

from tensor_reshape.client.arguments import show_value

if TYPE_CHECKING:
    import rich.console
    import rich.progress

Progress = Callable[[int, int], None]
"""A function that takes the number of bytes that have arrived, and the total.

>>> array = client.reshape(np.zeros(6), [2, 3], special_zero=False, progress=print)
48 48
"""

_WRITE_ERRORS = OSError, ValueError
"""The errors of a terminal that is gone, and of a standard error that the program has closed."""


def check_progress(progress: object) -> Progress | None:
    """Returns the function that the caller passed as `progress`, or None if the caller passed no function.

    Raises:
        TypeError: the value is not a function, a bool or None.
    """
    if progress is None or progress is True or progress is False:
        return None
    if not _is_function(progress):
        message = "write True for a progress bar, or a function of two numbers: the bytes that arrived, and the total"
        raise TypeError(f"progress is {show_value(progress)}: {message}")
    return progress


def _is_function(progress: object) -> TypeGuard[Progress]:
    return callable(progress)


@contextmanager
def draw_bar(total: int) -> Iterator[Progress | None]:
    """Draws a progress bar on standard error during the `with` block, and removes the bar at the end.

    Args:
        total: the number of bytes of the transfer.

    Yields:
        A function that updates the bar, or None if standard error cannot show a bar. Any thread may call this function,
        even after the `with` block.
    """
    console = _find_console()
    if console is None:
        yield None
        return
    with _bars.draw(total, console) as advance:
        yield advance


def import_bars() -> None:
    """Imports rich if `draw_bar` will need it, because the import can take longer than a short timeout of a call."""
    if _is_terminal():
        import_module("rich.progress")


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # a program may remove or close its standard error
        return False


def _find_console() -> "rich.console.Console | None":
    """Returns the console of standard error, or None if it is not a terminal that can erase a bar."""
    if not _is_terminal():
        return None
    from rich.console import Console  # noqa: PLC0415 - only a bar needs it

    console = Console(stderr=True)
    return console if console.is_interactive else None


class _Bars:
    """The progress bars of all running calls."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drops all bars, and replaces the lock."""
        self._lock = RLock()  # a signal handler may make a call while its thread holds the lock
        self._display: rich.progress.Progress | None = None

    @contextmanager
    def draw(self, total: int, console: "rich.console.Console") -> Iterator[Progress]:
        bar = object()
        try:
            with self._lock, suppress(*_WRITE_ERRORS):
                display = self._display = self._display or _make_display(console)
                display.add_task("", total=total, bar=bar)
                display.start()
            yield lambda arrived, _: self._update(bar, arrived)
        finally:
            with self._lock, suppress(*_WRITE_ERRORS):
                self._remove(bar)

    def _update(self, bar: object, arrived: int) -> None:
        # This method takes no lock that is held during a write to the terminal. Otherwise, a slow terminal would slow
        # down the transfer.
        display = self._display
        if display is not None:
            with suppress(KeyError):  # the bar has been removed
                display.update(_find_task(display, bar), completed=arrived)

    def _remove(self, bar: object) -> None:
        display = self._display
        if display is None:
            return
        with suppress(KeyError):  # the bar was not added
            display.remove_task(_find_task(display, bar))
        if not display.task_ids:
            try:
                display.stop()
            finally:
                self._display = None


def _find_task(display: "rich.progress.Progress", bar: object) -> "rich.progress.TaskID":
    """Returns the task of a bar. Raises a KeyError if the bar has no task."""
    return {task.fields["bar"]: task.id for task in display.tasks}[bar]


def _make_display(console: "rich.console.Console") -> "rich.progress.Progress":
    from rich import progress  # noqa: PLC0415 - only a bar needs it

    columns = (
        progress.BarColumn(bar_width=None),
        progress.DownloadColumn(binary_units=True),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    # If rich redirected the standard streams, the standard output of other threads would go to standard error.
    return progress.Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)


_bars = _Bars()
if hasattr(os, "register_at_fork"):  # Windows has no `os.register_at_fork`
    # A forked process has no thread that draws the parent's bars. In the forked process, the lock may stay locked
    # forever.
    os.register_at_fork(after_in_child=_bars.forget)
