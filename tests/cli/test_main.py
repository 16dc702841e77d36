"""How a command ends, as a process: its exit code, and one line for whatever goes wrong on purpose."""

import json
from pathlib import Path

import numpy as np

from command_line import Outcome, run_module
from server_processes import ServerProcess, run_server

NOBODY = ["--server", "127.0.0.1:1", "--timeout", "0.5"]


def run(command: str, *arguments: str | Path) -> Outcome:
    return run_module("tensor_reshape.cli", command, *arguments)


def ask(server: ServerProcess, command: str, *arguments: str | Path) -> Outcome:
    return run(command, "--server", server.address, *arguments)


def infer(server: ServerProcess, *arguments: str) -> Outcome:
    return ask(server, "infer", "--data", "2,3,4", "--special-zero", *arguments)


def test_health_fails_where_nobody_listens():
    outcome = run("health", *NOBODY)
    assert (outcome.code, outcome.text, len(outcome.errors)) == (5, "", 1)


def test_a_refusal_is_one_line_with_its_reason(server: ServerProcess):
    outcome = infer(server, "--shape", "5,-1")
    assert (outcome.code, outcome.text, len(outcome.errors)) == (3, "", 1)
    assert outcome.errors[0].endswith("[NOT_DIVISIBLE]")


def test_a_refusal_in_json_has_its_reason_field_and_metadata(server: ServerProcess):
    outcome = infer(server, "--shape", "5,-1", "--json")
    report = json.loads(outcome.errors[0])
    assert (outcome.code, report["reason"], report["field"]) == (3, "NOT_DIVISIBLE", "shape[1]")
    assert report["metadata"]["index"] == "1"


def test_a_limit_has_an_exit_code_of_its_own(tmp_path: Path):
    path = tmp_path / "large.npy"
    np.save(path, np.zeros(2000, np.float32))
    with run_server("--max-message-bytes", "4096") as small:
        outcome = ask(small, "static", path, "--shape", "-1", "--no-special-zero")
    assert (outcome.code, len(outcome.errors)) == (4, 1)


def test_an_error_of_usage_is_json_where_that_is_asked_for(server: ServerProcess):
    outcome = ask(server, "infer", "--data", "2", "--shape", "2", "--json")
    assert outcome.code == 2
    assert "special-zero" in json.loads("".join(outcome.errors))["error"]
