"""A program that is a child of this process: lines go in, lines come out.

Laws:

- Whatever the program does, `converse` ends: it answers, ends, is silent for longer than it may be, or writes more that
  is no answer than it may, and then it is killed with all that it has started.
- Of what it writes, no more is held than a line, and the end of its standard error.
- Whoever sets the event that stops it waits no longer than `_STOP_SECONDS`, and nothing of the program is left.
- Its input is closed when the last question is written, so that a program may read all before it answers any.
"""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import IO, NamedTuple

MAX_LINE_BYTES = 1 << 20
MAX_STRAY_BYTES = 4 << 20
MAX_STRAY_LINES = 4096
"""How much may come in a row that is no answer: prints of a library are less."""

_READ_BYTES = 1 << 16
_TAIL_BYTES = 4096
_EXIT_SECONDS = 5.0
_STOP_SECONDS = 0.2


class StoppedError(Exception):
    """Whoever runs this has it ended."""


class Ending(Enum):
    """How a conversation ended."""

    DONE = "all is answered"
    EXITED = "the program ended"
    SILENT = "no answer came in time"
    FLOODED = "too much came that is no answer"


class Outcome(NamedTuple):
    """How a conversation ended, and what else is known of it.

    Attributes:
        ending: which way.
        code: the exit code, that of the shell's -N for a signal; None: it had not ended by itself.
        tail: the end of its standard error.
    """

    ending: Ending
    code: int | None
    tail: str


class Limits(NamedTuple):
    """How long a program may be silent, in seconds.

    Attributes:
        start: before its first answer.
        answer: after that, before each of the others.
    """

    start: float
    answer: float


def converse(
    command: Sequence[str],
    lines: Sequence[bytes],
    hear: Callable[[bytes], bool],
    limits: Limits,
    stop: threading.Event | None = None,
) -> Outcome:
    """Runs a program until it has answered each line, or will not.

    Args:
        command: the program and its arguments.
        lines: what it reads.
        hear: is told each line that it writes; returns whether that answers one of `lines` that was not answered yet.
        limits: how long it may be silent.
        stop: ends it, set by any thread; None: nothing does.

    Raises:
        OSError: it cannot be started.
        StoppedError: `stop` was set.
    """
    # A session of its own: what the program starts is ended with it, and Ctrl-C reaches this process alone.
    process = subprocess.Popen(  # noqa: S603 - whoever runs this says which program
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    conversation = _Conversation(process, lines, hear, limits)
    try:
        return conversation.run(stop or threading.Event())
    finally:
        _end(process)


class _Conversation:
    def __init__(
        self, process: subprocess.Popen[bytes], lines: Sequence[bytes], hear: Callable[[bytes], bool], limits: Limits
    ) -> None:
        self._process, self._hear, self._limits = process, hear, limits
        self._unsent = memoryview(b"".join(line + b"\n" for line in lines))
        self._unanswered = len(lines)
        self._line = bytearray()  # what has come of the next one
        self._tail = bytearray()
        self._stray_bytes = self._stray_lines = 0  # since the last answer
        self._deadline = time.monotonic() + limits.start
        self._selector = selectors.DefaultSelector()

    def run(self, stop: threading.Event) -> Outcome:
        """Runs to the end."""
        with self._selector:
            self._register()
            ending = None
            while ending is None:
                if stop.is_set():
                    raise StoppedError
                for key, _ in self._selector.select(min(max(self._deadline - time.monotonic(), 0), _STOP_SECONDS)):
                    key.data(key.fileobj)
                ending = self._find_ending()
        code = self._await_exit() if ending is Ending.EXITED else None
        return Outcome(ending, code, self._tail.decode(errors="replace").strip())

    def _register(self) -> None:
        for stream, event, act in (
            (self._process.stdin, selectors.EVENT_WRITE, self._write),
            (self._process.stdout, selectors.EVENT_READ, self._read),
            (self._process.stderr, selectors.EVENT_READ, self._read_errors),
        ):
            assert stream is not None  # noqa: S101 - for type checkers: all are pipes
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, event, act)

    def _find_ending(self) -> Ending | None:
        if not self._unanswered:
            return Ending.DONE
        if self._process.stdout is None or self._process.stdout.closed:
            return Ending.EXITED
        if self._stray_bytes > MAX_STRAY_BYTES or self._stray_lines > MAX_STRAY_LINES:
            return Ending.FLOODED
        if len(self._line) > MAX_LINE_BYTES:
            return Ending.FLOODED
        return Ending.SILENT if time.monotonic() >= self._deadline else None

    def _write(self, stream: IO[bytes]) -> None:
        try:
            self._unsent = self._unsent[os.write(stream.fileno(), self._unsent[:_READ_BYTES]) :]
        except BlockingIOError:
            return
        except OSError:  # it reads no more, which is its own business as long as it answers
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._close(stream)

    def _read(self, stream: IO[bytes]) -> None:
        piece = os.read(stream.fileno(), _READ_BYTES)
        *lines, rest = (bytes(self._line) + piece).split(b"\n") if b"\n" in piece else (self._line + piece,)
        self._line = bytearray(rest)
        if not piece:
            lines = [bytes(self._line)]  # what ends without a newline
            self._close(stream)
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        if line and self._hear(line):
            self._unanswered -= 1
            self._stray_bytes = self._stray_lines = 0
            self._deadline = time.monotonic() + self._limits.answer
        else:
            self._stray_bytes += len(line)
            self._stray_lines += 1

    def _read_errors(self, stream: IO[bytes]) -> None:
        piece = os.read(stream.fileno(), _READ_BYTES)
        self._tail = (self._tail + piece)[-_TAIL_BYTES:]
        if not piece:
            self._close(stream)

    def _close(self, stream: IO[bytes]) -> None:
        self._selector.unregister(stream)
        with suppress(OSError):
            stream.close()

    def _await_exit(self) -> int | None:
        """Returns the exit code; None where the program has closed its output, and goes on."""
        try:
            code = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        errors = self._process.stderr
        if errors is not None and not errors.closed:
            with suppress(BlockingIOError):  # a child of its own may hold it open
                self._tail = (self._tail + (os.read(errors.fileno(), _READ_BYTES)))[-_TAIL_BYTES:]
        return code


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
