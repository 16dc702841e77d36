"""The public suite from its command to its report and the README's table, without peers."""

import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from benchmarks.contestants import KIB, Cell
from benchmarks.peers.h2load import open_session
from benchmarks.sessions import Job
from benchmarks.suites.bars import MISS, PASS, UNDECIDED
from benchmarks.tables import DETAILS, LEAST_ROUNDS, SUMMARY, Table, build_summary, read_tables

from server_processes import run_server

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files that a short run writes."""
    folder = tmp_path_factory.mktemp("useful")
    readme = folder / "README.md"
    readme.write_text("before\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n")
    pace = ("--rounds", f"{LEAST_ROUNDS}", "--seconds", "0.01", "--peers", str(folder / "none"))
    ours = ("ours", "ours-shapes", "ours-network", "ours-query", "ours-rest")
    peers = ("stock", "stock-query", "socket", "arrow")
    names = ("--only", *ours, *peers, "--cells", "1 client, tcp")
    command = [sys.executable, "-m", "benchmarks", "--useful", *names, *pace, "--into", str(folder)]
    subprocess.run([*command, "--readme", str(readme)], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def tables(folder: Path) -> dict[str, Table]:
    return {table.title: table for table in read_tables((folder / "results.md").read_text())}


def is_measured(text: str) -> bool:
    return text[:1].isdigit()


def test_benchmark_table_has_rate_latency_and_memory_of_each_program(tables: dict[str, Table]):
    for title in ("1 KiB, 1 client, tcp", "16 MiB, 1 client, tcp"):
        rows = {label: row for label, *row in tables[title].rows}
        assert rows.pop("Arrow Flight DoExchange")[0] == "not installed"
        assert {"tensor-reshape", "stock grpcio", "raw socket copy"} <= rows.keys()
        for label, (rate, ratio, latency, peak) in rows.items():
            assert all(map(is_measured, (rate, ratio, *latency.split(" / ")))), (title, label)
            assert is_measured(peak) is title.startswith("16 MiB"), (title, label)


def test_benchmark_judges_the_performance_targets_of_measured_settings(tables: dict[str, Table]):
    verdicts = {row[:2]: row[3] for row in tables["Bars"].rows}
    for size in ("1 MiB", "16 MiB"):
        assert verdicts.pop(("at least as fast as Arrow Flight", f"{size}, 1 client, tcp")) == "not measured"
    assert verdicts.pop(("at least 1.2 times as fast as Arrow Flight", "256 MiB, 1 client, tcp")) == "not measured"
    assert verdicts.keys() == {
        ("without the experiment: at least 2.2 times as fast as stock grpcio", "1 KiB, 1 client, tcp"),
        ("a shape query is at least as fast as an inline call", "Queries and views: 1 KiB, 1 client, tcp"),
    }
    assert {*verdicts.values()} <= {PASS, MISS, UNDECIDED}


def test_benchmark_run_updates_only_the_ratios_in_the_readme(folder: Path, tables: dict[str, Table]):
    summary = build_summary((folder / "results.md").read_text())
    assert (folder / "README.md").read_text() == f"before\n<!-- measured -->\n{summary}\n<!-- /measured -->\nafter\n"
    assert [label for label, speed, *_ in tables[SUMMARY].rows if is_measured(speed)] == [
        "a small call of 1 KiB",
        "1 MiB",
        "256 MiB",
        "a shape query",
        "a REST call of 1 KiB",
        "memory of the server for 256 MiB",
    ]
    measured = {label for label, stock, *_ in tables[DETAILS].rows if is_measured(stock)}
    assert {"1 KiB, 10,000 shapes", "1 KiB, server on a network address", "1 MiB", "16 MiB"} <= measured


def test_benchmark_run_without_readme_writes_only_into_its_folder(tmp_path: Path):
    before = (ROOT / "README.md").read_bytes()
    cell = ("--cells", "1 KiB, 1 client, tcp", "--only", "ours", "--rounds", "1", "--seconds", "0.01")
    command = [sys.executable, "-m", "benchmarks", "--useful", *cell, "--into", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["results.md"]
    assert (ROOT / "README.md").read_bytes() == before


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("16 MiB, 16 clients in 4 processes, tcp", "ours"),
        ("16 MiB, 16 clients in 4 processes, tcp", "ours-workers"),
        pytest.param(
            "Server under h2load: 1 KiB, 64 clients with 16 calls each, tcp",
            "served-workers",
            marks=pytest.mark.skipif(shutil.which("h2load") is None, reason="needs h2load of Debian"),
        ),
    ],
)
def test_benchmark_measures_several_processes_of_clients_and_servers(cell: str, name: str):
    options = ("--cells", cell, "--only", name, "--rounds", "1", "--seconds", "0.01")
    command = [sys.executable, "-m", "benchmarks", "--useful", *options]
    *_, table = read_tables(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    ((_, rate, *_),) = table.rows
    assert (table.title, is_measured(rate)) == (cell, True)


@pytest.mark.skipif(shutil.which("h2load") is None, reason="needs h2load of Debian")
def test_h2load_session_fails_if_the_server_rejects_calls():
    with run_server("--max-calls-per-caller", "1") as server, ExitStack() as stack:
        session = open_session("unary", Job(server.address, Cell(KIB, 4, streams=8)), stack)
        with pytest.raises(RuntimeError, match="h2load"):
            session.run(0)
