"""Cases, programs and results of the conformance runner, for its tests."""

import asyncio
import sys
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from textwrap import dedent
from typing import Any

from tensor_reshape.client import ShapeQuery
from tensor_reshape.client.queries import DimLike, read_dims, read_query
from tensor_reshape.conformance.cases import Case
from tensor_reshape.conformance.programs import ProgramReply, ProgramRunner
from tensor_reshape.conformance.results import Results, count_results, judge_reply
from tensor_reshape.conformance.verdicts import CaseVerdict
from tensor_reshape.wire.dims import encode_shape
from tensor_reshape.wire.inference import build_infer_request
from tensor_reshape.wire.json_messages import describe_message

Json = dict[str, Any]
BECAUSE = "The output has as many elements as the data (both)."
SIX = ShapeQuery(data_shape=[2, 3], shape=[-1], special_zero=False, operation="reshape")


def write_question(query: ShapeQuery = SIX, **changes: Any) -> Json:
    """Returns the JSON of a query with changed fields."""
    return describe_message(build_infer_request(read_query(replace(query, **changes)).request))


def write_shape(*dims: DimLike, **more: object) -> Json:
    """Returns the JSON of an answer with a shape, and with more fields of the message."""
    return {"answer": {"shape": describe_message(encode_shape(read_dims(dims) or ())), **more}}


def write_tensor(data_type: str, dims: Sequence[int], payload: bytes, **more: object) -> Json:
    return {"dataType": data_type, "dims": [*dims], "data": b64encode(payload).decode(), **more}


def make_validator(schema: Json) -> Any:  # noqa: ANN401 - see the next line
    # Imported here, because each test process imports all test files, and this import takes two seconds.
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    return Draft202012Validator(schema)


UNRANKED: Json = {"answer": {}}
RIGHT = write_shape(6)


def make_case(name: str = "inferred/six", right: Json = RIGHT, *, tensor: Json | None = None, **changes: Any) -> Case:
    """Returns a case of Reshape-1 with the query `SIX`, except for changed fields, and maybe with a tensor."""
    full = f"{name}@reshape"
    question = write_question(**changes)
    query = {"id": full, "question": question if tensor is None else {**question, "data": tensor}}
    return Case(full, name.partition("/")[0], query, right, BECAUSE)


def make_cases(count: int) -> list[Case]:
    """Returns cases that differ only in their ids, which are numbered from 0."""
    return [make_case(f"inferred/{number}") for number in range(count)]


def make_results(*replies: tuple[Case, ProgramReply | Json]) -> Results:
    """Returns the results of a run in which each case had this reply, or a reply with this record."""
    rows = [
        judge_reply(case, reply if isinstance(reply, ProgramReply) else ProgramReply(reply)) for case, reply in replies
    ]
    introduction = {"name": "mine", "versions": {"lib": 1.2}}
    return count_results(rows, "its command", introduction, date="2026-01-02", suite="1", sizes=["core"])


def write_program(code: str) -> Sequence[str]:
    """Returns a program in Python; `queries()` yields its input, and `write(shape(6))` writes an answer."""
    prelude = """
        import json, os, sys, time, signal
        def queries():
            for line in sys.stdin: yield json.loads(line)
        def write(record): print(json.dumps(record), flush=True)
        def shape(*dims): return {'answer': {'shape': {'dims': list(dims)}}}
    """
    return (sys.executable, "-S", "-c", dedent(prelude) + dedent(code))


def run_code(code: str, count: int = 5, seconds: float = 20) -> tuple[list[Json | str], list[str], ProgramRunner]:
    """Runs such a program; returns each answer without its id, or the failure, then the explanations and the runner."""
    runner = ProgramRunner(write_program(code), seconds)
    cases = make_cases(count)
    replies = asyncio.run(runner.run(cases))
    assert set(replies) == {case.id for case in cases}
    in_order = [replies[case.id] for case in cases]
    return [_strip(reply) for reply in in_order], [reply.why for reply in in_order], runner


def _strip(reply: ProgramReply) -> Json | str:
    if reply.record is None:
        return str(CaseVerdict(reply.failure))
    return {key: value for key, value in reply.record.items() if key != "id"}


REJECTED = make_case("inferred/five", {"rejection": {"reason": "NOT_DIVISIBLE"}}, shape=[5, -1])
ROWS = make_case("target/rows", write_shape(2, 3), shape=[0, -1], special_zero=True)
BOUNDED = make_case("partial/bounded", write_shape((3, 6), 4), data_shape=[(2, 4), 6], shape=[-1, 4])
HOSTILE = "<script>alert(1)</script>\ud800\x1b[31m]]>&\0"


def make_mixed_results() -> Results:
    return make_results(
        (make_case(), write_shape(6)),
        (make_case("inferred/wrong"), write_shape(7)),
        (make_case("inferred/longer", write_shape(6, 1), shape=[-1, 1]), write_shape(7, 1)),
        (make_case("inferred/crash"), ProgramReply(None, CaseVerdict.CRASH, f"SIGSEGV: {HOSTILE}")),
        (make_case("inferred/hang"), ProgramReply(None, CaseVerdict.HANG, "no answer in 1 s")),
        (REJECTED, {"rejection": {"reason": "OTHER"}}),
        (ROWS, {"answer": {"shape": HOSTILE}}),
        (BOUNDED, write_shape(None, 4)),
        (make_case("partial/not-supported"), {"unsupported": "no such thing"}),
    )
