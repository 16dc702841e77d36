"""SIGHUP is SIGTERM: calls under way end, and so does the process, with 0."""

import signal

import pytest

from server_processes import run_server


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_hangup_drains_and_ends_with_0(serving: str, workers: str):
    with run_server("--serving", serving, "--workers", workers) as server:
        assert server.stop(signal.SIGHUP) == 0
    causes = {record["cause"] for record in server.records if record["message"] == "stopping"}
    assert "SIGHUP" in causes
    assert server.records[-1]["message"] == "stopped"
