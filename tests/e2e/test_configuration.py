"""Flags, the environment, and what is wrong in them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from certificates import issue_certificates
from command_line import run_module
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, LimitError


def ask_rank(address: str, rank: int) -> tuple[int, ...]:
    with Client(address) as client:
        return client.infer_shape([1] * rank, [1], special_zero=False, operation="reshape").known


@pytest.mark.parametrize(
    "flags",
    [
        ["--listen", "nowhere"],
        ["--listen", "127.0.0.1:http"],
        ["--listen", "127.0.0.1:65536"],
        ["--listen", "127.0.0.1:-1"],
        ["--listen", ":50051"],
        ["--listen", "unix:"],
        ["--listen", "127.0.0.1:" + "1" * 5000],
        ["--listen", "203.0.113.1:0"],
        ["--listen", "a..b:1"],
        ["--threads", "0"],
        ["--max-message-bytes", "1023"],
        ["--max-message-bytes", str(2**31)],
        ["--max-rank", "65"],
        ["--drain-seconds", "-1"],
        ["--grace-seconds", "soon"],
        ["--log-format", "xml"],
        ["--log-level", "loud"],
        ["--tls-certificate", "missing.pem"],
        ["--tls-key", "missing.pem"],
        ["--shared-memory-dir", "missing"],
        ["--shared-memory-dir", __file__],
        ["--unknown"],
    ],
    ids=lambda flags: " ".join(flags)[:40],
)
def test_a_bad_value_ends_the_start_without_a_traceback(flags: list[str]):
    outcome = run_module("tensor_reshape.server", *flags)
    assert outcome.code in {1, 2}
    assert outcome.errors[-1].startswith("Error: ")
    assert not any("Traceback" in line for line in outcome.errors)


def test_a_value_that_the_server_itself_refuses_is_one_line():
    assert len(run_module("tensor_reshape.server", "--listen", "nowhere").errors) == 1


@pytest.mark.parametrize("lacking", ["--tls-key", "--tls-certificate"])
def test_a_certificate_and_its_key_go_together(tmp_path: Path, lacking: str):
    files = issue_certificates(tmp_path)
    flags = {"--tls-certificate": files.server, "--tls-key": files.server_key}
    del flags[lacking]
    outcome = run_module("tensor_reshape.server", *(item for pair in flags.items() for item in pair))
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_a_client_authority_without_a_certificate_is_refused(tmp_path: Path):
    files = issue_certificates(tmp_path)
    outcome = run_module("tensor_reshape.server", "--tls-client-ca", files.authority)
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_files_that_are_no_pem_are_blamed_and_not_the_address(tmp_path: Path):
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    outcome = run_module(
        "tensor_reshape.server", "--listen", "127.0.0.1:0", "--tls-certificate", junk, "--tls-key", junk
    )
    assert (outcome.code, len(outcome.errors), "in use" in outcome.errors[0]) == (1, 1, False)


def test_a_directory_is_no_certificate(tmp_path: Path):
    outcome = run_module("tensor_reshape.server", "--tls-certificate", tmp_path, "--tls-key", tmp_path)
    assert outcome.code == 2


def test_the_environment_names_addresses_separated_by_spaces(tmp_path: Path):
    env = {"TENSOR_RESHAPE_LISTEN": f"127.0.0.1:0 unix:{tmp_path}/s"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tensor_reshape.server", "--log-format", "json", "--drain-seconds", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    with process:
        server = ServerProcess(process)
        server.read_addresses(2)
        assert [ask_rank(address, 2) for address in server.addresses] == [(1,), (1,)]
        assert server.stop() == 0


def test_the_environment_sets_a_limit():
    with run_server(env={"TENSOR_RESHAPE_MAX_RANK": "3"}) as server:
        assert ask_rank(server.address, 3) == (1,)
        with pytest.raises(LimitError):
            ask_rank(server.address, 4)


def test_a_flag_wins_over_the_environment():
    with run_server("--max-rank", "4", env={"TENSOR_RESHAPE_MAX_RANK": "3"}) as server:
        assert ask_rank(server.address, 4) == (1,)


def test_a_bad_value_in_the_environment_is_refused():
    outcome = run_module("tensor_reshape.server", env={"TENSOR_RESHAPE_THREADS": "many"})
    assert (outcome.code, "many" in outcome.errors[-1]) == (2, True)


def test_the_rank_limit_of_a_server_leaves_the_specification_bound_alone():
    with run_server("--max-rank", "2") as server, Client(server.address) as client:
        assert client.static_reshape(np.zeros((1, 1, 1), np.float32), [1] * 12, special_zero=False).ndim == 12


def test_the_command_line_starts_the_same_server():
    outcome = run_module("tensor_reshape.cli", "serve", "--listen", "nowhere")
    assert (outcome.code, len(outcome.errors)) == (1, 1)
