"""A program that is a child of this process: lines go in, lines come out.

Laws:

- Whatever the program does, `converse` ends: it answers, ends, is silent for longer than it may be, or writes more that
  is no answer than it may, and then it is killed with all that it has started. So it is when `converse` is cancelled.
- Of what it writes, no more is held than a line, and the end of its standard error.
- Its input is closed when the last question is written, so that a program may read all before it answers any.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

MAX_LINE_BYTES = 1 << 20
MAX_STRAY_BYTES = 4 << 20
MAX_STRAY_LINES = 4096
"""How much may come in a row that is no answer: prints of a library are less."""

_READ_BYTES = 1 << 16
_TAIL_BYTES = 4096
_EXIT_SECONDS = 5.0


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


async def converse(
    command: Sequence[str], lines: Sequence[bytes], hear: Callable[[bytes], bool], limits: Limits
) -> Outcome:
    """Runs a program until it has answered each line, or will not.

    Args:
        command: the program and its arguments.
        lines: what it reads.
        hear: is told each line that it writes; returns whether that answers one of `lines` that was not answered yet.
        limits: how long it may be silent.

    Raises:
        OSError: it cannot be started.
    """
    # A session of its own: what the program starts is ended with it, and Ctrl-C reaches this process alone.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=MAX_LINE_BYTES, start_new_session=True
    )
    assert process.stdin is not None  # noqa: S101 - for type checkers: all are pipes
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    tail = bytearray()
    reading = asyncio.create_task(_keep_end(process.stderr, tail))
    try:
        process.stdin.write(b"".join(line + b"\n" for line in lines))
        process.stdin.close()  # when all is written; that the program reads no more is its own business
        ending = await _listen(process.stdout, len(lines), hear, limits)
        if ending is Ending.EXITED:
            await _await_exit(process, reading)
        return Outcome(ending, process.returncode, tail.decode(errors="replace").strip())
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await _await_exit(process, reading)


async def _listen(
    stream: asyncio.StreamReader, unanswered: int, hear: Callable[[bytes], bool], limits: Limits
) -> Ending:
    now = asyncio.get_running_loop().time
    deadline = now() + limits.start
    stray_bytes = stray_lines = 0  # since the last answer
    while unanswered:
        try:
            async with asyncio.timeout_at(deadline):
                line = await stream.readline()
        except TimeoutError:
            return Ending.SILENT
        except ValueError:  # a line that does not end
            return Ending.FLOODED
        if not line:
            return Ending.EXITED
        if line != b"\n" and hear(line.removesuffix(b"\n")):
            unanswered -= 1
            stray_bytes = stray_lines = 0
            deadline = now() + limits.answer
            continue
        stray_bytes, stray_lines = stray_bytes + len(line), stray_lines + 1
        if stray_bytes > MAX_STRAY_BYTES or stray_lines > MAX_STRAY_LINES:
            return Ending.FLOODED
        if now() >= deadline:  # no timeout expires while lines are there to be read
            return Ending.SILENT
    return Ending.DONE


async def _keep_end(stream: asyncio.StreamReader, tail: bytearray) -> None:
    while piece := await stream.read(_READ_BYTES):
        tail[:] = (tail + piece)[-_TAIL_BYTES:]


async def _await_exit(process: Process, reading: "asyncio.Task[None]") -> None:
    """Waits for the end of the program and of its errors, as far as these come: a child of its own may hold a pipe."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_SECONDS):
            await process.wait()
            await reading
