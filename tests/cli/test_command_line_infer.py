"""`tensor-reshape infer` on what is known in part, and on batches, in processes of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Outcome, run_command
from server_processes import ServerProcess

NOBODY = ["--server", "127.0.0.1:1", "--timeout", "0.5"]
NAMED = ["--data", "N,4,C", "--shape", "0,-1", "--special-zero"]
KNOWN = ["--data", "2,3,4", "--shape", "0,-1", "--special-zero"]
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


@pytest.mark.parametrize(
    ("data", "shape", "text"),
    [
        ("2,3,4", "0,-1", "2,12"),
        ("N,4,?", "0,-1", "N,?"),
        ("N,4,C", "0,-1", "N,4*C"),
        ("2..8,4", "0,-1", "2..8,4"),
        ("N:1..8, 4*C", "-1", "4*C*N"),
        ("unknown", "0,?", "?,?"),
        ("...", "...", "..."),
        ("2,3", "...", "..."),
        ("", "", ""),
    ],
)
def test_infer_prints_dims_as_people_write_them(data: str, shape: str, text: str, server: ServerProcess):
    arguments = ["--data", data, "--shape", shape, "--special-zero"]
    remote, local = infer(server, *arguments), infer_locally(*arguments)
    assert (remote.code, remote.text) == (local.code, local.text) == (0, text)


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        ("2,3,4", [2, 12]),
        ("N,?", [{"min": 1, "max": None, "name": "N"}, None]),
        ("2..8,N:1..9", [{"min": 2, "max": 8}, {"min": 1, "max": 9, "name": "N"}]),
    ],
)
def test_infer_prints_dims_in_json(data: str, shape: list[object], server: ServerProcess):
    outcome = infer(server, "--data", data, "--shape", "0,-1", "--special-zero", "--json")
    assert json.loads(outcome.output) == {"shape": shape}


def test_an_unknown_rank_is_null_in_json(server: ServerProcess):
    outcome = infer(server, "--data", "2,3", "--shape", "...", "--special-zero", "--json")
    assert json.loads(outcome.output) == {"shape": None}


def test_what_is_expected_is_part_of_what_is_known(server: ServerProcess):
    outcome = infer(server, "--data", "...", "--shape", "...", "--no-special-zero", "--expect", "N,2..8,?")
    assert outcome.text == "N,2..8,?"


def test_an_explanation_has_a_line_for_each_dim(server: ServerProcess):
    first, *lines = infer(server, *NAMED, "--explain").text.splitlines()
    assert (first, len(lines)) == ("N,4*C", 2)
    assert lines[0].startswith("shape[0] is 0 and special_zero is true")
    assert lines[1] == "shape[1] is -1: N*C*4 / N = 4*C"


def test_an_explanation_in_json_tells_kinds_and_divisions(server: ServerProcess):
    copied, inferred = json.loads(infer(server, *NAMED, "--explain", "--json").output)["origins"]
    assert (copied["kind"], copied["data_index"]) == ("copied", 0)
    assert (inferred["kind"], inferred["divisor"]) == ("inferred", "N")
    assert set(inferred) == {"kind", "text", "dividend", "divisor"}


def test_equalities_follow_an_explanation(server: ServerProcess):
    arguments = ["--data", "B,C", "--shape", "D,C", "--no-special-zero"]
    assert infer(server, *arguments).text == "D,C"
    assert infer(server, *arguments, "--explain").text.splitlines()[-1] == "B = D unless the tensor is empty"
    record = json.loads(infer(server, *arguments, "--json").output)
    assert record["equalities"] == [{"left": "B", "right": "D", "unless_empty": True}]


@pytest.mark.parametrize(
    ("strides", "text", "view"),
    [
        ("12,4,1", "view: possible, strides 12,1", {"possibility": "possible", "strides": [12, 1]}),
        ("12,1,3", "view: impossible", {"possibility": "impossible", "strides": None}),
    ],
)
def test_strides_ask_for_a_view(strides: str, text: str, view: Line, server: ServerProcess):
    assert infer(server, *KNOWN, "--strides", strides).text == f"2,12\n{text}"
    record = json.loads(infer(server, *KNOWN, "--strides", strides, "--json").output)
    assert record == {"shape": [2, 12], "view": view}


def test_a_view_of_what_is_known_in_part_is_unknown(server: ServerProcess):
    assert infer(server, *NAMED, "--strides", "12,4,1").text.endswith("\nview: unknown")


def test_an_explained_refusal_in_json_tells_rule_and_what_is_accepted(server: ServerProcess):
    arguments = ["--data", "2,3", "--shape", "4,-1", "--special-zero", "--explain", "--json"]
    for outcome in (infer(server, *arguments), infer_locally(*arguments)):
        metadata = json.loads(outcome.errors[0])["metadata"]
        assert (outcome.code, metadata["rule"]) == (3, "3")
        assert "divides 6" in metadata["accepted"]


def test_a_local_refusal_is_one_line_with_its_reason():
    outcome = infer_locally("--data", "2,3", "--shape", "4,-1", "--special-zero")
    assert (outcome.code, outcome.text, len(outcome.errors)) == (3, "", 1)
    assert outcome.errors[0].endswith("[NOT_DIVISIBLE]")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--shape", "2", "--special-zero"], "--data"),
        (["--data", "2", "--special-zero"], "--shape"),
        (["--data", "2", "--shape", "2"], "--special-zero"),
        (["--data", "1.5", "--shape", "2", "--special-zero"], "1.5"),
        (["--data", "2", "--shape", "2", "--special-zero", "--strides", "?"], "'?'"),
        (["--data", "2", "--shape", "2", "--special-zero", "--strides", str(2**63)], "2^63 - 1"),
        (["--batch", "missing.jsonl"], "missing.jsonl"),
        (["--batch", "-", "--explain"], "--explain"),
        (["--batch", "-", "--no-special-zero"], "--special-zero"),
    ],
)
def test_wrong_usage_says_what_is_wrong(arguments: list[str], word: str):
    outcome = infer_locally(*arguments)
    assert (outcome.code, outcome.text, word in outcome.errors[-1]) == (2, "", True)


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


def test_a_batch_without_a_server_fails_as_a_whole():
    outcome = run_command("infer", *NOBODY, "--batch", "-", stdin=json.dumps(SIX).encode())
    assert (outcome.code, outcome.text, len(outcome.errors)) == (5, "", 1)
