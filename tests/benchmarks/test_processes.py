from pathlib import Path

import pytest
from benchmarks.contestants import OWN, REJECTED
from benchmarks.environments import find_environment
from benchmarks.processes import WorkerProcess

VARIABLE = "GRPC_EXPERIMENTS"


@pytest.mark.parametrize("experiments", [REJECTED, ""])
def test_benchmark_process_gets_only_the_grpc_experiments_of_its_program(
    monkeypatch: pytest.MonkeyPatch, experiments: str
):
    monkeypatch.setenv(VARIABLE, "-another")
    environment = find_environment(OWN)
    assert environment is not None
    worker = WorkerProcess("sockets/copy", "-", environment, experiments)
    try:
        worker.send(do="close")
        assert worker.await_response(60) == {}  # the worker runs without the program that started it
        variables = Path(f"/proc/{worker.pid}/environ").read_text().split("\0")
    finally:
        worker.stop()
    found = [variable for variable in variables if variable.startswith(f"{VARIABLE}=")]
    assert found == ([f"{VARIABLE}={experiments}"] if experiments else [])
