"""An implementation that is a program: it is asked, started again after each crash, and each question has a reply.

All questions are written to it at once, and it may answer them in any way: one by one, when it has read them all, in
order, or by their ids in any order. So it is not known at first which question ended it. The first one that has no
answer is asked again, of a process of its own: where that fails too, the failure is its reply; where not, the program
had read ahead, and fewer questions are written to the next process.

Laws:

- Each question has one reply, whatever the program does; a failure is that of a question on which the program failed
  by itself.
- A program that fails on everything is not asked for ever: after so many failures in a row it must answer something
  that it has answered before, or the rest has the last failure for its reply. If it has never answered anything, this
  is an error, and so is silence to all questions and then to a single one.
"""

import json
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tensor_reshape.conformance.cases import Question
from tensor_reshape.conformance.children import Ending, Limits, Outcome, converse
from tensor_reshape.conformance.verdicts import Verdict
from tensor_reshape.rules.json_format import Json

START_SECONDS = 30.0
"""How long a program may take to its first answer, until it is known how long it does: libraries are slow to load."""

_MAX_FAILURES = 10
_MAX_DEPTH = 16  # of an answer: those of the format have 4
_MAX_QUOTED = 200


class ProgramError(Exception):
    """The program has answered nothing; the text says what it did instead."""


class Reply(NamedTuple):
    """What came of a question.

    Attributes:
        record: the JSON of an answer; None: there was none.
        failure: where there was none: a crash, a hang, or garbage.
        why: what is known of the failure.
    """

    record: Json | None
    failure: Verdict = Verdict.GARBAGE
    why: str = ""


class _Listener:
    """Tells which question a line answers: by its id, or where the first answer has none, by its place."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.replies = dict[str, Reply]()
        self.introduction: Json = {}
        self.stray = ""  # the last line that was no answer
        self._waiting = {question.id: None for question in questions}  # in order
        self._has_ids: bool | None = None  # not known yet

    def hear(self, line: bytes) -> bool:
        """Takes a line; returns whether it answers a question."""
        record = _parse(line)
        if isinstance(record, dict) and isinstance(record.get("implementation"), dict) and "id" not in record:
            self.introduction = record["implementation"]
            return False
        if self._has_ids is None and isinstance(record, dict):
            self._has_ids = "id" in record
        name = self._find_question(record)
        if name is None:
            self.stray = _quote(line)
            return False
        del self._waiting[name]
        if isinstance(record, dict):
            self.replies[name] = Reply(record)
        else:
            self.replies[name] = Reply(None, why=f"no JSON object: {_quote(line)}")
        return True

    def _find_question(self, record: object) -> str | None:
        if self._has_ids is False:  # so each line has its place, whatever it is
            return next(iter(self._waiting), None)
        name = record.get("id") if isinstance(record, dict) else None
        return name if isinstance(name, str) and name in self._waiting else None


class ProgramAsker:
    """Asks one program.

    Attributes:
        introduction: what the program says of itself: `{"name", "versions"}`, each optional.
    """

    def __init__(
        self,
        command: Sequence[str],
        seconds: float,
        told: Callable[[], object] = bool,
    ) -> None:
        """Starts nothing yet.

        Args:
            command: the program and its arguments.
            seconds: how long it may take for an answer.
            told: is called after each reply.
        """
        self.introduction: Json = {}
        self._command, self._seconds, self._told = command, seconds, told
        self._start_seconds = max(START_SECONDS, seconds)
        self._known: Question | None = None  # one that was answered
        self._failures = 0  # in a row

    async def ask(self, questions: Sequence[Question]) -> dict[str, Reply]:
        """Returns a reply to each question, by its id.

        Raises:
            OSError: the program cannot be started.
            ProgramError: it has never answered anything, and seems not to.
        """
        replies, waiting, size = dict[str, Reply](), list(questions), len(questions)
        while waiting:
            part = waiting[:size]
            heard, failure = await self._converse(part)
            replies |= heard
            size *= 2
            if await self._is_silent(failure, waiting):
                raise ProgramError(failure.why)
            if len(heard) < len(part):
                suspect = next(question for question in part if question.id not in heard)
                # Alone, it is known whose failure it is.
                alone, failure = ({}, failure) if len(part) == 1 else await self._converse([suspect])
                replies[suspect.id] = alone.get(suspect.id, failure)
                size = max(len(part) // 2, 1) if alone else len(waiting)
                self._failures = 0 if heard or alone else self._failures + 1
                if self._known is None and self._failures >= _MAX_FAILURES:
                    raise ProgramError(failure.why)
                if await self._is_dead():
                    return {question.id: failure for question in questions} | replies
            waiting = [question for question in waiting if question.id not in replies]
        return replies

    async def _converse(self, questions: Sequence[Question]) -> tuple[dict[str, Reply], Reply]:
        """Returns what a new process answers, and what became of it then."""
        listener, begin = _Listener(questions), time.monotonic()
        first: list[float] = []

        def hear(line: bytes) -> bool:
            is_answer = listener.hear(line)
            if is_answer:
                self._told()
                first[:] = first or [time.monotonic()]
            return is_answer

        lines = [json.dumps(question.asked).encode() for question in questions]
        outcome = await converse(self._command, lines, hear, Limits(self._start_seconds, self._seconds))
        if first:  # with room for a machine that is busier the next time
            self._start_seconds = self._seconds + 4 * (first[0] - begin)
            self._known = next(question for question in questions if question.id in listener.replies)
        self.introduction = listener.introduction or self.introduction
        seconds = self._start_seconds if self._known is None else self._seconds
        return listener.replies, _describe_failure(outcome, listener.stray, seconds)

    async def _is_silent(self, failure: Reply, waiting: Sequence[Question]) -> bool:
        """Whether the program has never answered, and is silent to another question than the first as well."""
        if self._known is not None or failure.failure is not Verdict.HANG or len(waiting) == 1:
            return False
        heard, failure = await self._converse(waiting[-1:])
        return not heard and failure.failure is Verdict.HANG

    async def _is_dead(self) -> bool:
        """Whether the program will not answer anything any more."""
        if self._known is None or self._failures < _MAX_FAILURES:
            return False
        self._failures = 0
        return not (await self._converse([self._known]))[0]


def _describe_failure(outcome: Outcome, stray: str, seconds: float) -> Reply:
    """Returns what a question has for a reply that ended a conversation."""
    quoted = f"; it wrote {stray}" if stray else ""
    last = outcome.tail.splitlines()[-1:] or [""]
    said = f": {_quote(last[0].encode())}" if last[0] else ""
    match outcome.ending:
        case Ending.SILENT:
            return Reply(None, Verdict.HANG, f"no answer in {seconds:g} s{said}{quoted}")
        case Ending.FLOODED:
            return Reply(None, Verdict.GARBAGE, f"too much that is no answer{quoted}")
        case _ if outcome.code:
            return Reply(None, Verdict.CRASH, f"{_describe_code(outcome.code)}{said}{quoted}")
        case _:
            return Reply(None, Verdict.GARBAGE, f"the program ended without a response{said}{quoted}")


def _describe_code(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _parse(line: bytes) -> Any:  # noqa: ANN401 - JSON
    """Returns what a line says; None: nothing, or something too deep for those who write it down again."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return None if _is_deep(value) else value


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        lists = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [value for values in lists for value in values]
    return bool(level)


def _quote(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."
