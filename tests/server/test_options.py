"""The number of workers that the server chooses, and its error messages."""

import os
from pathlib import Path

import pytest

from command_line import run_module
from server_processes import run_server
from tensor_reshape.server.process.resources import count_cores

CORES = min(count_cores(), 2)  # of this machine


def choose_workers(*flags: str, cores: int = CORES) -> dict[str, str]:
    """Returns the facts that `--workers auto` logs, with an affinity for the first of the machine's cores."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:cores])
    try:
        outcome = run_module("tensor_reshape.server", "--check-config", "--workers", "auto", *flags)
    finally:
        os.sched_setaffinity(0, allowed)
    assert outcome.text == "configuration is valid"
    line, *_ = [line for line in outcome.errors if "number of workers is chosen" in line]
    return dict(pair.split("=") for pair in line.replace('"', "").replace("unix socket", "unix").split()[-3:])


def test_auto_is_one_worker_for_each_core(tmp_path: Path):
    port = ("--listen", "127.0.0.1:0")
    assert choose_workers(*port, cores=CORES) == {"workers": f"{CORES}", "cores": f"{CORES}", "limited_by": "cores"}
    assert choose_workers(*port, cores=1) == {"workers": "1", "cores": "1", "limited_by": "cores"}
    assert choose_workers("--listen", f"unix:{tmp_path}/s")["limited_by"] == "unix"
    assert choose_workers(*port, "--health-listen", f"unix:{tmp_path}/h")["workers"] == "1"


@pytest.mark.skipif(CORES == 1, reason="one worker is always the minimum")
def test_auto_is_fewer_workers_if_messages_do_not_fit_the_memory():
    port = ("--listen", "127.0.0.1:0", "--max-message-bytes", "1MiB")
    http = ("--http-listen", "127.0.0.1:0")
    budgets = {("16MiB",): "2", ("15MiB",): "1", ("20MiB", *http): "2", ("19MiB", *http): "1"}
    for (budget, *flags), workers in budgets.items():
        facts = choose_workers(*port, "--memory-budget-bytes", budget, *flags, cores=2)
        assert (facts["workers"], facts["limited_by"]) == (workers, "cores" if workers == "2" else "memory")


def test_server_with_automatic_workers_serves():
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:CORES]))
    with run_server("--workers", "auto", prefix=("taskset", "-c", cores)) as server:
        server.stop()
    (record,) = [record for record in server.records if record["message"] == "serving"]
    assert record["workers"] == CORES


def test_number_of_workers_is_a_number_or_auto():
    for value in ("0", "65", "autos", "1.5"):
        outcome = run_module("tensor_reshape.server", "--workers", value)
        assert f"{value!r} is neither a number from 1 to 64 nor auto" in "".join(outcome.errors)
        assert outcome.code == 2
