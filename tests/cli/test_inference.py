"""`tensor-reshape infer` on what is known, and on what is known in part."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Outcome, run_command
from server_processes import ServerProcess


def infer_data(server: ServerProcess, *arguments: str) -> Outcome:
    return infer(server, "--data", "2,3,4", "--special-zero", *arguments)


NOBODY = ["--server", "127.0.0.1:1", "--timeout", "0.5"]
NAMED = ["--data", "N,4,C", "--shape", "0,-1", "--special-zero"]
KNOWN = ["--data", "2,3,4", "--shape", "0,-1", "--special-zero"]
Line = dict[str, Any]


def infer(server: ServerProcess, *arguments: str | Path, stdin: bytes = b"") -> Outcome:
    return run_command("infer", "--server", server.address, *arguments, stdin=stdin)


def infer_locally(*arguments: str | Path, stdin: bytes = b"") -> Outcome:
    return run_command("infer", "--local", *NOBODY, *arguments, stdin=stdin)


def test_infer_prints_the_shape(server: ServerProcess):
    assert (infer_data(server, "--shape", "0,-1").text) == "2,12"


def test_infer_prints_the_shape_in_json(server: ServerProcess):
    assert json.loads(infer_data(server, "--shape", "0,-1", "--json").output) == {"shape": [2, 12]}


def test_infer_answers_for_the_operation_that_is_named(server: ServerProcess):
    outcome = infer(server, "--data", "4,0,2", "--shape", "-1,0", "--special-zero", "--operation", "reshape")
    assert outcome.text == "8,0"


def test_infer_writes_a_scalar_as_nothing(server: ServerProcess):
    outcome = infer(server, "--data", "", "--shape", "", "--no-special-zero", "--json")
    assert json.loads(outcome.output) == {"shape": []}


def test_an_expected_shape_may_leave_dims_open(server: ServerProcess):
    assert infer_data(server, "--shape", "0,-1", "--expect", "2,?").code == 0


def test_an_expected_shape_that_does_not_hold_is_a_refusal(server: ServerProcess):
    assert infer_data(server, "--shape", "0,-1", "--expect", "3,?").code == 3


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
