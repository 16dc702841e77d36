from pathlib import Path

import pytest
from benchmarks.summaries import build_summary, read_summary, write_summary

ROOT = Path(__file__).parents[2]
REPORT = """# A report

## The machine

- a machine, 2 cores
- a system

## Runs

| begin, UTC | commit | rounds |
| --- | ---: | ---: |
| 2026-11-22 | abc1234 | 10 |

## 1 KiB, 1 client, tcp

|  | calls a second | first / it |
| --- | ---: | ---: |
| tensor-reshape | 3,000 | 1 |
| stock grpcio | 1,000 | 3.00 (2.90-3.10) |
"""


def test_the_readme_says_what_the_report_says():
    report = (ROOT / "docs" / "benchmarks" / "results.md").read_text()

    assert read_summary(ROOT / "README.md") == build_summary(report)


def test_a_summary_has_the_ratios_of_the_report_and_names_its_run():
    summary = build_summary(REPORT)

    assert "| stock grpcio | 3.00 (2.90-3.10) | - | - | - | - |" in summary
    assert "10 rounds; a machine, 2 cores; commit abc1234" in summary


def test_a_run_of_few_rounds_gives_no_figure():
    summary = build_summary(REPORT.replace("| 10 |", "| 7 |"))

    assert "| stock grpcio | - | - | - | - | - |" in summary
    assert "too few rounds" in summary


def test_a_summary_replaces_what_is_between_the_markers_and_nothing_else(tmp_path: Path):
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n")

    write_summary(page, REPORT)

    assert page.read_text() == f"before\n<!-- measured -->\n{build_summary(REPORT)}\n<!-- /measured -->\nafter\n"


def test_a_page_without_markers_is_left_alone(tmp_path: Path):
    page = tmp_path / "README.md"
    page.write_text("words\n")

    with pytest.raises(ValueError, match="no <!-- measured -->"):
        write_summary(page, REPORT)

    assert page.read_text() == "words\n"
