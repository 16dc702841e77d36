"""Runs an implementation as a separate program.

The program is started again after each failure, and every case gets a reply. All queries are written to the program at
once. The program may answer each query at once or after it has read all queries, and in any order if its answers have
ids. A failure therefore does not show which query has caused it. After a failure, the first query without an answer is
sent again to a new process, without other queries. If the program fails again, this second failure is the reply to the
query. If the program answers, a later query has caused the first failure, and the next process gets fewer queries.

Invariants:

- Each case always gets exactly one reply. A failure is the reply to a case only if the program has failed while this
  case was its only query.
- If a program fails on every query, the run ends early. After several failures in a row, the program must answer a
  query that it has answered before. If the program fails to answer this query, its last failure is the reply to all
  remaining cases. If the program has never answered a query, a ProgramError is raised. A ProgramError is also raised if
  the program is silent when it gets all queries, and then is silent for a single query.
"""

import json
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tensor_reshape.conformance.cases import Case
from tensor_reshape.conformance.processes import End, Outcome, Timeouts, exchange_lines
from tensor_reshape.conformance.verdicts import Verdict
from tensor_reshape.wire.json_messages import Json

START_SECONDS = 30.0
"""The timeout of a program's first answer until its start has been measured. Libraries are slow to load."""

_MAX_FAILURES = 10
_MAX_DEPTH = 16  # the JSON of an answer may have this depth, although the format needs only a depth of 8
_MAX_QUOTED = 200


class ProgramError(Exception):
    """The program has not answered any query before it failed. The error text describes the failure."""


class Reply(NamedTuple):
    """The reply of a program to a case.

    Attributes:
        record: the JSON of the answer. The record is None if the program has not answered the case.
        failure: a crash, a hang or garbage, if the program has not answered the case.
        why: a description of the failure.
    """

    record: Json | None
    failure: Verdict = Verdict.GARBAGE
    why: str = ""


class _Collector:
    """Assigns each line of output to a case by its id, or by the order of the cases if the first answer has no id."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.replies = dict[str, Reply]()
        self.introduction: Json = {}
        self.stray = ""  # this is the last output line that was not an answer
        # These test cases have no reply yet, in the order in which their queries were sent.
        self._waiting = {case.id: None for case in cases}
        self._has_ids: bool | None = None  # this attribute is None before the first answer

    def receive(self, line: bytes) -> bool:
        """Takes a line. Returns whether the line is the reply to a case."""
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
            self.replies[name] = Reply(record)
        else:
            self.replies[name] = Reply(None, why=f"the answer is not a JSON object: {_quote(line)}")
        return True

    def _find_case(self, record: object) -> str | None:
        if self._has_ids is False:  # if the program sends no ids, every line is the answer to the next case
            return next(iter(self._waiting), None)
        name = record.get("id") if isinstance(record, dict) else None
        return name if isinstance(name, str) and name in self._waiting else None


class ProgramRunner:
    """Runs one program on test cases.

    Attributes:
        introduction: the program's description of itself. The description may have the keys "name" and "versions".
    """

    def __init__(self, command: Sequence[str], seconds: float, on_reply: Callable[[], object] = bool) -> None:
        """Prepares the runner, but does not start the program.

        Args:
            command: the program and its arguments.
            seconds: the timeout of each answer in seconds.
            on_reply: a function that is called after each reply.
        """
        self.introduction: Json = {}
        self._command, self._seconds, self._on_reply = command, seconds, on_reply
        self._start_seconds = max(START_SECONDS, seconds)
        self._answered: Case | None = None  # this attribute contains a case that the program has answered before
        self._failures = 0  # this is the number of failures in a row

    async def run(self, cases: Sequence[Case]) -> dict[str, Reply]:
        """Returns the reply to each case, by the id of the case.

        Raises:
            OSError: the program cannot be started.
            ProgramError: the program fails on every query.
        """
        replies, waiting, size = dict[str, Reply](), list(cases), len(cases)
        while waiting:
            part = waiting[:size]
            received, failure = await self._exchange(part)
            replies |= received
            size *= 2
            await self._check_silence(failure, waiting)
            if len(received) < len(part):
                suspect = next(case for case in part if case.id not in received)
                # The suspected query is sent without other queries, to find out whether it has caused the failure.
                alone, failure = ({}, failure) if len(part) == 1 else await self._exchange([suspect])
                replies[suspect.id] = alone.get(suspect.id, failure)
                size = max(len(part) // 2, 1) if alone else len(waiting)
                self._failures = 0 if received or alone else self._failures + 1
                if self._failures >= _MAX_FAILURES and not await self._is_alive(failure):
                    return {case.id: failure for case in cases} | replies
            waiting = [case for case in waiting if case.id not in replies]
        return replies

    async def _exchange(self, cases: Sequence[Case]) -> tuple[dict[str, Reply], Reply]:
        """Returns the replies of a new process, and the failure that applies to the cases without a reply."""
        collector, start = _Collector(cases), time.monotonic()
        first: list[float] = []  # this list gets the time of the first reply

        def receive(line: bytes) -> bool:
            is_reply = collector.receive(line)
            if is_reply:
                self._on_reply()
                first[:] = first or [time.monotonic()]
            return is_reply

        lines = [json.dumps(case.query).encode() for case in cases]
        outcome = await exchange_lines(self._command, lines, receive, Timeouts(self._start_seconds, self._seconds))
        # the time limit for a start is four times the measured time, because the machine may be busier at the next
        # start
        if first:
            self._start_seconds = self._seconds + 4 * (first[0] - start)
            self._answered = next(case for case in cases if case.id in collector.replies)
        self.introduction = collector.introduction or self.introduction
        seconds = self._start_seconds if self._answered is None else self._seconds
        return collector.replies, _describe_failure(outcome, collector.stray, seconds)

    async def _check_silence(self, failure: Reply, waiting: Sequence[Case]) -> None:
        """Raises a ProgramError if the program has never answered a query and does not answer another case."""
        if self._answered is not None or failure.failure is not Verdict.HANG or len(waiting) == 1:
            return
        received, failure = await self._exchange(waiting[-1:])
        if not received and failure.failure is Verdict.HANG:
            raise ProgramError(failure.why)

    async def _is_alive(self, failure: Reply) -> bool:
        """Whether the program still answers a case that it has answered earlier."""
        if self._answered is None:
            raise ProgramError(failure.why)
        self._failures = 0
        return bool((await self._exchange([self._answered]))[0])


def _describe_failure(outcome: Outcome, stray: str, seconds: float) -> Reply:
    """Returns the reply to the case during which an exchange ended."""
    last = outcome.tail.splitlines()[-1:] or [""]
    details = (f": {_quote(last[0].encode())}" if last[0] else "") + (f"; it wrote {stray}" if stray else "")
    match outcome.end:
        case End.SILENT:
            return Reply(None, Verdict.HANG, f"no answer in {seconds:g} s{details}")
        case End.FLOODED:
            return Reply(None, Verdict.GARBAGE, f"too many lines that are not answers{details}")
        case _ if outcome.code:
            return Reply(None, Verdict.CRASH, f"{_describe_code(outcome.code)}{details}")
        case _:
            return Reply(None, Verdict.GARBAGE, f"the program ended without an answer{details}")


def _describe_code(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


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
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."
