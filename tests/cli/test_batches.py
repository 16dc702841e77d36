"""`tensor-reshape infer --batch`: the same with and without a server, and buffers that this process cannot reshape."""

import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import NOBODY, ask, run_command
from conformance_runs import write_question, write_tensor
from server_processes import ServerProcess
from tensor_reshape.cli import batches
from tensor_reshape.cli.batches import answer_lines
from tensor_reshape.client import InferredShape, ReshapeError, ShapeQuery
from tensor_reshape.client import infer_locally as answer_locally
from tensor_reshape.client.queries import MAX_CALL_QUERIES, read_query
from tensor_reshape.wire.batches import encode_batch_item
from tensor_reshape.wire.json_messages import Json

Line = dict[str, Any]


def write_line(*, tensor: Json | None = None, **changes: Any) -> Line:
    """Returns a line with the query `SIX` of the conformance tests, changed, and maybe with a tensor."""
    question = write_question(**changes)
    return {"question": question if tensor is None else {**question, "data": tensor}}


def write_link(index: int, **changes: Any) -> Line:
    """Returns a line that reshapes the output of another line."""
    question = write_question(data_shape=None, **changes)
    del question["data"]
    return {"question": question, "dataFrom": index}


def change(line: Line, **keys: object) -> Line:
    return {**line, "question": {**line["question"], **keys}}


SIX = write_line()
REJECTED = write_line(shape=[4, -1])
ELEMENTS = bytes.fromhex("000111012102310141015101")
RIGHT: Line = {"answer": {"shape": {"dims": [6]}, "conditionsComplete": True}}


def write_buffer(
    data: bytes = ELEMENTS, dims: Sequence[int] = (2, 3), data_type: str = "DATA_TYPE_U16", **more: object
) -> Line:
    return write_line(tensor=write_tensor(data_type, dims, data, **more))


BUFFER = write_buffer()
# `conformance/test_cases` has the invalid lines. These lines are rejected later, in different places.
REJECTIONS: list[tuple[Line | bytes, str, str]] = [
    (b'{"data": [1' + b"0" * 5000 + b"]}", "MESSAGE_MALFORMED", ""),
    (write_line(special_zero=None), "SPECIAL_ZERO_MISSING", "special_zero"),
    (write_line(data_shape=[(8, 2)]), "INTERVAL_EMPTY", "data.dims[0]"),
    (write_buffer(strides=[3]), "STRIDES_RANK_MISMATCH", "data.strides"),
    (change(SIX, operation=0), "OPERATION_UNSPECIFIED", "operation"),
    (change(SIX, data={"shape": {"dims": [1] * 70_000}}), "RANK_LIMIT_EXCEEDED", "data.dims"),
    (write_buffer(b"\0"), "DATA_SIZE_MISMATCH", "data.data"),
    (write_line(shape=[None, 3], tensor=write_tensor("DATA_TYPE_U16", [2, 3], ELEMENTS)), "FIELD_MISSING", "shape"),
    (write_buffer(strides=[4, 1]), "DATA_SIZE_MISMATCH", "data.data"),
    (write_buffer(bytes(10), strides=[2, 1]), "STRIDES_OVERLAP", "data.strides"),
    (change(BUFFER, operation="OPERATION_STATIC_RESHAPE"), "DATA_TYPE_UNSUPPORTED", "data.data_type"),
    (change(BUFFER, operation="OPERATION_ONNX_RESHAPE"), "OPERATION_UNSPECIFIED", "operation"),
    (
        change(SIX, operation="OPERATION_STATIC_RESHAPE", data={"shape": {"dims": [1] * 70_000}}),
        "RANK_UNSUPPORTED",
        "data.dims",
    ),
]
BUFFERS: list[tuple[Line, bytes]] = [
    (BUFFER, ELEMENTS),
    (write_buffer(strides=[1, 2]), bytes.fromhex("000121024101110131015101")),
    (write_buffer(dims=[2, 2, 3], strides=[0, 3, 1]), ELEMENTS * 2),
    (write_buffer(b"\x12\x34\x56", data_type="DATA_TYPE_U4"), b"\x12\x34\x56"),
    (write_buffer(b"\x02", dims=[], data_type="DATA_TYPE_BOOLEAN"), b"\x02"),
    (write_buffer(b"", dims=[0, 2**61]), b""),
]


def infer_batch(server: ServerProcess, *lines: Line | bytes) -> list[Line]:
    """Returns the answers, which are the same with and without a server."""
    stdin = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    remote = ask(server, "infer", "--batch", "-", stdin=stdin)
    local = run_command("infer", "--local", *NOBODY, "--batch", "-", stdin=stdin)
    assert remote.errors == local.errors == []
    assert (remote.code, remote.output) == (local.code, local.output)
    answers = [json.loads(line) for line in remote.text.splitlines()]
    assert remote.code == (3 if any("rejection" in answer for answer in answers) else 0)
    assert len(answers) == len(lines)
    return answers


def read_rejection(answer: Line) -> tuple[str, str]:
    rejection = answer["rejection"]
    assert {"reason", "message"} <= rejection.keys() <= {"reason", "message", "field", "metadata", "limitExceeded"}
    assert rejection.get("limitExceeded", False) is (rejection["reason"] == "RANK_LIMIT_EXCEEDED")
    return rejection["reason"], rejection.get("field", "")


def test_infer_reads_a_batch_from_a_file_or_a_pipe(tmp_path: Path, server: ServerProcess):
    path = tmp_path / "questions.jsonl"
    path.write_text(f"{json.dumps(SIX)}\n{json.dumps(SIX)}")
    assert ask(server, "infer", "--batch", path).text == f"{json.dumps(RIGHT)}\n{json.dumps(RIGHT)}"
    assert (
        ask(server, "infer", "--batch", "-", stdin=path.read_bytes()).text
        == f"{json.dumps(RIGHT)}\n{json.dumps(RIGHT)}"
    )
    assert infer_batch(server) == []


def test_rejected_batch_line_rejects_only_lines_that_depend_on_it(server: ServerProcess):
    answers = infer_batch(server, b"no JSON", REJECTED, write_link(0), write_link(1), SIX)
    reasons = [read_rejection(answer)[0] for answer in answers[:4]]
    assert reasons == ["MESSAGE_MALFORMED", "NOT_DIVISIBLE", "BATCH_DEPENDENCY_FAILED", "BATCH_DEPENDENCY_FAILED"]
    assert answers[3]["rejection"]["metadata"] == {"index": "3", "value": "1"}
    assert answers[4] == RIGHT


def test_batch_line_with_an_invalid_data_from_is_rejected(server: ServerProcess):
    answers = infer_batch(server, *map(write_link, (0, 5, -1)), {**SIX, "dataFrom": 0})
    assert [read_rejection(answer) for answer in answers] == [("BATCH_REFERENCE_INVALID", "data_from")] * 4


def test_rejected_batch_lines_do_not_affect_other_lines(server: ServerProcess):
    *answers, last = infer_batch(server, *(line for line, _, _ in REJECTIONS), SIX)
    assert [read_rejection(answer) for answer in answers] == [row[1:] for row in REJECTIONS]
    assert last == RIGHT


def test_data_from_may_refer_to_results_of_an_earlier_call(server: ServerProcess):
    count = 2500
    shapes = [[6], [2, 3]]
    chain = [write_link(index, shape=shapes[index % 2]) for index in range(count)]
    far = [write_link(index, shape=[0], special_zero=True) for index in (0, count + 1)]
    *answers, rejected, first, failed = infer_batch(server, SIX, *chain, REJECTED, *far)
    dims = [answer["answer"]["shape"]["dims"] for answer in answers]
    assert dims == [[6], *(shapes[index % 2] for index in range(count))]
    assert (read_rejection(rejected)[0], first) == ("NOT_DIVISIBLE", RIGHT)
    assert read_rejection(failed) == ("BATCH_DEPENDENCY_FAILED", "data_from")
    assert failed["rejection"]["metadata"] == {"index": str(count + 3), "value": str(count + 1)}


def test_batch_answers_have_the_ids_of_their_lines(server: ServerProcess):
    answers = infer_batch(server, {**SIX, "id": "six"}, {**REJECTED, "id": 2}, SIX, {**SIX, "id": "odd", "questio": {}})
    assert [answer.get("id") for answer in answers] == ["six", 2, None, "odd"]
    assert (answers[2], "rejection" in answers[1], "rejection" in answers[3]) == (RIGHT, True, True)


def test_batch_lines_with_bytes_return_the_reshaped_bytes(server: ServerProcess):
    answers = infer_batch(server, *(line for line, _ in BUFFERS))
    assert [b64decode(answer["output"].get("data", "")) for answer in answers] == [output for _, output in BUFFERS]
    assert (answers[0]["output"]["dataType"], answers[0]["output"]["dims"]) == ("DATA_TYPE_U16", [6])


def test_infer_batch_without_a_server_prints_only_one_error():
    outcome = run_command("infer", *NOBODY, "--batch", "-", stdin=json.dumps(SIX).encode())
    assert (outcome.code, outcome.text, len(outcome.errors)) == (5, "", 1)


def answer_in_calls(*lines: Line) -> tuple[list[InferredShape | ReshapeError], list[int]]:
    """Answers lines without a server, and counts the queries of each call."""
    calls = list[int]()

    def count_and_answer(queries: Sequence[ShapeQuery]) -> list[InferredShape | ReshapeError]:
        calls.append(len(queries))
        return answer_locally(queries)

    lines_read = (json.dumps(line).encode() for line in lines)
    return [answer for _, answer in answer_lines(lines_read, count_and_answer)], calls


def test_batch_is_split_into_calls_of_limited_query_count():
    answers, calls = answer_in_calls(*[SIX] * (2 * MAX_CALL_QUERIES + 1))
    assert (len(answers), calls) == (2 * MAX_CALL_QUERIES + 1, [MAX_CALL_QUERIES, MAX_CALL_QUERIES, 1])
    link = write_link(0, shape=[3, -1])
    answers, calls = answer_in_calls(*[SIX] * MAX_CALL_QUERIES, link)  # the item refers to an answer of the first call
    assert answers[-1] == (3, 2)
    assert calls == [MAX_CALL_QUERIES, 1]
    assert answer_in_calls() == ([], [])


def test_batch_is_split_into_calls_below_the_byte_limit(monkeypatch: pytest.MonkeyPatch):
    item = len(encode_batch_item(read_query(ShapeQuery(data_shape=[2, 3], shape=[-1], special_zero=False))))
    monkeypatch.setattr(batches, "MAX_BATCH_BYTES", 3 * (item + 4))  # the real limit takes seconds to reach
    answers, calls = answer_in_calls(*[SIX] * 7)
    assert (len(answers), calls) == (7, [3, 3, 1])
