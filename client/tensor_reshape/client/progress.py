"""The option `progress` of a call, and the bars that rich draws for it on standard error.

Invariants:

- Without a terminal, nothing is written and rich is not imported, even if FORCE_COLOR is set.
- All running calls share one display, because two displays would overwrite each other on the terminal.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def check_progress(progress: object) -> Progress | None:
    """Returns the function that the caller passed as `progress`, or None if the caller passed none.

    Raises:
        TypeError: the value is neither a function nor a bool nor None.
    """
    if progress is None or progress is True or progress is False:
        return None
    if not _is_function(progress):
        message = "write True for a progress bar, or a function of two numbers: the bytes that have arrived, and all"
        raise TypeError(f"progress is {show_value(progress)}: {message}")
    return progress


def _is_function(progress: object) -> TypeGuard[Progress]:
    return callable(progress)


@contextmanager
def draw_bar(total: int) -> Iterator[Progress | None]:
    """Draws a progress bar on standard error during the block, and removes it at the end.

    Args:
        total: the number of bytes of the transfer.

    Yields:
        A function that updates the bar, and that any thread may call. None if standard error shows no bars.
    """
    console = _find_console()
    if console is None:
        yield None
        return
    with _bars.draw(total, console) as advance:
        yield advance


def _find_console() -> "rich.console.Console | None":
    """Returns the console of standard error. None if it is not a terminal, or a terminal that cannot erase a bar."""
    try:
        if not sys.stderr.isatty():
            return None
    except (AttributeError, ValueError):  # a program may remove or close its standard error
        return None
    from rich.console import Console  # noqa: PLC0415 - only a bar needs it

    console = Console(stderr=True)
    return console if console.is_interactive else None


class _Bars:
    """The bars of the running calls."""

    def __init__(self) -> None:
        self._lock = RLock()  # a signal handler may make a call, too
        self._calls = 0
        self._display: rich.progress.Progress | None = None

    @contextmanager
    def draw(self, total: int, console: "rich.console.Console") -> Iterator[Progress]:
        task: rich.progress.TaskID | None = None
        with self._lock:
            self._calls += 1
        try:
            with self._lock:
                display = self._display = self._display or _make_display(console)
                task = display.add_task("", total=total)
                display.start()
            yield lambda arrived, _: display.update(task, completed=arrived)
        finally:
            with self._lock:
                self._calls -= 1
                if self._display is not None and not self._calls:
                    self._display.stop()
                    self._display = None
                elif self._display is not None and task is not None:
                    self._display.remove_task(task)


def _make_display(console: "rich.console.Console") -> "rich.progress.Progress":
    from rich import progress  # noqa: PLC0415 - only a bar needs it

    columns = (
        progress.BarColumn(bar_width=None),
        progress.DownloadColumn(binary_units=True),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    # If rich redirected the streams, other threads of the program would print to standard error.
    return progress.Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)


_bars = _Bars()
