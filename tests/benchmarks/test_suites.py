"""Each suite runs from its command to its report, with what needs no peer."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.contestants import CPP
from benchmarks.environments import find_environment
from benchmarks.suites.bars import LEAST_ROUNDS, MISS, PASS, UNDECIDED
from benchmarks.summaries import build_summary, read_summary
from benchmarks.tables import Table, read_tables

ROOT = Path(__file__).parents[2]
CONTESTANTS = ("ours", "stock", "stock-asyncio", "socket", "arrow")
PRESENT = ["tensor-reshape", "stock grpcio", "stock grpcio asyncio", "raw socket copy"]


def run_suite(*arguments: str) -> dict[str, Table]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {table.title: table for table in read_tables(done.stdout)}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    """The tables of a short run without any peer."""
    folder = tmp_path_factory.mktemp("output")
    cells = ("--sizes", "1KiB", "1MiB", "--clients", "2", "--transports", "tcp")
    pace = ("--rounds", "2", "--seconds", "0.01", "--peers", str(folder / "none"))
    return run_suite("transport", "--only", *CONTESTANTS, *cells, *pace)


def is_measured(text: str) -> bool:
    return text[:1].isdigit()


def test_every_contestant_that_is_there_is_measured_in_every_cell(tables: dict[str, Table]):
    for title in ("1 KiB, 2 clients, tcp", "1 MiB, 2 clients, tcp"):
        assert [row[0] for row in tables[title].rows if is_measured(row[1])] == PRESENT


def test_a_peer_that_is_absent_is_told(tables: dict[str, Table]):
    (row,) = [row for row in tables["1 KiB, 2 clients, tcp"].rows if row[0] == "Arrow Flight DoExchange"]

    assert row[1] == "not installed"


def test_the_servers_memory_is_measured_from_1_mib_on(tables: dict[str, Table]):
    assert not any(is_measured(row[-1]) for row in tables["1 KiB, 2 clients, tcp"].rows)
    assert all(is_measured(row[-1]) for row in tables["1 MiB, 2 clients, tcp"].rows if row[0] in PRESENT)


def test_both_sides_processor_time_is_told(tables: dict[str, Table]):
    (row,) = [row for row in tables["1 KiB, 2 clients, tcp"].rows if row[0] == "tensor-reshape"]

    assert all(is_measured(text) for text in row[4].split(" / "))


@pytest.fixture(scope="module")
def useful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the suite of everybody writes, of one cell."""
    folder = tmp_path_factory.mktemp("useful")
    readme = folder / "README.md"
    readme.write_text("<!-- measured -->\n<!-- /measured -->\n")
    rest = ("--only", "ours", "stock", "--rounds", f"{LEAST_ROUNDS}", "--seconds", "0.01", "--readme", str(readme))
    run_suite("--useful", "--cells", "1 KiB, 1 client", "--into", str(folder), *rest)
    return folder


def test_the_bars_are_judged(useful: Path):
    (bars,) = [table for table in read_tables((useful / "results.md").read_text()) if table.title == "Bars"]

    ((_, cell, _, verdict),) = bars.rows
    assert cell == "1 KiB, 1 client, tcp"
    assert verdict in {PASS, MISS, UNDECIDED}


def test_the_readme_gets_the_ratios_of_the_report(useful: Path):
    report = (useful / "results.md").read_text()

    assert read_summary(useful / "README.md") == build_summary(report)
    assert f"| stock grpcio | {find_ratio(report)} |" in read_summary(useful / "README.md")


def find_ratio(report: str) -> str:
    (table,) = [table for table in read_tables(report) if table.title == "1 KiB, 1 client, tcp"]
    return table.rows[1][2]


def test_clients_of_several_processes_call_together():
    tables = run_suite(
        "--useful", "--cells", "1 KiB, 16 clients in 4", "--only", "socket", "--rounds", "1", "--seconds", "0.01"
    )

    (row,) = tables["1 KiB, 16 clients in 4 processes, tcp"].rows
    assert is_measured(row[1])


@pytest.mark.skipif(not find_environment(CPP), reason="the C++ peers are not installed")
def test_streams_of_cpp_on_both_sides_are_measured():
    names = ("cpp-stream", "cpp-slices")

    tables = run_suite("--useful", "--cells", "1 MiB, 1 client", "--only", *names, "--rounds", "1", "--seconds", "0.01")

    assert [is_measured(row[1]) for row in tables["1 MiB, 1 client, tcp"].rows] == [True, True]


@pytest.mark.skipif(not shutil.which("h2load"), reason="h2load is not installed")
def test_servers_are_measured_alone():
    tables = run_suite(
        "server", "--only", "served", "served-stock", "--clients", "2", "--rounds", "1", "--seconds", "0"
    )

    assert all(is_measured(text) for row in tables["The server alone: 1 KiB, 2 clients, tcp"].rows for text in row[1:])


def test_a_run_is_made_in_parts(tmp_path: Path):
    output = tmp_path / "results.md"
    rest = ("--clients", "1", "--transports", "unix", "--rounds", "1", "--seconds", "0.01", "--output", str(output))

    for size in ("64KiB", "1KiB"):
        tables = run_suite("transport", "--add", "--only", "socket", "--sizes", size, *rest)

    assert list(tables) == ["Runs", "Bars", "1 KiB, 1 client, unix", "64 KiB, 1 client, unix"]
    assert len(tables["Runs"].rows) == 2
    assert output.read_text().count("## 64 KiB") == 1


def test_questions_are_measured_beside_each_other():
    tables = run_suite(
        "inference", "--only", "local", "alone", "--questions", "9", "--rounds", "1", "--seconds", "0.01"
    )

    titles = [f"9 questions, {load}" for load in ("mixed", "known", "intervals", "symbols")] + ["200 questions, mixed"]
    assert list(tables) == ["Runs", *titles]
    assert all(is_measured(text) for title in titles for row in tables[title].rows for text in row[1:])


def test_the_smallest_calls_are_measured_beside_an_echo_and_beside_batches():
    contestants = ("echo", "infer-sdk", "infer-searched-mixed")
    tables = run_suite("latency", "--only", *contestants, "--rounds", "1", "--seconds", "0.01")

    rows = {title: tables[title].rows for title in ("Empty calls", "InferShape beside batches")}
    assert list(map(len, rows.values())) == [2, 1]
    assert all(is_measured(text) for table in rows.values() for row in table for text in row[1:])


def test_the_other_protocol_is_measured_beside_the_native_call():
    tables = run_suite("protocol", "--rounds", "1", "--seconds", "0.05")

    assert list(tables) == ["Runs", "1 KiB, 1 client, tcp", "1 MiB, 1 client, tcp"]
    assert all(is_measured(row[2]) for title, table in tables.items() if title != "Runs" for row in table.rows)


def test_a_version_is_measured_beside_another_one():
    tables = run_suite(
        "ab", "--against", sys.executable, "--works", "1 KiB, 1 client", "--rounds", "8", "--seconds", "0.01"
    )

    rows = tables["Candidate / base"].rows
    assert [is_measured(text) for row in rows for text in row[2:5]] == [True] * 6
    # Where the machine is so busy that a few rounds take their time, there are no more of them.
    assert {row[-1] for row in rows} <= {"slower", "faster", "no difference", "too few rounds"}
