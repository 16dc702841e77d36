"""The commands that call a server."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from command_line import PROGRAM, SIX, ask, run_on_terminal, strip_styles
from server_processes import ServerProcess


def test_health_command_prints_serving(server: ServerProcess):
    outcome = ask(server, "health")
    assert (outcome.code, outcome.text, outcome.errors) == (0, "SERVING", [])
    outcome = ask(server, "health", "--service", "", "--json")
    assert (outcome.code, json.loads(outcome.output)) == (0, {"status": "SERVING"})


def test_info_command_prints_version_limits_and_operations(server: ServerProcess):
    outcome = ask(server, "info")
    assert (outcome.code, outcome.errors) == (0, [])
    told = {"max_message_bytes: 16448KiB", "max_tensor_bytes: 1TiB", "  static_reshape:", "    max_rank: 12"}
    assert told | {f"version: {version('tensor-reshape')}"} <= {*outcome.text.splitlines()}
    record = json.loads(ask(server, "info", "--json").output)
    assert (record["max_message_bytes"], record["operations"]["static_reshape"]["max_rank"]) == (16842752, 12)


def test_health_command_lists_known_services_for_an_unknown_one(server: ServerProcess):
    outcome = ask(server, "health", "--service", "nosuch")
    assert (outcome.code, "tensor_reshape.v1.ReshapeService, or '' for" in outcome.errors[-1]) == (1, True)


@pytest.mark.parametrize("columns", [40, 120])
def test_info_command_prints_a_table_on_a_terminal(server: ServerProcess, columns: int):
    code, text = run_on_terminal(PROGRAM, "info", "--server", server.address, columns=columns)
    lines = strip_styles(text).splitlines()
    assert (code, max(map(len, lines)) <= columns) == (0, True)
    assert any(line.startswith("│ max_message_bytes") and "16448KiB" in line for line in lines)
    assert any(line.startswith("│ static_reshape ") for line in lines)
    assert "…" not in text


@pytest.mark.parametrize(("command", "dtype"), [("static", ""), ("dynamic", "i4"), ("reshape", "u1")])
def test_reshape_commands_take_the_target_from_numbers_or_a_file(
    command: str, dtype: str, file: Path, output: Path, server: ServerProcess
):
    np.save(file.with_name("shape.npy"), np.array([3, 2], dtype or "i8"))
    shape = f"@{file.with_name('shape.npy')}" if dtype else "3,-1"
    outcome = ask(server, command, file, "--shape", shape, "--no-special-zero", "-o", output)
    assert (outcome.code, outcome.output) == (0, b"")
    np.testing.assert_array_equal(np.load(output), SIX.reshape(3, 2), strict=True)
