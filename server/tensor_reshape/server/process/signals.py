"""Waits for signals, and stops a server after a signal."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

_LOGGER = logging.getLogger(__name__)


@contextmanager
def catch_signals(numbers: Iterable[signal.Signals]) -> Iterator[int]:
    """Catches the signals, and yields a file descriptor from which each caught signal can be read as one byte.

    Call this function on the main thread. A process can wait for this descriptor and for other events without polling.
    The descriptor stays open after the `with` block, because another thread may be about to read from it. That thread
    then reads the end of the pipe.

    The byte is written as soon as the signal arrives. In contrast, a Python signal handler only runs when the main
    thread executes its next bytecode. If a signal arrived just before the main thread starts to wait, a Python handler
    would therefore not end the wait.
    """
    reader, writer = os.pipe()
    # `set_wakeup_fd` requires a descriptor that does not block, because a signal handler must not wait for a full pipe.
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in numbers:
        signal.signal(number, lambda *_: None)  # Python only writes the byte for signals that have a Python handler
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(-1)
        os.close(writer)


def ignore_signals(numbers: Iterable[signal.Signals]) -> None:
    """Makes the process ignore further signals.

    Without this, a further signal could kill the process while it exits. The reason is that at exit, the interpreter
    restores the default action of each signal that has a Python handler.
    """
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def stop_at_signal(signals: int, end: Callable[[threading.Event], int]) -> None:
    """Waits for a signal, and then stops a server gracefully. A second signal ends the server's running calls.

    Args:
        signals: the file descriptor that `catch_signals` yields.
        end: the function that stops the server (see `stop`).
    """

    def await_signal(hurry: threading.Event) -> None:
        os.read(signals, 1)
        hurry.set()

    (number,) = os.read(signals, 1)
    stop(end, signal.Signals(number).name, await_signal)


def stop(end: Callable[[threading.Event], int], cause: str, await_hurry: Callable[[threading.Event], object]) -> None:
    """Stops a server gracefully.

    Args:
        end: a function that stops the server, waits for running calls, and returns the number of calls that it has
            cancelled. The argument of the function is an event. When the event is set, the function stops waiting.
        cause: the reason why the server stops, for the log.
        await_hurry: a function that runs on its own thread, and sets the event when running calls must end at once.
    """
    _LOGGER.info("stopping", extra={"cause": cause})
    hurry = threading.Event()
    with suppress(RuntimeError):  # `start` raises RuntimeError if the system cannot start another thread
        threading.Thread(target=await_hurry, args=(hurry,), daemon=True).start()
    _LOGGER.info("stopped", extra={"cancelled_calls": end(hurry)})
