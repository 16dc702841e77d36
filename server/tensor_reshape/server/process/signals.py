"""Signals that are read from a descriptor, so a process waits for them and for anything else without a timer."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def catch_signals(numbers: Iterable[signal.Signals]) -> Iterator[int]:
    """Yields a descriptor that brings the numbers of signals, a byte each; to be called on the main thread.

    The system writes the byte when the signal comes. A handler of Python would run only when the main thread makes its
    next step, so one that comes just before the thread begins to wait would not end the wait.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # `set_wakeup_fd` demands it, because a handler must not wait for room in the pipe
    signal.set_wakeup_fd(writer)
    for number in numbers:
        signal.signal(number, lambda *_: None)  # without a handler of Python, nothing is written
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)


def ignore_signals(numbers: Iterable[signal.Signals]) -> None:
    """Makes further signals change nothing.

    On its way out, the interpreter restores the default of each signal that has a handler, which would kill.
    """
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
