"""The exit codes of commands, and the one line of each expected error."""

import json
from pathlib import Path

import numpy as np

from command_line import NOBODY, Outcome, run_command, run_module
from server_processes import ServerProcess, run_server
from tensor_reshape.cli.__main__ import COMMANDS

INFER = ("infer", "--data", "2,3,4", "--special-zero", "--shape", "5,-1")


def run(*arguments: str | Path) -> Outcome:
    return run_module("tensor_reshape.cli", *arguments)


def test_rejection_exits_with_3_and_prints_json_on_request(server: ServerProcess):
    outcome = run(*INFER, "--server", server.address, "--json")
    report = json.loads(outcome.output)["rejection"]
    assert (outcome.code, outcome.errors, report["reason"], report["field"]) == (3, [], "NOT_DIVISIBLE", "shape[1]")
    assert report["metadata"]["index"] == "1"


def test_exceeded_limit_exits_with_4(tmp_path: Path):
    path = tmp_path / "large.npy"
    np.save(path, np.zeros(2000, np.float32))
    with run_server("--max-message-bytes", "4096") as small:
        outcome = run("static", "--server", small.address, path, "--shape", "-1", "--no-special-zero")
    assert (outcome.code, len(outcome.errors)) == (4, 1)
    assert "allows 4 KiB. Raise --max-message-bytes of the server [" in outcome.errors[0]


def test_usage_error_exits_with_2_and_keeps_json_off_stdout(tmp_path: Path):
    outcome = run("infer", *NOBODY, "--data", "2", "--shape", "2", "--json")
    assert (outcome.code, outcome.output) == (2, b"")
    assert "special-zero" in json.loads("".join(outcome.errors))["error"]
    path = tmp_path / "six.npy"
    np.save(path, np.zeros(6))
    outcome = run("static", *NOBODY, path, "--shape", "6", "--no-special-zero", "--json")  # its output is the array
    assert (outcome.code, outcome.output, "--output" in json.loads("".join(outcome.errors))["error"]) == (2, b"", True)


def test_every_command_has_a_short_help_option():
    for command in ((), *((str(command.name),) for command in COMMANDS)):
        short, long = run_command(*command, "-h"), run_command(*command, "--help")
        assert (short.code, short.text) == (0, long.text), command
    assert run_module("tensor_reshape.server", "-h").code == 0
