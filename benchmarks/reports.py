"""Reports: results.md, the tables of a run."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bars import judge
from benchmarks.cells import GIB, KIB, MIB, Cell, format_size
from benchmarks.contestants import ABSENT, CONTESTANTS, Contestant
from benchmarks.ratios import compare
from benchmarks.results import OK, Entry, Results

_US = "ours"
_INTRODUCTION = """\
# Measured

Every contestant takes a float32 tensor of shape (n,) and returns the same bytes as (2, n/2). Its server runs in a
process of its own, its usual client library in another; each answer's shape and bytes are checked before anything is
timed. In a round the contestants take turns, one after the other; each round begins with another one. A ratio is made
of two measurements of one round; tables show the median of the rounds, and the least and the greatest in brackets.
Every single round is in [results.json](results.json).

How to repeat it, and what the contestants are: [README.md](README.md).
"""
_STATUSES = "Words instead of a number say why there is none; a dash: the contestant has no part in that cell."


def write_report(results: Results, path: Path) -> None:
    """Writes the file."""
    parts = [_INTRODUCTION, _describe(results), "![Calls a second over size](throughput.png)\n", _tell_bars(results)]
    groups = list(dict.fromkeys((cell.transport, cell.clients) for cell in results.list_cells()))
    parts += _tell(results, groups, "Calls a second", _format_rate)
    parts += _tell(results, groups, f"Ratios: calls a second of {_US} over those of the row", _format_ratio)
    parts += _tell(results, groups, "Latency: p50 / p99 in milliseconds", _format_latency)
    parts += _tell(results, groups, "Server's processor seconds per GB of tensor", _format_cpu)
    parts += _tell(results, groups, "Server's peak memory above rest, per tensor in flight", _format_peak)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts))


def build_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _describe(results: Results) -> str:
    machine, settings = results.machine, results.settings
    virtual = ", virtual" if machine["hypervisor"] else ""
    versions = [
        f"{environment}: {', '.join(f'{name} {version}' for name, version in packages.items())}"
        for environment, packages in machine["versions"].items()
    ]
    lines = [
        f"- {machine['processor']}, {machine['cores']} cores{virtual}, {machine['memory_gib']} GiB of memory",
        f"- {machine['system']}, Linux {machine['kernel']}, Python {machine['python']}",
        *(f"- {line}" for line in versions),
        *map(_describe_part, [*settings.get("earlier", []), settings]),
    ]
    return "## The machine\n\n" + "\n".join(lines) + "\n"


def _describe_part(settings: dict[str, Any]) -> str:
    pace = f"{settings['rounds']} rounds of {settings['seconds']} s each"
    memory = f"tensors in flight take up to {settings['memory_gib']} GiB"
    return f"- {settings['begin']}, {settings['minutes']} minutes: {pace}; {memory}; load before: {settings['load']}"


def _tell_bars(results: Results) -> str:
    words = {True: "pass", False: "**miss**", None: ""}
    rows = [
        (verdict.bar.text, str(verdict.cell or ""), verdict.measured, words[verdict.is_kept])
        for verdict in judge(results)
    ]
    return "## Bars\n\n" + build_table(("bar", "cell", "measured", ""), rows)


Format = Callable[[Results, Entry], str]


def _tell(results: Results, groups: Sequence[tuple[str, int]], title: str, tell: Format) -> list[str]:
    parts = []
    for transport, clients in groups:
        sizes = [cell.size for cell in results.list_cells() if (cell.transport, cell.clients) == (transport, clients)]
        cells = [Cell(size, clients, transport) for size in sizes]
        rows = [row for one in CONTESTANTS if (row := _build_row(results, cells, one, tell))]
        if rows:
            parts.append(f"### {transport}, {clients} client{'s' * (clients > 1)}\n")
            parts.append(build_table(("", *map(format_size, sizes)), rows))
    return [f"## {title}\n", *parts, f"{_STATUSES}\n"] if parts else []


def _build_row(results: Results, cells: Sequence[Cell], contestant: Contestant, tell: Format) -> list[str]:
    """Returns a row, nothing where the contestant has no part in any of the cells."""
    entries = [results.find(cell, contestant.name) for cell in cells]
    if all(entry is None or entry.status == ABSENT for entry in entries):
        return []
    texts = ["-" if entry is None or entry.status == ABSENT else tell(results, entry) for entry in entries]
    return [contestant.label, *texts] if any(text != "-" for text in texts) else []


def _format_rate(_: Results, entry: Entry) -> str:
    if entry.rate is None:
        return _shorten(entry.status)
    return format_number(entry.rate)


def _format_ratio(results: Results, entry: Entry) -> str:
    if entry.contestant == _US:
        return "1" if entry.rate else _shorten(entry.status)
    us = results.find(entry.cell, _US)
    if us is None:
        return "-"
    return str(compare(us, entry) or (_shorten(entry.status) if entry.status != OK else "ours: none"))


def _format_latency(_: Results, entry: Entry) -> str:
    if entry.rate is None:
        return "-"
    medians = (statistics.median(one.p50 for one in entry.rounds), statistics.median(one.p99 for one in entry.rounds))
    return " / ".join(format_number(seconds * 1e3) for seconds in medians)


def _format_cpu(_: Results, entry: Entry) -> str:
    return "-" if entry.cpu_seconds_per_gb is None else f"{entry.cpu_seconds_per_gb:.2f}"


def _format_peak(_: Results, entry: Entry) -> str:
    if entry.peak_bytes is None or entry.peak_per_tensor is None:
        return "-"
    return f"{format_bytes(entry.peak_bytes / entry.cell.clients)} ({entry.peak_per_tensor:.2f} x)"


def format_number(number: float) -> str:
    """Returns three significant digits: "12,300", "45.1", "0.067"."""
    digits = next((digits for limit, digits in ((100, 0), (10, 1), (1, 2), (0.1, 3)) if number >= limit), 4)
    return f"{number:,.{digits}f}"


def format_bytes(number: float) -> str:
    """Returns "1.2 MiB"."""
    for unit, factor in (("GiB", GIB), ("MiB", MIB)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number / KIB:.0f} KiB"


def _shorten(status: str) -> str:
    return status.replace("|", "/")[:120]
