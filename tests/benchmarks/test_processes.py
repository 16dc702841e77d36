from pathlib import Path

import pytest
from benchmarks.contestants import OWN, REFUSED
from benchmarks.environments import find_environment
from benchmarks.processes import WorkerProcess

VARIABLE = "GRPC_EXPERIMENTS"


def read_variable(experiments: str) -> list[str]:
    """Returns the setting that a client's process has, none or one."""
    environment = find_environment(OWN)
    assert environment is not None
    worker = WorkerProcess("sockets/copy", "-", environment, experiments)
    try:
        worker.ask(do="close")
        assert worker.await_answer(60) == {}  # it runs, and no longer what started it
        variables = Path(f"/proc/{worker.pid}/environ").read_text().split("\0")
    finally:
        worker.stop()
    return [variable for variable in variables if variable.startswith(f"{VARIABLE}=")]


def test_a_client_has_the_experiments_of_its_contestant():
    assert read_variable(REFUSED) == [f"{VARIABLE}={REFUSED}"]


def test_a_client_has_none_of_what_this_process_was_started_with(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "-another")

    assert read_variable("") == []
