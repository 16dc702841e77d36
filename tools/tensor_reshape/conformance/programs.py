"""Runs an implementation as a separate program.

The runner starts the program again after each failure, so that every case gets a reply.

The runner writes all queries to the program at once. The program may answer each query immediately, or after it has
read all queries. If its answers have ids, it may answer in any order. A failure therefore does not show which query has
caused it. After a failure, the first query without an answer is sent again to a new process, without other queries. If
the program fails again, this second failure is the reply to the query. If the program answers this query, a later query
has caused the first failure. The next process then gets fewer queries.

Invariants:

- Each case always gets exactly one reply. A failure becomes the reply to a case only in two situations. Either this
  case was the only query of the program when it failed, or the run has ended early.
- If a program fails on every query, the run ends early. After several failures in a row, the runner sends a query that
  the program has answered before. If the program does not answer this query again, its last failure is the reply to all
  remaining cases. If the program has never answered any query, the runner raises a ProgramError. The runner also raises
  a ProgramError if the program is silent after it has received all queries, and a new process is also silent after it
  has received only one query.
- If a program's answer to a query does not depend on other queries, the replies do not depend on the number of
  processes.
- The function `exchange_lines` always ends. It stops when the program has answered each line, has ended, is silent for
  too long, or writes too much output that is not an answer. It also stops when its task is cancelled. It then kills the
  process group of the program. No process of this group therefore remains after a run, even if Ctrl-C, SIGTERM or
  SIGHUP ends the run. However, if the program starts another process in a new session, that process is not killed.
- In addition to the answers, at most one line of standard output and the end of standard error are kept in memory.
- The standard input of the program is closed after the last line, so a program may read all queries before it answers.
"""

import asyncio
import json
import os
import shlex
import signal
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from tensor_reshape.conformance.cases import Case
from tensor_reshape.conformance.verdicts import MAX_QUOTED, CaseVerdict
from tensor_reshape.wire.json_messages import Json

_Result = TypeVar("_Result")

START_SECONDS = 30.0
"""The timeout of a program's first answer until its start has been measured. Libraries are slow to load."""

_MAX_FAILURES = 10
_MAX_DEPTH = 16  # the maximum nesting depth of an answer's JSON, although the format needs only a depth of 8
_END_SIGNALS = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__]

MAX_LINE_BYTES = 1 << 20
MAX_STRAY_BYTES = 4 << 20
MAX_STRAY_LINES = 4096
"""The maximum number of lines in a row that are not answers. Libraries that print write fewer lines."""

_READ_BYTES = 1 << 16
_TAIL_BYTES = 4096
_EXIT_SECONDS = 5.0


class Outcome(NamedTuple):
    """Describes how an exchange with a program ended.

    Attributes:
        end: None if the program has answered each line. HANG means that no answer arrived in time, GARBAGE that the
            program wrote too much other output, and CRASH that the program ended.
        code: the exit code of the program, or -N if the signal N ended it. None if the program was still running.
        tail: the end of the text that the program wrote to standard error.
    """

    end: CaseVerdict | None
    code: int | None
    tail: str


async def exchange_lines(
    command: Sequence[str], lines: Sequence[bytes], receive: Callable[[bytes], bool], start: float, seconds: float
) -> Outcome:
    """Starts a program, writes lines to it, and reads its output until it has answered each line or has failed.

    Args:
        command: the program and its arguments.
        lines: the lines to write to the program's input.
        receive: a function that takes a line of output, and returns whether it is the first answer to one of `lines`.
        start: the number of seconds for which the program may be silent before its first answer.
        seconds: the number of seconds for which the program may be silent before each later answer.

    Raises:
        OSError: the program cannot be started.
    """
    # The program runs in its own session. Its process group can therefore be killed, and Ctrl-C in the terminal only
    # reaches this process.
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
        end = await _receive_all(process.stdout, len(lines), receive, start, seconds)
        if end is CaseVerdict.CRASH:
            await _await_exit(process, reading)
        return Outcome(end, process.returncode, tail.decode(errors="replace").strip())
    finally:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":  # Windows has no process groups
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        await _await_exit(process, reading)


async def _receive_all(
    stream: asyncio.StreamReader, unanswered: int, receive: Callable[[bytes], bool], start: float, seconds: float
) -> CaseVerdict | None:
    now = asyncio.get_running_loop().time
    deadline = now() + start
    stray_bytes = stray_lines = 0  # the amounts of other output since the last answer
    while unanswered:
        try:
            async with asyncio.timeout_at(deadline):
                line = await stream.readline()
        except TimeoutError:
            return CaseVerdict.HANG
        except ValueError:  # the line is longer than MAX_LINE_BYTES
            return CaseVerdict.GARBAGE
        if not line:
            return CaseVerdict.CRASH
        if line != b"\n" and receive(line.removesuffix(b"\n")):
            unanswered -= 1
            stray_bytes = stray_lines = 0
            deadline = now() + seconds
            continue
        stray_bytes, stray_lines = stray_bytes + len(line), stray_lines + 1
        if stray_bytes > MAX_STRAY_BYTES or stray_lines > MAX_STRAY_LINES:
            return CaseVerdict.GARBAGE
        # this check is needed, because the timeout does not expire while lines are ready to be read
        if now() >= deadline:
            return CaseVerdict.HANG
    return None


async def _keep_end(stream: asyncio.StreamReader, tail: bytearray) -> None:
    while chunk := await stream.read(_READ_BYTES):
        tail[:] = (tail + chunk)[-_TAIL_BYTES:]


async def _await_exit(process: Process, reading: "asyncio.Task[None]") -> None:
    """Waits until the program has ended and its standard error is closed.

    The wait is short, because a child process of the program may keep the pipe open.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_SECONDS):
            await process.wait()
            await reading


class ProgramError(Exception):
    """The program has failed without answering any query. The error text describes the failure."""


class ProgramReply(NamedTuple):
    """The reply of a program to a test case, which is an answer or a failure.

    Attributes:
        record: the JSON of the answer, or None if the program has not answered the case.
        failure: the kind of failure if `record` is None. It is CRASH, HANG or GARBAGE.
        why: a description of the failure, or an empty text if the program has answered.
    """

    record: Json | None
    failure: CaseVerdict = CaseVerdict.GARBAGE
    why: str = ""


def split_command(text: str) -> Sequence[str]:
    """Splits a command line into the program and its arguments, as a shell does.

    No shell is used to start the program.
    """
    try:
        command = shlex.split(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a command: a quote or an escape is not complete") from None
    if not command:
        raise ValueError("the command is empty")
    return command


def build_function_command(name: str) -> Sequence[str]:
    """Returns the command of a program that answers queries with the Python function `MODULE:FUNCTION`."""
    if not all(name.partition(":")):
        raise ValueError(f"a Python function is named MODULE:FUNCTION, for example mine:answer, not {name!r}")
    return (sys.executable, "-m", "tensor_reshape.conformance.functions", name)


def run_program(
    command: Sequence[str], cases: Sequence[Case], seconds: float, jobs: int = 1
) -> tuple[Mapping[str, ProgramReply], Json]:
    """Runs a program on test cases, in `jobs` parallel processes.

    Returns the replies and the program's introduction.
    """
    runners = [ProgramRunner(command, seconds) for _ in range(jobs)]
    # The processes get the cases in turn, because the suite has slow cases next to each other.
    parts = [cases[job::jobs] for job in range(jobs)]

    async def run() -> list[dict[str, ProgramReply]]:
        return await asyncio.gather(*map(ProgramRunner.run, runners, parts))

    replies = {name: reply for part in _run_until_signal(run()) for name, reply in part.items()}
    return replies, next((runner.introduction for runner in runners if runner.introduction), {})


def _run_until_signal(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs `work`. On SIGTERM or SIGHUP, cancels `work`, so that it can clean up, and then raises SystemExit.

    asyncio handles SIGINT (Ctrl-C) in a similar way. The signal handlers do not raise an exception themselves, because
    it would break the event loop.
    """
    received: list[int] = []

    async def run() -> _Result:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def cancel(number: int) -> None:
            received.append(number)
            task.cancel()

        # If a signal is ignored, for example because of nohup, it stays ignored. Python lets only the main thread set
        # signal handlers.
        is_main = threading.current_thread() is threading.main_thread()
        handlers = {one: old for one in _END_SIGNALS if is_main and (old := signal.getsignal(one)) != signal.SIG_IGN}
        for number in handlers:
            loop.add_signal_handler(number, cancel, number)
        try:
            return await task
        finally:
            for number, old in handlers.items():
                loop.remove_signal_handler(number)
                signal.signal(number, old or signal.SIG_DFL)

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        if received:
            sys.exit(128 + received[0])
        raise


class _Collector:
    """Assigns lines of output to cases, by their ids, or in the order of the cases if the first answer has no id."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.replies = dict[str, ProgramReply]()
        self.introduction: Json = {}
        self.stray = ""  # the last output line that was not an answer
        # The ids of the cases that have no reply yet, in the order in which their queries were sent.
        self._waiting = {case.id: None for case in cases}
        self._has_ids: bool | None = None  # None before the first answer

    def receive(self, line: bytes) -> bool:
        """Stores the line if it is a reply or the introduction. Returns whether it is the reply to a case."""
        record = _parse(line)
        if isinstance(record, dict) and isinstance(record.get("implementation"), dict) and "id" not in record:
            self.introduction = record["implementation"]
            return False
        if self._has_ids is None and isinstance(record, dict):
            self._has_ids = "id" in record
        name = self._find_case(record)
        if name is None:
            self.stray = _quote(line)
            return False
        del self._waiting[name]
        if isinstance(record, dict):
            self.replies[name] = ProgramReply(record)
        else:
            self.replies[name] = ProgramReply(None, why=f"the answer is not a JSON object: {_quote(line)}")
        return True

    def _find_case(self, record: object) -> str | None:
        if self._has_ids is False:  # without ids, each line is the answer to the next case
            return next(iter(self._waiting), None)
        name = record.get("id") if isinstance(record, dict) else None
        return name if isinstance(name, str) and name in self._waiting else None


class ProgramRunner:
    """Runs one program on test cases, and starts it again after failures.

    Attributes:
        introduction: the description that the program has written about itself. It may have the keys "name" and
            "versions".
    """

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        """Prepares the runner, but does not start the program."""
        self.introduction: Json = {}
        self._command, self._seconds = command, seconds
        self._start_seconds = max(START_SECONDS, seconds)
        self._answered: Case | None = None  # a case that the program has answered, or None
        self._failures = 0  # failures in a row

    async def run(self, cases: Sequence[Case]) -> dict[str, ProgramReply]:
        """Runs the program on the cases, and returns the reply to each case by the id of the case."""
        replies, waiting, size = dict[str, ProgramReply](), list(cases), len(cases)
        while waiting:
            part = waiting[:size]
            received, failure = await self._exchange(part)
            replies |= received
            size *= 2
            await self._check_silence(failure, waiting)
            if len(received) < len(part):
                suspect = next(case for case in part if case.id not in received)
                # The first case without a reply is sent again as the only one, to find out whether it has caused the
                # failure.
                alone, failure = ({}, failure) if len(part) == 1 else await self._exchange([suspect])
                replies[suspect.id] = alone.get(suspect.id, failure)
                size = max(len(part) // 2, 1) if alone else len(waiting)
                self._failures = 0 if received or alone else self._failures + 1
                if self._failures >= _MAX_FAILURES and not await self._is_alive(failure):
                    return {case.id: failure for case in cases} | replies
            waiting = [case for case in waiting if case.id not in replies]
        return replies

    async def _exchange(self, cases: Sequence[Case]) -> tuple[dict[str, ProgramReply], ProgramReply]:
        """Sends the cases to a new process. Returns its replies, and the failure for the first case without a reply."""
        collector, start = _Collector(cases), time.monotonic()
        first: list[float] = []  # the time of the first reply, or empty before it

        def receive(line: bytes) -> bool:
            is_reply = collector.receive(line)
            if is_reply:
                first[:] = first or [time.monotonic()]
            return is_reply

        lines = [json.dumps(case.query).encode() for case in cases]
        outcome = await exchange_lines(self._command, lines, receive, self._start_seconds, self._seconds)
        # The next start may take four times as long as this one, because the machine may be busier.
        if first:
            self._start_seconds = self._seconds + 4 * (first[0] - start)
            self._answered = next(case for case in cases if case.id in collector.replies)
        self.introduction = collector.introduction or self.introduction
        seconds = self._start_seconds if self._answered is None else self._seconds
        return collector.replies, _describe_failure(outcome, collector.stray, seconds)

    async def _check_silence(self, failure: ProgramReply, waiting: Sequence[Case]) -> None:
        """Raises a ProgramError if the program has never answered, and does not answer one other case either."""
        if self._answered is not None or failure.failure is not CaseVerdict.HANG or len(waiting) == 1:
            return
        received, failure = await self._exchange(waiting[-1:])
        if not received and failure.failure is CaseVerdict.HANG:
            raise ProgramError(failure.why)

    async def _is_alive(self, failure: ProgramReply) -> bool:
        """Whether the program still answers a case that it has answered earlier."""
        if self._answered is None:
            raise ProgramError(failure.why)
        self._failures = 0
        return bool((await self._exchange([self._answered]))[0])


def _describe_failure(outcome: Outcome, stray: str, seconds: float) -> ProgramReply:
    """Returns the failure of an exchange as a reply to the case that caused it."""
    last = outcome.tail.splitlines()[-1:] or [""]
    details = (f": {_quote(last[0].encode())}" if last[0] else "") + (f"; it wrote {stray}" if stray else "")
    if outcome.end is CaseVerdict.HANG:
        failure, why = CaseVerdict.HANG, f"no answer in {seconds:g} s"
    elif outcome.end is CaseVerdict.GARBAGE:
        failure, why = CaseVerdict.GARBAGE, "too many lines that are not answers"
    elif outcome.code:
        names = {-number: number.name for number in signal.Signals}
        why = f"exit code {outcome.code}" if outcome.code > 0 else names.get(outcome.code, f"signal {-outcome.code}")
        failure = CaseVerdict.CRASH
    else:
        failure, why = CaseVerdict.GARBAGE, "the program ended without an answer"
    return ProgramReply(None, failure, f"{why}{details}")


def _parse(line: bytes) -> Any:  # noqa: ANN401 - JSON
    """Returns the JSON value of a line.

    The result is None if the line is not JSON, or is nested too deeply to be written again.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return None if _is_deep(value) else value


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        containers = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [value for container in containers for value in container]
    return bool(level)


def _quote(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."
