"""Plots: calls a second over size, one line a contestant, read from the tables of a report."""

import importlib
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.cells import Cell, format_size, parse_cell
from benchmarks.contestants import OURS, TRANSPORT, Contestant
from benchmarks.tables import Table

_MARKERS = "o^sDvXP*h<"
_ZERO_POSITION = 128
"""Where an empty tensor stands on the logarithmic axis."""

_Rates = list[tuple[Cell, dict[str, str]]]


def draw(tables: Sequence[Table], path: Path) -> None:
    """Writes the PNG: a panel for each number of clients, over the first transport (TCP where it was measured)."""
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        print("matplotlib is not installed: no plot; `uv pip install --group bench`", file=sys.stderr)
        return
    pyplot.switch_backend("Agg")
    panels = _list_panels(tables)
    width = 1.5 + 5.5 * len(panels)
    figure, axes = pyplot.subplots(1, len(panels), figsize=(width, 6), sharey=True, squeeze=False)
    for axis, rates in zip(axes[0], panels, strict=True):
        _draw_panel(axis, rates)
    axes[0][0].set_ylabel("calls a second (median of the rounds)")
    handles = {handle.get_label(): handle for axis in axes[0] for handle in axis.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="center right", frameon=False)
    figure.tight_layout(rect=(0, 0, 1 - 2.2 / width, 1))
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _list_panels(tables: Sequence[Table]) -> list[_Rates]:
    """Returns the cells, panel by panel; the tables are sorted already."""
    cells = [(cell, {row[0]: row[1] for row in table.rows}) for table in tables if (cell := parse_cell(table.title))]
    drawn = [(cell, rates) for cell, rates in cells if cell.transport == cells[0][0].transport]
    return [list(group) for _, group in groupby(drawn, lambda item: item[0].clients)]


def _draw_panel(axis: Any, rates: _Rates) -> None:  # noqa: ANN401 - of matplotlib
    # By the order of the table, so that a contestant has its colour in every panel, also where others are absent.
    for index, contestant in enumerate(one for one in TRANSPORT if one.drawn):
        points = _list_points(contestant, rates)
        if points:
            axis.plot(
                *zip(*points, strict=True),
                label=contestant.label,
                color=f"C{index}",
                marker=_MARKERS[index % len(_MARKERS)],
                linewidth=3 if contestant.server == OURS else 1.5,
                zorder=3 if contestant.server == OURS else 2,
            )
    sizes = [cell.size for cell, _ in rates]
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks([max(size, _ZERO_POSITION) for size in sizes], [*map(format_size, sizes)], rotation=45)
    axis.minorticks_off()
    axis.grid(visible=True, alpha=0.3)
    axis.set_xlabel("size of the tensor")
    axis.set_title(str(rates[0][0]).partition(", ")[2])


def _list_points(contestant: Contestant, rates: _Rates) -> list[tuple[int, float]]:
    texts = [(cell, row.get(contestant.label, "").partition(" ")[0].replace(",", "")) for cell, row in rates]
    return [(max(cell.size, _ZERO_POSITION), float(text)) for cell, text in texts if text[:1].isdigit()]
