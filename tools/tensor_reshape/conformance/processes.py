"""Exchanges lines of text with a child process.

Invariants:

- The function `exchange_lines` always ends. It kills the program and all processes that the program has started in
  three cases: if the program is silent for too long, if it writes too much output that is not an answer, or if the call
  is cancelled.
- At most one line of standard output and the end of standard error are kept in memory.
- The standard input of the program is closed after the last line, so a program may read all queries before it answers.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import NamedTuple

MAX_LINE_BYTES = 1 << 20
MAX_STRAY_BYTES = 4 << 20
MAX_STRAY_LINES = 4096
"""The maximum number of lines in a row that are not answers. Libraries that print write fewer lines."""

_READ_BYTES = 1 << 16
_TAIL_BYTES = 4096
_EXIT_SECONDS = 5.0


class End(Enum):
    """The reason for which an exchange with a program ended."""

    ANSWERED = auto()
    """All lines are answered."""

    EXITED = auto()
    """The program ended."""

    SILENT = auto()
    """No answer arrived in time."""

    FLOODED = auto()
    """The program wrote too much that is not an answer."""


class Outcome(NamedTuple):
    """The way in which an exchange with a program ended.

    Attributes:
        end: the reason why the exchange ended.
        code: the exit code of the program, or -N if the signal N ended it. The code is None if the program had not
            ended by itself.
        tail: the last part of the program's standard error.
    """

    end: End
    code: int | None
    tail: str


class Timeouts(NamedTuple):
    """The number of seconds for which a program may be silent.

    Attributes:
        start: the limit before the first answer of the program.
        answer: the limit before each later answer.
    """

    start: float
    answer: float


async def exchange_lines(
    command: Sequence[str], lines: Sequence[bytes], receive: Callable[[bytes], bool], timeouts: Timeouts
) -> Outcome:
    """Runs a program until it has answered each line or has failed.

    Args:
        command: the program and its arguments.
        lines: the lines to write to the program's input.
        receive: a function that takes a line of output, and returns whether it is the first answer to one of `lines`.
        timeouts: the number of seconds for which the program may be silent.

    Raises:
        OSError: the program cannot be started.
    """
    # The program runs in its own session, so that all its processes can be killed, and Ctrl-C reaches only this
    # process.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=MAX_LINE_BYTES, start_new_session=True
    )
    assert process.stdin is not None  # noqa: S101 - for type checkers, because all three are pipes
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    tail = bytearray()
    reading = asyncio.create_task(_keep_end(process.stderr, tail))
    try:
        process.stdin.write(b"".join(line + b"\n" for line in lines))
        process.stdin.close()  # asyncio closes the standard input of the program when all lines are written
        end = await _receive_all(process.stdout, len(lines), receive, timeouts)
        if end is End.EXITED:
            await _await_exit(process, reading)
        return Outcome(end, process.returncode, tail.decode(errors="replace").strip())
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await _await_exit(process, reading)


async def _receive_all(
    stream: asyncio.StreamReader, unanswered: int, receive: Callable[[bytes], bool], timeouts: Timeouts
) -> End:
    now = asyncio.get_running_loop().time
    deadline = now() + timeouts.start
    stray_bytes = stray_lines = 0  # the counters for output without an answer start again after each answer
    while unanswered:
        try:
            async with asyncio.timeout_at(deadline):
                line = await stream.readline()
        except TimeoutError:
            return End.SILENT
        except ValueError:  # the line is longer than MAX_LINE_BYTES
            return End.FLOODED
        if not line:
            return End.EXITED
        if line != b"\n" and receive(line.removesuffix(b"\n")):
            unanswered -= 1
            stray_bytes = stray_lines = 0
            deadline = now() + timeouts.answer
            continue
        stray_bytes, stray_lines = stray_bytes + len(line), stray_lines + 1
        if stray_bytes > MAX_STRAY_BYTES or stray_lines > MAX_STRAY_LINES:
            return End.FLOODED
        if now() >= deadline:  # the timeout does not expire while output lines are ready to be read
            return End.SILENT
    return End.ANSWERED


async def _keep_end(stream: asyncio.StreamReader, tail: bytearray) -> None:
    while chunk := await stream.read(_READ_BYTES):
        tail[:] = (tail + chunk)[-_TAIL_BYTES:]


async def _await_exit(process: Process, reading: "asyncio.Task[None]") -> None:
    """Waits until the program and its standard error have ended.

    The wait is short, because a child may keep the pipe open.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_SECONDS):
            await process.wait()
            await reading
