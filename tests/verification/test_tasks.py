"""The runner of `scripts/verify prove` and `fuzz`."""

import os
import subprocess
import sys

import pytest


def run_program(name: str, *options: str, hash_seed: str = "0") -> list[str]:
    """Runs a program of `verification`; returns the lines that it prints."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", f"verification.{name}", *options]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return run.stdout.splitlines()


@pytest.mark.parametrize("name", ["prove", "fuzz"])
def test_same_seed_gives_the_same_outcomes_with_each_hash_seed(name: str):
    *first, _ = run_program(name, "1000", "--seed", "1", hash_seed="1")
    *second, _ = run_program(name, "1000", "--seed", "1", hash_seed="2")
    assert len(first) > 5
    assert first == second


def test_budget_of_seconds_stops_the_run_before_all_batches_are_done():
    *_, last = run_program("prove", "1000000", "--seconds", "0", "--seed", "1")
    assert last.startswith("500 in ")
