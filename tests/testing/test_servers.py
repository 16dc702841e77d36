"""Servers for the tests of others: real processes on free ports."""

import os
import select
import subprocess
import sys

import numpy as np
import pytest

from tensor_reshape.client import Client, LimitError
from tensor_reshape.testing import run_server
from tensor_reshape.testing.servers import _KEPT_LINES

SECONDS = 60
REQUEST_OF_NOBODY = "--no-such-option"


def test_a_server_listens_on_a_free_port_of_this_machine_and_ends_with_the_block():
    with run_server("--drain-seconds", "0") as server:
        host, _, port = server.address.rpartition(":")
        assert (host, int(port) > 0) == ("127.0.0.1", True)
        with Client(server.address) as client:
            assert client.infer_shape([6], [-1], special_zero=False) == (6,)
    assert server.process.returncode == 0


def test_a_server_takes_the_options_of_the_command():
    with (
        run_server("--drain-seconds", "0", "--max-tensor-bytes", "1000") as server,
        Client(server.address) as client,
        pytest.raises(LimitError),
    ):
        client.reshape(np.zeros(2000), [-1], special_zero=False, transfer="stream")


@pytest.mark.parametrize("option", [("--log-format", "text"), ("--log-level", "error")], ids=" ".join)
def test_what_is_logged_is_no_choice_of_the_caller(option: tuple[str, str]):
    with run_server("--drain-seconds", "0", *option) as server, Client(server.address) as client:
        assert client.infer_shape([6], [-1], special_zero=False) == (6,)


def test_a_server_that_says_nothing_is_not_awaited_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tensor_reshape.testing.servers._START_SECONDS", 0.01)
    with pytest.raises(RuntimeError, match="ended with -9"), run_server():
        pass


def test_a_server_that_does_not_start_is_an_error_with_what_it_said():
    with pytest.raises(RuntimeError, match=f"(?s)ended with 2.*{REQUEST_OF_NOBODY}"), run_server(REQUEST_OF_NOBODY):
        pass


def test_the_log_is_read_as_long_as_the_server_runs():
    # More than a pipe holds: a line of the access log is some 400 bytes here.
    with run_server("--drain-seconds", "0", "--access-log", "1") as server, Client(server.address) as client:
        for _ in range(600 + _KEPT_LINES):
            client.infer_shape([6], [6], special_zero=False, request_id="x" * 128)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the end of another's child is awaited as Linux has it")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_ends_with_the_process_that_started_it_however_that_ended(workers: str):
    lines = (
        "import time",
        "from tensor_reshape.testing import run_server",
        f"with run_server('--drain-seconds', '0', '--workers', '{workers}') as server:",
        "    print(server.process.pid, flush=True)",
        "    time.sleep(600)",
    )
    with subprocess.Popen([sys.executable, "-c", "\n".join(lines)], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        server = os.pidfd_open(int(program.stdout.readline()))
        try:
            assert select.select([server], [], [], 0)[0] == []
            program.kill()
            assert select.select([server], [], [], SECONDS)[0] == [server]
        finally:
            os.close(server)


def test_to_start_one_takes_no_import_of_grpc_in_this_process():
    lines = "from tensor_reshape.testing import run_server", "import sys", "print('grpc' in sys.modules)"
    command = [sys.executable, "-c", "\n".join(lines)]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "False\n"
