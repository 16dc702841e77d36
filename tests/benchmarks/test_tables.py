from pathlib import Path

import pytest
from benchmarks.tables import build_summary, read_summary, write_summary

from documents import README, ROOT

REPORT = """# A report

## The machine

- a machine, 2 cores
- a system

## Runs

| begin, UTC | commit | rounds |
| --- | ---: | ---: |
| 2026-11-22 | abc1234 | 10 |

## What a user gets

| times as fast as | stock grpcio | Arrow Flight |
| --- | ---: | ---: |
| 1 KiB | 3.00 (2.90-3.10) | - |
"""


def test_benchmark_summary_omits_figures_of_runs_with_too_few_rounds():
    summary = build_summary(REPORT)
    assert "| 1 KiB | 3.00 (2.90-3.10) | - |" in summary
    assert "10 rounds; a machine, 2 cores; commit abc1234" in summary
    summary = build_summary(REPORT.replace("| 10 |", "| 7 |"))
    assert "| 1 KiB | - | - |" in summary
    assert "too few rounds" in summary


def test_readme_has_the_figures_of_the_benchmark_results():
    assert read_summary(README) == build_summary((ROOT / "docs/benchmarks/results.md").read_text())


def test_write_summary_leaves_a_page_without_markers_unchanged(tmp_path: Path):
    page = tmp_path / "README.md"
    page.write_text("words\n")
    with pytest.raises(ValueError, match="no <!-- measured -->"):
        write_summary(page, REPORT)
    assert page.read_text() == "words\n"
