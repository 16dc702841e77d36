"""Servers for the tests of other programs: real processes on free ports."""

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
OPTIONS = "--drain-seconds", "0", "--max-message-bytes", "1024", "--log-level", "debug"
# The caller cannot change the format or the level of the log.
IGNORED = "--log-format", "text", "--log-level", "error"


def test_run_server_passes_options_and_picks_a_port():
    with run_server(*OPTIONS, *IGNORED) as server:
        host, _, port = server.address.rpartition(":")
        assert (host, int(port) > 0) == ("127.0.0.1", True)
        with Client(server.address) as client:
            with pytest.raises(LimitError):
                client.reshape(np.zeros(2000), [-1], special_zero=False, transfer="inline")
            # These log lines of 400 bytes are more than a pipe holds, so the log must be read.
            for _ in range(600 + _KEPT_LINES):
                assert client.infer_shape([6], [-1], special_zero=False, request_id="x" * 128) == (6,)
    assert server.process.returncode == 0


def test_run_server_kills_a_server_that_starts_too_slowly(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tensor_reshape.testing.servers._START_SECONDS", 0.01)
    with pytest.raises(RuntimeError, match="ended with exit code -9"), run_server():
        pass


def test_run_server_error_contains_the_server_output():
    with (
        pytest.raises(RuntimeError, match=r"(?s)ended with exit code 2.*--no-such-option"),
        run_server("--no-such-option"),
    ):
        pass


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the end of another's child is awaited as Linux has it")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_started_server_exits_when_its_parent_is_killed(workers: str):
    lines = (
        "import sys, time",
        "from tensor_reshape.testing import run_server",
        f"with run_server('--drain-seconds', '0', '--workers', '{workers}') as server:",
        "    print(server.process.pid, 'grpc' in sys.modules, flush=True)",
        "    time.sleep(600)",
    )
    with subprocess.Popen([sys.executable, "-c", "\n".join(lines)], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        pid, imports_grpc = program.stdout.readline().split()
        assert imports_grpc == "False"  # starting a server does not import grpc in this process
        server = os.pidfd_open(int(pid))
        try:
            assert select.select([server], [], [], 0)[0] == []
            program.kill()
            assert select.select([server], [], [], SECONDS)[0] == [server]
        finally:
            os.close(server)
