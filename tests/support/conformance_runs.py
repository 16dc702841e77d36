"""Queries, programs and results for the tests of the conformance runner."""

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from textwrap import dedent
from typing import Any

from tensor_reshape.conformance.cases import Question
from tensor_reshape.conformance.programs import ProgramAsker, Reply
from tensor_reshape.conformance.results import Results, count_results, judge_replies
from tensor_reshape.conformance.verdicts import Verdict

Json = dict[str, Any]
BECAUSE = "The output has as many elements as the data (both)."
SIX: Json = {"data": [2, 3], "shape": [-1], "special_zero": False}
RIGHT: Json = {"shape": [6]}


def make_question(name: str = "inferred/six", right: Json = RIGHT, **asked: object) -> Question:
    """Returns a query of Reshape-1, by default `SIX`."""
    full = f"{name}@reshape"
    record = {"id": full, "operation": "reshape", **SIX, **asked}
    return Question(full, name.partition("/")[0], record, right, BECAUSE)


def make_questions(count: int) -> list[Question]:
    """Returns `count` equal queries with ids from 0."""
    return [make_question(f"inferred/{number}") for number in range(count)]


def make_results(*replies: tuple[Question, Reply | Json], name: str = "mine") -> Results:
    """Returns the results of a run in which each query got this reply, or a reply with this record."""
    by_id = {question.id: reply if isinstance(reply, Reply) else Reply(reply) for question, reply in replies}
    questions = [question for question, _ in replies]
    make = partial(Results, implementation=name, versions={"lib": "1.2"}, date="2026-01-02", kit="1", sizes=["core"])
    return count_results(questions, by_id, judge_replies(questions, by_id), make)


def write_program(code: str) -> Sequence[str]:
    """Returns a Python program in which `questions()` yields the queries and `tell(record)` writes a result."""
    prelude = """
        import json, os, sys, time, signal
        def questions():
            for line in sys.stdin: yield json.loads(line)
        def tell(record): print(json.dumps(record), flush=True)
    """
    return (sys.executable, "-S", "-c", dedent(prelude) + dedent(code))


def ask(code: str, count: int = 5, seconds: float = 20) -> tuple[list[Json | str], list[str], ProgramAsker]:
    """Runs such a program. Returns the results without ids, or the failures, then the causes, and the asker."""
    asker = ProgramAsker(write_program(code), seconds)
    questions = make_questions(count)
    replies = asyncio.run(asker.ask(questions))
    assert set(replies) == {question.id for question in questions}
    in_order = [replies[question.id] for question in questions]
    told = [_strip(reply) for reply in in_order]
    return told, [reply.why for reply in in_order], asker


def _strip(reply: Reply) -> Json | str:
    if reply.record is None:
        return str(Verdict(reply.failure))
    return {key: value for key, value in reply.record.items() if key != "id"}


REJECTED = make_question("inferred/five", {"error": {"reason": "NOT_DIVISIBLE"}}, shape=[5, -1])
ROWS = make_question("target/rows", {"shape": [2, 3]}, shape=[0, -1], special_zero=True)
BOUNDED = make_question("partial/bounded", {"shape": [{"min": 3, "max": 6}, 4]}, data=[[2, 4], 6], shape=[-1, 4])
HOSTILE = "<script>alert(1)</script>\ud800\x1b[31m]]>&\0"


def make_mixed_results(name: str = "mine") -> Results:
    """Returns results of every kind."""
    return make_results(
        (make_question(), {"shape": [6]}),
        (make_question("inferred/wrong"), {"shape": [7]}),
        (make_question("inferred/longer", {"shape": [6, 1]}, shape=[-1, 1]), {"shape": [7, 1]}),
        (make_question("inferred/crash"), Reply(None, Verdict.CRASH, f"SIGSEGV: {HOSTILE}")),
        (make_question("inferred/hang"), Reply(None, Verdict.HANG, "no answer in 1 s")),
        (REJECTED, {"error": {"reason": "OTHER"}}),
        (ROWS, {"shape": [HOSTILE]}),
        (BOUNDED, {"shape": [None, 4]}),
        (make_question("partial/not-offered"), {"unsupported": "no such thing"}),
        name=name,
    )
