"""Most scenarios of `scripts/verify hosts`: real servers on separate hosts that are cut off, added and replaced."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from verification.host_networks import build_environment, find_obstacle
from verification.hosts import MAX_NOTICE_SECONDS

ROOT = Path(__file__).parents[2]
MAX_FOUND_SECONDS = 20  # by default, gRPC waits 30 seconds before it resolves a name again
SCENARIOS = ("spread", "cut off", "grow", "replace")  # without "hang", because its detection takes half a minute

pytestmark = pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle())


@pytest.fixture(scope="module")
def reports() -> dict[str, dict[str, Any]]:
    """The result of each scenario by name."""
    command = [sys.executable, "-m", "verification.hosts", "--json", "--only", *SCENARIOS]
    env = {**build_environment(), "PYTHONPATH": "tests/support"}
    lines = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=False).stdout
    found = [json.loads(line) for line in lines.splitlines()]
    return {report["name"]: report for report in found}


@pytest.mark.parametrize("name", SCENARIOS)
def test_replacing_server_hosts_loses_no_call(reports: dict[str, dict[str, Any]], name: str):
    assert reports[name]["failures"] == []
    assert reports[name]["calls"] > 0


def test_calls_to_a_disconnected_host_move_to_other_hosts(reports: dict[str, dict[str, Any]]):
    assert 1 < reports["cut off"]["slowest_seconds"] < MAX_NOTICE_SECONDS


def test_added_host_gets_calls_after_max_connection_age(reports: dict[str, dict[str, Any]]):
    assert reports["grow"]["facts"]["added host has calls after"] < MAX_FOUND_SECONDS
