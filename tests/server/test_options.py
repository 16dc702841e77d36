"""The number of workers that the server chooses, the memory that it needs, and error messages."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import run_module
from deployment_files import Memory
from server_processes import run_server
from tensor_reshape.server.config import Config
from tensor_reshape.server.http.guards import MAX_CONNECTIONS
from tensor_reshape.server.options import find_needed_memory
from tensor_reshape.server.process.resources import ADDRESS_BYTES, PROCESS_BYTES, count_cores, find_memory_limit

MIB, GIB = 2**20, 2**30
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


TLS = Config(tls_certificate=Path("certificate"), tls_key=Path("key"))


@pytest.mark.parametrize("http_listen", [None, "127.0.0.1:0"])
@pytest.mark.parametrize("workers", [1, 2, 16])
def test_needed_memory_is_the_sum_of_the_sizing_page(workers: int, http_listen: str | None):
    config = replace(TLS, workers=workers, http_listen=http_listen, memory_budget_bytes=4 * GIB)
    assert find_needed_memory(config) == pytest.approx(Memory(config).sum, abs=1)


def test_needed_memory_has_only_the_parts_that_the_server_has():
    without_tls = Config(http_listen="127.0.0.1:0")
    connections = find_needed_memory(replace(TLS, http_listen="127.0.0.1:0")) - find_needed_memory(without_tls)
    assert connections == MAX_CONNECTIONS * 300 * 1024
    assert find_needed_memory(replace(without_tls, listen=())) == int(1.4 * GIB) + PROCESS_BYTES


@pytest.mark.parametrize(("less", "warns"), [(0, False), (MIB, True)], ids=["enough", "too little"])
def test_check_warns_if_the_needed_memory_exceeds_the_limit(less: int, warns: bool):
    config = Config(workers=2, max_message_bytes=MIB, memory_budget_bytes=16 * MIB, max_calls=64)
    flags = ("--max-message-bytes", "1MiB", "--memory-budget-bytes", "16MiB", "--max-calls", "64", "--workers", "2")
    needed = find_needed_memory(config)
    # two workers and the supervisor, each of which has its address space in addition
    data = -(-(needed - 3 * PROCESS_BYTES) // 2) + ADDRESS_BYTES - less
    limit = 2 * (data - ADDRESS_BYTES) + 3 * PROCESS_BYTES
    command = (sys.executable, "-m", "tensor_reshape.server", "--check-config", "--listen", "127.0.0.1:0", *flags)
    outcome = subprocess.run(["prlimit", f"--data={data}", *command], capture_output=True, text=True, check=True)
    assert outcome.stdout == "configuration is valid\n"
    written = f"needed_bytes={needed} limit_bytes={limit} page=docs/deployment/sizing.md"
    assert (written in outcome.stderr, "more memory than" in outcome.stderr) == (warns, warns)


@pytest.mark.skipif(CORES == 1, reason="one worker is always the minimum")
@pytest.mark.parametrize(("more", "workers"), [(0, "2"), (MIB, "1")], ids=["enough", "too little"])
def test_auto_is_fewer_workers_if_the_needed_memory_exceeds_the_limit(more: int, workers: str):
    config = Config(workers=2, max_message_bytes=MIB, memory_budget_bytes=100 * MIB)
    unneeded = find_memory_limit(2) - find_needed_memory(config)
    budget = config.memory_budget_bytes + unneeded * 100 // 140 + more  # 40 % of the budget may be lost
    sizes = ("--max-message-bytes", "1MiB", "--memory-budget-bytes", str(budget))
    facts = choose_workers("--listen", "127.0.0.1:0", *sizes, cores=2)
    assert (facts["workers"], facts["limited_by"]) == (workers, "cores" if workers == "2" else "memory")


def test_number_of_workers_is_a_number_or_auto():
    for value in ("0", "65", "autos", "1.5"):
        outcome = run_module("tensor_reshape.server", "--workers", value)
        assert f"{value!r} is neither a number from 1 to 64 nor auto" in "".join(outcome.errors)
        assert outcome.code == 2
