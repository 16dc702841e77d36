"""The exit codes of commands, and the one line of each expected error."""

import json
from pathlib import Path

import numpy as np

from command_line import NOBODY, Outcome, run_module
from server_processes import ServerProcess, run_server

INFER = ("infer", "--data", "2,3,4", "--special-zero", "--shape", "5,-1")


def run(*arguments: str | Path) -> Outcome:
    return run_module("tensor_reshape.cli", *arguments)


def test_rejection_exits_with_3_and_prints_json_on_request(server: ServerProcess):
    outcome = run(*INFER, "--server", server.address, "--json")
    report = json.loads("".join(outcome.errors))
    assert (outcome.code, outcome.text, report["reason"], report["field"]) == (3, "", "NOT_DIVISIBLE", "shape[1]")
    assert report["metadata"]["index"] == "1"


def test_exceeded_limit_exits_with_4(tmp_path: Path):
    path = tmp_path / "large.npy"
    np.save(path, np.zeros(2000, np.float32))
    with run_server("--max-message-bytes", "4096") as small:
        outcome = run("static", "--server", small.address, path, "--shape", "-1", "--no-special-zero")
    assert (outcome.code, len(outcome.errors)) == (4, 1)


def test_usage_error_exits_with_2_and_prints_json_on_request():
    outcome = run("infer", *NOBODY, "--data", "2", "--shape", "2", "--json")
    assert outcome.code == 2
    assert "special-zero" in json.loads("".join(outcome.errors))["error"]
