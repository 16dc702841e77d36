"""`tensor-reshape infer` for known and partially known shapes."""

import json
from typing import Any

from command_line import NOBODY, Outcome, ask, run_command
from server_processes import ServerProcess

NAMED = ("--data", "N,4,C", "--shape", "0,-1", "--special-zero")
KNOWN = ("--data", "2,3,4", "--shape", "0,-1", "--special-zero")
REJECTED = ("--data", "2,3", "--shape", "4,-1", "--special-zero")


def infer(server: ServerProcess, *arguments: str) -> Outcome:
    """Returns the outcome, which is the same without a server."""
    remote, local = ask(server, "infer", *arguments), infer_locally(*arguments)
    assert (remote.code, remote.output, remote.errors) == (local.code, local.output, local.errors)
    return remote


def infer_locally(*arguments: str) -> Outcome:
    return run_command("infer", "--local", *NOBODY, *arguments)


def read(server: ServerProcess, *arguments: str) -> dict[str, Any]:
    """Returns the JSON of an answer."""
    record: dict[str, Any] = json.loads(infer(server, *arguments, "--json").output)
    return record


def test_infer_command_prints_dims_in_shape_notation(server: ServerProcess):
    texts = {
        ("2,3,4", "0,-1"): "2,12",
        ("N,4,?", "0,-1"): "N,?\nrequires: N >= 1",
        ("N,4,C", "0,-1"): "N,4*C\nrequires: N >= 1",
        ("2..8,4", "0,-1"): "2..8,4",
        ("N:1..8, 4*C", "-1"): "4*C*N",
        ("unknown", "0,?"): "?,?",
        ("...", "..."): "...",
        ("2,3", "..."): "...",
        ("", ""): "",
    }
    answers = {row: infer(server, "--data", row[0], "--shape", row[1], "--special-zero") for row in texts}
    assert {row: (answer.code, answer.text) for row, answer in answers.items()} == {
        row: (0, text) for row, text in texts.items()
    }


def test_infer_command_uses_the_given_operation(server: ServerProcess):
    arguments = ("--data", "4,0,2", "--shape", "-1,0", "--special-zero", "--operation", "reshape")
    assert infer(server, *arguments).text == "8,0"


def test_infer_expect_option_checks_and_narrows_the_result(server: ServerProcess):
    assert (infer(server, *KNOWN, "--expect", "2,?").code, infer(server, *KNOWN, "--expect", "3,?").code) == (0, 3)
    unknown = ("--data", "...", "--shape", "...", "--no-special-zero")
    assert infer(server, *unknown, "--expect", "N,2..8,?").text == "N,2..8,?"


def test_infer_explain_prints_a_line_for_each_dim(server: ServerProcess):
    first, *lines, groups, last = infer(server, *NAMED, "--explain").text.splitlines()
    assert (first, len(lines), last) == ("N,4*C", 2, "requires: N >= 1")
    assert groups == "groups: 0 -> 0; 1,2 -> 1"
    assert lines[0].startswith("shape[0] is 0 and special_zero is true")
    assert lines[1] == "shape[1] is -1: N*C*4 / N = 4*C"
    copied, inferred = read(server, *NAMED, "--explain")["origins"]
    assert (copied["kind"], copied["dataIndex"]) == ("KIND_COPIED", 0)
    assert (inferred["kind"], inferred["divisor"]) == ("KIND_INFERRED", "N")
    assert set(inferred) == {"kind", "text", "dividend", "divisor"}


def test_infer_command_prints_conditions_after_the_shape(server: ServerProcess):
    arguments = ["--data", "B,C", "--shape", "D,C", "--no-special-zero"]
    assert infer(server, *arguments).text == "D,C\nrequires: B = D unless C = 0"
    (condition,) = read(server, *arguments)["conditions"]
    assert (condition["text"], condition["unlessZero"]) == ("B = D unless C = 0", {"factors": [{"name": "C"}]})


def test_infer_prints_a_rejection_as_one_line_or_json(server: ServerProcess):
    outcome = infer(server, *REJECTED)
    assert (outcome.code, outcome.text, len(outcome.errors)) == (3, "", 1)
    assert outcome.errors[0].endswith("[NOT_DIVISIBLE]")
    outcome = infer(server, *REJECTED, "--explain", "--json")
    metadata = json.loads(outcome.output)["rejection"]["metadata"]
    assert (outcome.code, outcome.errors, metadata["rule"], "divides 6" in metadata["accepted"]) == (3, [], "3", True)


def test_infer_usage_errors_name_the_wrong_option_or_value():
    for arguments, word in (
        (("--shape", "2", "--special-zero"), "--data"),
        (("--data", "2", "--special-zero"), "--shape"),
        (("--data", "2", "--shape", "2"), "--special-zero"),
        (("--data", "1.5", "--shape", "2", "--special-zero"), "1.5"),
        (("--batch", "missing.jsonl"), "missing.jsonl"),
        (("--batch", "-", "--explain"), "--explain"),
        (("--batch", "-", "--no-special-zero"), "--special-zero"),
    ):
        outcome = infer_locally(*arguments)
        assert (outcome.code, outcome.text, word in outcome.errors[-1]) == (2, "", True), arguments
