"""Tasks that processes of their own work on, and how far they are."""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_PROGRESS_SECONDS = 10.0
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def run_all(function: Callable[[_Task], _Result], tasks: Iterable[_Task], processes: int) -> Iterator[_Result]:
    """Yields what the function returns of each task, in the order in which they end.

    Args:
        function: of a module that a fresh process can import; of a package's `__main__` it cannot.
        tasks: what processes are sent; the first failure of one is raised here.
        processes: how many work at once.
    """
    # Spawned, not forked: a fork would inherit the threads and locks of gRPC and protobuf in an unknown state.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(function, tasks)


class Progress:
    """Prints how far a run is, every ten seconds."""

    def __init__(self, total: int, unit: str) -> None:
        """Starts the clock; `unit` is what is counted, in the plural."""
        self._total = total
        self._unit = unit
        self._begin = self._shown = time.monotonic()

    def show(self, done: int, findings: int = 0) -> None:
        """Prints the counts, unless ten seconds have not passed since it last did."""
        now = time.monotonic()
        if now - self._shown > _PROGRESS_SECONDS:
            self._shown = now
            pace = done / (now - self._begin)
            print(f"  {done} of {self._total} {self._unit}, {pace:.0f} a second, {findings} findings", flush=True)
