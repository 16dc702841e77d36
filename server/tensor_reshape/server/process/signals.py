"""Delivers signals as bytes on a file descriptor.

A process can therefore wait for signals and other events without polling.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def catch_signals(numbers: Iterable[signal.Signals]) -> Iterator[int]:
    """Yields a file descriptor from which each caught signal can be read as a byte.

    Call this function on the main thread.

    The byte is written as soon as the signal arrives. In contrast, a Python signal handler only runs at the next step
    of the main thread. If a signal arrived just before the main thread starts to wait, a Python handler would not end
    the wait.
    """
    reader, writer = os.pipe()
    # `set_wakeup_fd` requires a descriptor that does not block, because a signal handler must not wait for a full pipe.
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in numbers:
        signal.signal(number, lambda *_: None)  # Python only writes the byte if the signal has a Python handler
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)


def ignore_signals(numbers: Iterable[signal.Signals]) -> None:
    """Makes the process ignore further signals.

    At exit, the interpreter restores the default action of signals with handlers. A further signal would then kill the
    process.
    """
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
