"""`tensor-reshape infer --batch`: the same with and without a server."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import Outcome, run_command
from server_processes import ServerProcess
from tensor_reshape.cli import batches
from tensor_reshape.cli.batches import answer_lines
from tensor_reshape.client import InferredShape, ReshapeError, ShapeQuery
from tensor_reshape.client import infer_locally as answer_locally
from tensor_reshape.client.queries import MAX_CALL_QUERIES, read_query
from tensor_reshape.wire.batches import encode_batch_item

NOBODY = ["--server", "127.0.0.1:1", "--timeout", "0.5"]
Line = dict[str, Any]
SIX: Line = {"data": [2, 3], "shape": [-1], "special_zero": False}
REFUSED: Line = {"data": [2, 3], "shape": [4, -1], "special_zero": False}
UNREADABLE: list[tuple[Line | bytes, str, str]] = [
    (b"", "MESSAGE_MALFORMED", ""),
    (b"[1]", "MESSAGE_MALFORMED", ""),
    (b"\xff", "MESSAGE_MALFORMED", ""),
    (b"[" * 100_000, "MESSAGE_MALFORMED", ""),
    (b'{"data": [1' + b"0" * 5000 + b"]}", "MESSAGE_MALFORMED", ""),
    ({**SIX, "shap": [1]}, "MESSAGE_MALFORMED", ""),
    ({"data": [2], "special_zero": True}, "FIELD_MISSING", "shape"),
    ({"shape": [2], "special_zero": True}, "FIELD_MISSING", "data"),
    ({"data": [2], "shape": [2]}, "SPECIAL_ZERO_MISSING", "special_zero"),
    ({**SIX, "special_zero": 1}, "MESSAGE_MALFORMED", "special_zero"),
    ({**SIX, "data": "2,3"}, "MESSAGE_MALFORMED", "data"),
    ({**SIX, "data": [2, True]}, "MESSAGE_MALFORMED", "data[1]"),
    ({**SIX, "data": [2.0]}, "MESSAGE_MALFORMED", "data[0]"),
    ({**SIX, "data": [[1, 2, 3]]}, "MESSAGE_MALFORMED", "data[0]"),
    ({**SIX, "data": [["1", 2]]}, "MESSAGE_MALFORMED", "data[0]"),
    ({**SIX, "data": [{"min": 1}]}, "MESSAGE_MALFORMED", "data[0]"),
    ({**SIX, "data": ["1.5"]}, "DIM_UNREADABLE", "data[0]"),
    ({**SIX, "data": [2**70]}, "DIM_OUT_OF_RANGE", "data.dims[0]"),
    ({**SIX, "data": [[8, 2]]}, "INTERVAL_EMPTY", "data.dims[0]"),
    ({**SIX, "strides": [3, 2**63]}, "MESSAGE_MALFORMED", "strides"),
    ({**SIX, "strides": [3]}, "STRIDES_RANK_MISMATCH", "data.strides"),
    ({**SIX, "operation": "flatten"}, "OPERATION_UNSPECIFIED", "operation"),
    ({**SIX, "operation": 1}, "MESSAGE_MALFORMED", "operation"),
    ({**SIX, "data_from": "0"}, "MESSAGE_MALFORMED", "data_from"),
    ({**SIX, "data": [1] * 70_000}, "RANK_UNSUPPORTED", "data.dims"),
]


def infer(server: ServerProcess, *arguments: str | Path, stdin: bytes = b"") -> Outcome:
    return run_command("infer", "--server", server.address, *arguments, stdin=stdin)


def infer_locally(*arguments: str | Path, stdin: bytes = b"") -> Outcome:
    return run_command("infer", "--local", *NOBODY, *arguments, stdin=stdin)


def infer_batch(server: ServerProcess, *lines: Line | bytes) -> list[Line]:
    """Answers with and without a server: the same to the byte."""
    stdin = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    remote, local = infer(server, "--batch", "-", stdin=stdin), infer_locally("--batch", "-", stdin=stdin)
    assert remote.errors == local.errors == []
    assert (remote.code, remote.output) == (local.code, local.output)
    answers = [json.loads(line) for line in remote.text.splitlines()]
    assert remote.code == (3 if any("error" in answer for answer in answers) else 0)
    assert len(answers) == len(lines)
    return answers


def infer_line(server: ServerProcess, line: Line | bytes) -> Line:
    (answer,) = infer_batch(server, line)
    return answer


def read_refusal(answer: Line) -> tuple[str, str]:
    assert set(answer["error"]) == {"reason", "message", "field", "metadata"}
    return answer["error"]["reason"], answer["error"]["field"]


def test_a_batch_is_read_from_a_file_or_a_pipe(tmp_path: Path, server: ServerProcess):
    path = tmp_path / "questions.jsonl"
    path.write_text(f"{json.dumps(SIX)}\n{json.dumps(SIX)}")
    assert infer(server, "--batch", path).text == '{"shape": [6]}\n{"shape": [6]}'
    assert infer(server, "--batch", "-", stdin=path.read_bytes()).text == '{"shape": [6]}\n{"shape": [6]}'


def test_an_empty_batch_has_no_answers(server: ServerProcess):
    assert infer_batch(server) == []


def test_a_line_of_a_batch_asks_all_that_options_do(server: ServerProcess):
    line = {"data": [4, 0, 2], "shape": [-1, 0], "special_zero": True, "operation": "reshape", "expected": ["R", None]}
    answer = infer_line(server, {**line, "explain": True, "strides": [0, 2, 1], "data_from": None})
    assert answer["shape"] == [8, 0]
    assert [origin["kind"] for origin in answer["origins"]] == ["inferred", "copied"]
    assert answer["view"]["possibility"] == "possible"


def test_the_dims_of_an_answer_can_be_asked_again(server: ServerProcess):
    dims = [7, "N:1..8", "2..8", None, [2, None], {"min": 2, "max": 8}, "4*C"]
    answers = infer_batch(server, *({"data": [dim, 2], "shape": [0, 2], "special_zero": True} for dim in dims))
    again = ({"data": answer["shape"], "shape": [0, 2], "special_zero": True} for answer in answers)
    assert infer_batch(server, *again) == answers


def test_a_line_takes_the_output_of_an_earlier_one(server: ServerProcess):
    links = [{"data_from": index, "shape": [3, -1], "special_zero": False} for index in (0, 1)]
    assert [answer["shape"] for answer in infer_batch(server, SIX, *links)] == [[6], [3, 2], [3, 2]]


def test_a_refused_line_refuses_what_depends_on_it_alone(server: ServerProcess):
    link = {"shape": [-1], "special_zero": False}
    answers = infer_batch(server, b"no JSON", REFUSED, {**link, "data_from": 0}, {**link, "data_from": 1}, SIX)
    assert [read_refusal(answer)[0] for answer in answers[:4]] == [
        "MESSAGE_MALFORMED",
        "NOT_DIVISIBLE",
        "LINK_FAILED",
        "LINK_FAILED",
    ]
    assert answers[3]["error"]["metadata"] == {"index": "3", "value": "1"}
    assert answers[4] == {"shape": [6]}


def test_a_link_to_no_earlier_line_is_refused(server: ServerProcess):
    lines = [{"data_from": data_from, "shape": [-1], "special_zero": False} for data_from in (0, 5, -1, 2**70)]
    assert [read_refusal(answer) for answer in infer_batch(server, *lines)] == [("LINK_INVALID", "data_from")] * 4


def test_a_line_has_data_of_its_own_or_of_another(server: ServerProcess):
    assert read_refusal(infer_batch(server, SIX, {**SIX, "data_from": 0})[1]) == ("LINK_INVALID", "data_from")


def test_a_line_that_is_no_question_is_refused_alone(server: ServerProcess):
    *answers, last = infer_batch(server, *(line for line, _, _ in UNREADABLE), SIX)
    assert [read_refusal(answer) for answer in answers] == [(reason, field) for _, reason, field in UNREADABLE]
    assert last == {"shape": [6]}


def test_links_hold_across_the_calls_of_a_large_batch(server: ServerProcess):
    count = 5000
    shapes = [[6], [2, 3]]
    chain = [{"data_from": index, "shape": shapes[index % 2], "special_zero": False} for index in range(count)]
    far = [{"data_from": index, "shape": [0], "special_zero": True} for index in (0, count + 1)]
    *answers, refused, first, failed = infer_batch(server, SIX, *chain, REFUSED, *far)
    assert answers == [{"shape": [6]}, *({"shape": shapes[index % 2]} for index in range(count))]
    assert (read_refusal(refused)[0], first) == ("NOT_DIVISIBLE", {"shape": [6]})
    assert read_refusal(failed) == ("LINK_FAILED", "data_from")
    assert failed["error"]["metadata"] == {"index": str(count + 3), "value": str(count + 1)}


def test_answers_have_the_ids_of_their_lines(server: ServerProcess):
    answers = infer_batch(server, {**SIX, "id": "six"}, {**REFUSED, "id": 2}, SIX, {**SIX, "id": "odd", "shap": [1]})
    assert [answer.get("id") for answer in answers] == ["six", 2, None, "odd"]
    assert (answers[0]["shape"], "error" in answers[1], "error" in answers[3]) == ([6], True, True)


BUFFER: Line = {**SIX, "operation": "reshape", "data_type": "u16", "bytes": "000111012102310141015101"}
BUFFERS: list[tuple[Line, str]] = [
    ({}, "000111012102310141015101"),
    ({"strides": [1, 2]}, "000121024101110131015101"),
    ({"data": [2, 2, 3], "strides": [0, 3, 1]}, "000111012102310141015101" * 2),
    ({"data_type": "u4", "bytes": "123456"}, "123456"),
    ({"data_type": "bool", "data": [], "bytes": "02"}, "02"),
    ({"data": [0, 2**61], "bytes": ""}, ""),
]


@pytest.mark.parametrize(("line", "output"), BUFFERS, ids=str)
def test_a_line_with_bytes_is_executed(server: ServerProcess, line: Line, output: str):
    assert infer_line(server, {**BUFFER, **line})["bytes"] == output


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"bytes": "00"}, ("DATA_SIZE_MISMATCH", "data.data")),
        ({"data": ["N", 3]}, ("FIELD_MISSING", "data")),
        ({"strides": [1, 1]}, ("DATA_SIZE_MISMATCH", "data.data")),
        ({"strides": [2, 1], "bytes": "0000" * 5}, ("STRIDES_OVERLAP", "data.strides")),
        ({"operation": "static_reshape"}, ("DATA_TYPE_UNSUPPORTED", "data.data_type")),
    ],
    ids=str,
)
def test_bytes_that_are_not_the_data_are_refused(server: ServerProcess, line: Line, told: tuple[str, str]):
    assert read_refusal(infer_line(server, {**BUFFER, **line})) == told


def test_a_batch_without_a_server_fails_as_a_whole():
    outcome = run_command("infer", *NOBODY, "--batch", "-", stdin=json.dumps(SIX).encode())
    assert (outcome.code, outcome.text, len(outcome.errors)) == (5, "", 1)


def answer_in_calls(*lines: Line) -> tuple[list[InferredShape | ReshapeError], list[int]]:
    """Answers lines without a server, and counts the questions of each call."""
    calls = list[int]()

    def ask(queries: Sequence[ShapeQuery]) -> list[InferredShape | ReshapeError]:
        calls.append(len(queries))
        return answer_locally(queries)

    return [answer for _, answer in answer_lines((json.dumps(line).encode() for line in lines), ask)], calls


def test_lines_go_in_calls_of_as_many_as_a_server_answers_soon():
    answers, calls = answer_in_calls(*[SIX] * (2 * MAX_CALL_QUERIES + 1))
    assert (len(answers), calls) == (2 * MAX_CALL_QUERIES + 1, [MAX_CALL_QUERIES, MAX_CALL_QUERIES, 1])


def test_no_lines_make_no_call():
    assert answer_in_calls() == ([], [])


def test_a_call_has_no_more_bytes_than_a_server_takes(monkeypatch: pytest.MonkeyPatch):
    item = len(encode_batch_item(read_query(ShapeQuery(data_shape=[2, 3], shape=[-1], special_zero=False))))
    monkeypatch.setattr(batches, "MAX_BATCH_BYTES", 3 * (item + 4))  # the real limit takes seconds to reach
    answers, calls = answer_in_calls(*[SIX] * 7)
    assert (len(answers), calls) == (7, [3, 3, 1])


def test_a_link_to_an_answer_of_an_earlier_call_is_that_answer():
    link = {"data_from": 0, "shape": [3, -1], "special_zero": False}
    answers, calls = answer_in_calls(*[SIX] * MAX_CALL_QUERIES, link)
    assert answers[-1] == (3, 2)
    assert calls == [MAX_CALL_QUERIES, 1]
