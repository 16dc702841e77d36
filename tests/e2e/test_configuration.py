"""Flags and environment variables."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from command_line import run_module
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client
from tensor_reshape.server.__main__ import serve
from tensor_reshape.server.process.engines import TESTED

UNTESTED = "Metadata-Version: 2.1\nName: grpcio\nVersion: 1.90.0\n"
BROKEN = """
from grpc._cython import cygrpc
del cygrpc.ReceiveMessageOperation
"""
MODES: tuple[list[str], ...] = ([], ["--workers", "2"], ["--check-config"])


def find_limit(address: str) -> int:
    """Returns the largest message of a server."""
    with Client(address) as client:
        return client.server_info().limits.max_message_bytes


@pytest.mark.parametrize(
    ("flags", "code", "lines"),
    [
        (["--listen", "nowhere"], 2, 3),
        (["--listen", "203.0.113.1:0"], 1, 2),  # a warning that other machines can call the server, and the error
        (["--tls-certificate", __file__], 2, 3),  # the key is missing
        (["--max-message-bytes", "1023"], 2, 3),
        (["--unknown"], 2, 3),
    ],
    ids=str,
)
def test_server_rejects_invalid_flags_without_a_traceback(flags: list[str], code: int, lines: int):
    outcome = run_module("tensor_reshape.server", *flags)
    assert (outcome.code, len(outcome.errors)) == (code, lines)
    assert outcome.errors[-1].startswith("Error: ")


def reject_grpcio(folder: Path, *flags: str) -> str:
    """Returns the last line of a server that finds another grpcio in `folder`, and that must not start."""
    outcome = run_module("tensor_reshape.server", "--listen", "127.0.0.1:0", *flags, env={"PYTHONPATH": str(folder)})
    assert (outcome.code, outcome.text, len(outcome.errors)) == (1, "", 1)
    return outcome.errors[0]


@pytest.mark.parametrize("flags", MODES, ids=str)
def test_server_with_an_untested_grpcio_names_the_releases_to_install(flags: list[str], tmp_path: Path):
    (tmp_path / "grpcio-1.90.0.dist-info").mkdir()
    (tmp_path / "grpcio-1.90.0.dist-info" / "METADATA").write_text(UNTESTED)
    assert reject_grpcio(tmp_path, *flags) == (
        f"Error: grpcio 1.90.0 was not tested with this server. Run pip install '{TESTED}'"
    )


@pytest.mark.parametrize("flags", MODES, ids=str)
def test_server_does_not_start_if_its_test_call_fails(flags: list[str], tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(BROKEN)
    assert reject_grpcio(tmp_path, *flags).endswith(
        f"it has no cygrpc.ReceiveMessageOperation. Run pip install --force-reinstall '{TESTED}'"
    )


def test_missing_or_wrong_path_option_is_a_usage_error(tmp_path: Path):
    directory = ["--tls-certificate", str(tmp_path)]
    missing = [["--tls-certificate", "missing"], ["--tls-key", "missing"]]
    for flags in (directory, *missing):
        with pytest.raises(click.BadParameter):
            pytest.fail(f"{flags}: {serve.make_context('serve', flags)}")


def test_environment_variables_set_server_addresses_and_limits(tmp_path: Path):
    env = {"TENSOR_RESHAPE_LISTEN": f"127.0.0.1:0 unix:{tmp_path}/s", "TENSOR_RESHAPE_MAX_MESSAGE_BYTES": "3000"}
    command = [sys.executable, "-m", "tensor_reshape.server", "--log-format", "json", "--drain-seconds", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **env}) as process:
        server = ServerProcess(process)
        server.read_addresses(2)
        assert [find_limit(address) for address in server.addresses] == [3000, 3000]
        assert server.stop() == 0


def test_invalid_server_environment_variable_is_rejected():
    outcome = run_module("tensor_reshape.server", env={"TENSOR_RESHAPE_WORKERS": "many"})
    assert (outcome.code, "many" in outcome.errors[-1]) == (2, True)


def test_server_flag_overrides_the_environment_variable():
    with run_server("--max-message-bytes", "4000", env={"TENSOR_RESHAPE_MAX_MESSAGE_BYTES": "3000"}) as server:
        assert find_limit(server.address) == 4000
