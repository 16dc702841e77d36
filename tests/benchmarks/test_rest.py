"""The comparison of HTTP with gRPC, from its command to its report."""

import subprocess
import sys
from pathlib import Path

from benchmarks.tables import read_tables

ROOT = Path(__file__).parents[2]


def test_http_comparison_reports_each_call_with_its_ratios():
    pace = ("--against", sys.executable, "--rounds", "2", "--seconds", "0.01")
    command = [sys.executable, "-m", "benchmarks", "rest", *pace]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    _, table = read_tables(done.stdout)

    calls = ("gRPC", "echo", "REST, bytes", "application/proto", "application/json, base64")
    sizes = ("1 KiB, 1 client, tcp", "1 MiB, 1 client, tcp", "16 MiB, 1 client, tcp")
    assert [row[:2] for row in table.rows] == [(size, call) for size in sizes for call in calls]
    assert all(text[:1].isdigit() for row in table.rows for text in row[2 : 6 if row[1] in calls[2:] else 3]), table
