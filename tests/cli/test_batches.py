"""`tensor-reshape infer --batch`: the same with and without a server."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import NOBODY, ask, run_command
from server_processes import ServerProcess
from tensor_reshape.cli import batches
from tensor_reshape.cli.batches import answer_lines
from tensor_reshape.client import InferredShape, ReshapeError, ShapeQuery
from tensor_reshape.client import infer_locally as answer_locally
from tensor_reshape.client.queries import MAX_CALL_QUERIES, read_query
from tensor_reshape.wire.batches import encode_batch_item

Line = dict[str, Any]
SIX: Line = {"data": [2, 3], "shape": [-1], "special_zero": False}
REJECTED: Line = {"data": [2, 3], "shape": [4, -1], "special_zero": False}
BUFFER: Line = {**SIX, "operation": "reshape", "data_type": "u16", "bytes": "000111012102310141015101"}
# `conformance/test_query_records` has the invalid lines. These lines are rejected later, in different places.
REJECTIONS: list[tuple[Line | bytes, str, str]] = [
    (b'{"data": [1' + b"0" * 5000 + b"]}", "MESSAGE_MALFORMED", ""),
    ({"data": [2], "shape": [2]}, "SPECIAL_ZERO_MISSING", "special_zero"),
    ({**SIX, "data": [2.0]}, "MESSAGE_MALFORMED", "data[0]"),
    ({**SIX, "data": [[1, 2, 3]]}, "MESSAGE_MALFORMED", "data[0]"),
    ({**SIX, "data": ["1.5"]}, "DIM_SYNTAX_INVALID", "data[0]"),
    ({**SIX, "data": [2**70]}, "DIM_OUT_OF_RANGE", "data.dims[0]"),
    ({**SIX, "data": [[8, 2]]}, "INTERVAL_EMPTY", "data.dims[0]"),
    ({**SIX, "strides": [3]}, "FIELD_MISSING", "bytes"),
    ({**BUFFER, "strides": [3]}, "STRIDES_RANK_MISMATCH", "data.strides"),
    ({**SIX, "operation": "flatten"}, "OPERATION_UNSPECIFIED", "operation"),
    ({**SIX, "data": [1] * 70_000}, "RANK_UNSUPPORTED", "data.dims"),
    ({**BUFFER, "bytes": "00"}, "DATA_SIZE_MISMATCH", "data.data"),
    ({**BUFFER, "data": ["N", 3]}, "FIELD_MISSING", "data"),
    ({**BUFFER, "strides": [4, 1]}, "DATA_SIZE_MISMATCH", "data.data"),
    ({**BUFFER, "strides": [2, 1], "bytes": "0000" * 5}, "STRIDES_OVERLAP", "data.strides"),
    ({**BUFFER, "operation": "static_reshape"}, "DATA_TYPE_UNSUPPORTED", "data.data_type"),
]
BUFFERS: list[tuple[Line, str]] = [
    ({}, "000111012102310141015101"),
    ({"strides": [1, 2]}, "000121024101110131015101"),
    ({"data": [2, 2, 3], "strides": [0, 3, 1]}, "000111012102310141015101" * 2),
    ({"data_type": "u4", "bytes": "123456"}, "123456"),
    ({"data_type": "bool", "data": [], "bytes": "02"}, "02"),
    ({"data": [0, 2**61], "bytes": ""}, ""),
]


def infer_batch(server: ServerProcess, *lines: Line | bytes) -> list[Line]:
    """Returns the answers, which are the same with and without a server."""
    stdin = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    remote = ask(server, "infer", "--batch", "-", stdin=stdin)
    local = run_command("infer", "--local", *NOBODY, "--batch", "-", stdin=stdin)
    assert remote.errors == local.errors == []
    assert (remote.code, remote.output) == (local.code, local.output)
    answers = [json.loads(line) for line in remote.text.splitlines()]
    assert remote.code == (3 if any("error" in answer for answer in answers) else 0)
    assert len(answers) == len(lines)
    return answers


def read_rejection(answer: Line) -> tuple[str, str]:
    assert set(answer["error"]) == {"reason", "message", "field", "metadata"}
    return answer["error"]["reason"], answer["error"]["field"]


def test_infer_reads_a_batch_from_a_file_or_a_pipe(tmp_path: Path, server: ServerProcess):
    path = tmp_path / "questions.jsonl"
    path.write_text(f"{json.dumps(SIX)}\n{json.dumps(SIX)}")
    assert ask(server, "infer", "--batch", path).text == '{"shape": [6]}\n{"shape": [6]}'
    assert ask(server, "infer", "--batch", "-", stdin=path.read_bytes()).text == '{"shape": [6]}\n{"shape": [6]}'
    assert infer_batch(server) == []


def test_batch_line_accepts_all_options_of_the_infer_command(server: ServerProcess):
    line = {"data": [4, 0, 2], "shape": [-1, 0], "special_zero": True, "operation": "reshape", "expected": ["R", None]}
    (answer,) = infer_batch(server, {**line, "explain": True, "data_from": None})
    assert answer["shape"] == [8, 0]
    assert [origin["kind"] for origin in answer["origins"]] == ["inferred", "copied"]


def test_rejected_batch_line_rejects_only_lines_that_depend_on_it(server: ServerProcess):
    link = {"shape": [-1], "special_zero": False}
    answers = infer_batch(server, b"no JSON", REJECTED, {**link, "data_from": 0}, {**link, "data_from": 1}, SIX)
    reasons = [read_rejection(answer)[0] for answer in answers[:4]]
    assert reasons == ["MESSAGE_MALFORMED", "NOT_DIVISIBLE", "BATCH_DEPENDENCY_FAILED", "BATCH_DEPENDENCY_FAILED"]
    assert answers[3]["error"]["metadata"] == {"index": "3", "value": "1"}
    assert answers[4] == {"shape": [6]}


def test_batch_line_with_an_invalid_data_from_is_rejected(server: ServerProcess):
    lines = [{"data_from": data_from, "shape": [-1], "special_zero": False} for data_from in (0, 5, -1, 2**70)]
    answers = infer_batch(server, *lines, {**SIX, "data_from": 0})
    assert [read_rejection(answer) for answer in answers] == [("BATCH_REFERENCE_INVALID", "data_from")] * 5


def test_rejected_batch_lines_do_not_affect_other_lines(server: ServerProcess):
    *answers, last = infer_batch(server, *(line for line, _, _ in REJECTIONS), SIX)
    assert [read_rejection(answer) for answer in answers] == [row[1:] for row in REJECTIONS]
    assert last == {"shape": [6]}


def test_data_from_may_refer_to_results_of_an_earlier_call(server: ServerProcess):
    count = 2500
    shapes = [[6], [2, 3]]
    chain = [{"data_from": index, "shape": shapes[index % 2], "special_zero": False} for index in range(count)]
    far = [{"data_from": index, "shape": [0], "special_zero": True} for index in (0, count + 1)]
    *answers, rejected, first, failed = infer_batch(server, SIX, *chain, REJECTED, *far)
    assert answers == [{"shape": [6]}, *({"shape": shapes[index % 2]} for index in range(count))]
    assert (read_rejection(rejected)[0], first) == ("NOT_DIVISIBLE", {"shape": [6]})
    assert read_rejection(failed) == ("BATCH_DEPENDENCY_FAILED", "data_from")
    assert failed["error"]["metadata"] == {"index": str(count + 3), "value": str(count + 1)}


def test_batch_answers_have_the_ids_of_their_lines(server: ServerProcess):
    answers = infer_batch(server, {**SIX, "id": "six"}, {**REJECTED, "id": 2}, SIX, {**SIX, "id": "odd", "shap": [1]})
    assert [answer.get("id") for answer in answers] == ["six", 2, None, "odd"]
    assert (answers[0]["shape"], "error" in answers[1], "error" in answers[3]) == ([6], True, True)


def test_batch_lines_with_bytes_return_the_reshaped_bytes(server: ServerProcess):
    answers = infer_batch(server, *({**BUFFER, **line} for line, _ in BUFFERS))
    assert [answer["bytes"] for answer in answers] == [output for _, output in BUFFERS]


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
    link = {"data_from": 0, "shape": [3, -1], "special_zero": False}
    answers, calls = answer_in_calls(*[SIX] * MAX_CALL_QUERIES, link)  # the item refers to an answer of the first call
    assert answers[-1] == (3, 2)
    assert calls == [MAX_CALL_QUERIES, 1]
    assert answer_in_calls() == ([], [])


def test_batch_is_split_into_calls_below_the_byte_limit(monkeypatch: pytest.MonkeyPatch):
    item = len(encode_batch_item(read_query(ShapeQuery(data_shape=[2, 3], shape=[-1], special_zero=False))))
    monkeypatch.setattr(batches, "MAX_BATCH_BYTES", 3 * (item + 4))  # the real limit takes seconds to reach
    answers, calls = answer_in_calls(*[SIX] * 7)
    assert (len(answers), calls) == (7, [3, 3, 1])
