"""The benchmark suite runs from its command to its report, with what needs no peer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTESTANTS = ("ours", "ours-raw", "stock", "stock-asyncio", "socket", "arrow")
SIZES = ("0", "1KiB", "1MiB")


def run_suite(*arguments: str) -> None:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short run without any peer."""
    folder = tmp_path_factory.mktemp("output")
    places = ("--output", str(folder), "--peers", str(folder / "none"), "--transports", "tcp")
    pace = ("--clients", "2", "--rounds", "2", "--seconds", "0.01")
    run_suite("--sizes", *SIZES, "--only", *CONTESTANTS, *places, *pace)
    return folder


def test_every_contestant_that_is_there_is_measured_in_every_round(output: Path):
    entries = json.loads((output / "results.json").read_text())["entries"]

    assert {one["status"] for one in entries} == {"ok", "not installed"}
    measured = {(one["contestant"], one["cell"]["size"]): len(one["rounds"]) for one in entries if one["rounds"]}
    present = [name for name in CONTESTANTS if name != "arrow"]
    assert measured == {(name, size): 2 for name in present for size in (0, 1024, 1024**2)}


def test_a_peer_that_is_absent_is_told(output: Path):
    assert "| Arrow Flight DoExchange | not installed | not installed | not installed |" in read_report(output)


def test_memory_is_measured_from_1_mib_on(output: Path):
    entries = json.loads((output / "results.json").read_text())["entries"]

    weighed = {one["cell"]["size"] for one in entries if one["peak_bytes"] is not None}
    assert weighed == {1024**2}


def test_the_bars_are_judged(output: Path):
    (row,) = [line for line in read_report(output).splitlines() if line.startswith("| 1 KiB: at least 2.5 x")]

    assert any(verdict in row for verdict in ("| pass |", "| **miss** |"))


def test_a_bar_without_its_cell_is_not_measured(output: Path):
    rows = [line for line in read_report(output).splitlines() if line.startswith("| 16 MiB:")]

    assert rows
    assert all("not measured" in row for row in rows)


def test_a_report_is_rendered_again_from_the_results(output: Path):
    before = read_report(output)
    (output / "results.md").unlink()

    run_suite("--render", "--output", str(output))

    assert read_report(output) == before


def test_a_run_is_made_in_parts(tmp_path: Path):
    pace = ("--clients", "1", "--transports", "unix", "--rounds", "1", "--seconds", "0.01", "--output", str(tmp_path))

    for size in ("1KiB", "64KiB"):
        run_suite("--add", "--only", "socket", "--sizes", size, *pace)

    content = json.loads((tmp_path / "results.json").read_text())
    assert [one["cell"]["size"] for one in content["entries"]] == [1024, 64 * 1024]
    assert len(content["settings"]["earlier"]) == 1


def read_report(output: Path) -> str:
    return (output / "results.md").read_text()
