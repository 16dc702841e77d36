import subprocess
import sys
from pathlib import Path

from benchmarks.milestones import HEAD, HISTORY, build_row
from benchmarks.suites.bars import BARS as PROMISES
from benchmarks.tables import BARS, RUNS, Table

ROOT = Path(__file__).parents[2]
FIRST = PROMISES[0]
SERVED = next(bar for bar in PROMISES if bar.over == "served")
REPORT = "\n\n".join(
    [
        "# A report",
        "## The machine\n\n- a machine, 2 cores",
        str(Table(RUNS, ("begin, UTC", "commit"), [("2026-11-22 03:00", "abc1234")])),
        str(
            Table(
                BARS,
                ("bar", "cell", "measured", "verdict"),
                [
                    (FIRST.text, FIRST.title, "3.10 (3.00-3.20)", "pass"),
                    (SERVED.text, SERVED.title, "0.80 (0.70-0.90)", "pass"),
                ],
            )
        ),
    ]
)


def read_rows(text: str) -> list[tuple[str, ...]]:
    return [tuple(line[2:-2].split(" | ")) for line in text.splitlines() if line.startswith("| ")]


def test_a_row_has_the_medians_of_a_report_and_a_dash_for_the_rest():
    row = dict(zip(HEAD, build_row(REPORT, "faster"), strict=True))

    assert (row[FIRST.column], row[SERVED.column]) == ("3.10", "0.80")
    assert row[PROMISES[1].column] == "-"
    assert (row["commit"], row["what has changed"], row["machine"]) == ("abc1234", "faster", "a machine, 2 cores")


def test_the_history_has_the_columns_of_the_bars():
    head, _, *rows = read_rows(HISTORY.read_text())

    assert head == HEAD
    assert {len(row) for row in rows} <= {len(HEAD)}


def test_a_command_adds_a_row(tmp_path: Path):
    report, history = tmp_path / "results.md", tmp_path / "history.md"
    report.write_text(REPORT)
    history.write_text("| begin |\n| --- |\n")

    files = ("--report", str(report), "--history", str(history))
    subprocess.run([sys.executable, "-m", "benchmarks.milestones", "a change", *files], cwd=ROOT, check=True)

    assert read_rows(history.read_text())[2:] == [build_row(REPORT, "a change")]
