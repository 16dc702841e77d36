"""Plots: calls a second over size, one line a contestant."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cells import TCP, Cell, format_size
from benchmarks.contestants import CONTESTANTS, Contestant
from benchmarks.results import Results

_COLORS = ("#d62728", "#ff7f0e", "#7f7f7f", "#bcbd22", "#1f77b4", "#000000", "#2ca02c", "#9467bd", "#8c564b", "#17becf")
_MARKERS = "o^sDvXP*h<"
_ZERO_POSITION = 128
"""Where an empty tensor stands on the logarithmic axis."""


def draw(results: Results, path: Path) -> None:
    """Writes the PNG: a panel for each number of clients over TCP, or over what was measured."""
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        print("matplotlib is not installed: no plot; `uv pip install --group bench`", file=sys.stderr)
        return
    pyplot.switch_backend("Agg")
    groups = _list_groups(results)
    figure, axes = pyplot.subplots(1, len(groups), figsize=(1.5 + 5.5 * len(groups), 6), sharey=True, squeeze=False)
    for axis, cells in zip(axes[0], groups, strict=True):
        _draw_panel(axis, results, cells)
    axes[0][0].set_ylabel("calls a second (median of the rounds)")
    handles = {handle.get_label(): handle for axis in axes[0] for handle in axis.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="center right", frameon=False)
    figure.tight_layout(rect=(0, 0, 1 - 2.2 / (1.5 + 5.5 * len(groups)), 1))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _list_groups(results: Results) -> list[list[Cell]]:
    cells = results.list_cells()
    transport = TCP if any(cell.transport == TCP for cell in cells) else cells[0].transport
    clients = sorted({cell.clients for cell in cells})
    groups = [[cell for cell in cells if (cell.transport, cell.clients) == (transport, count)] for count in clients]
    return [group for group in groups if group]


def _draw_panel(axis: Any, results: Results, cells: Sequence[Cell]) -> None:  # noqa: ANN401 - of matplotlib
    drawn = [one for one in CONTESTANTS if one.is_drawn]
    for index, contestant in enumerate(drawn):
        points = _list_points(results, cells, contestant)
        if points:
            axis.plot(
                *zip(*points, strict=True),
                label=contestant.label,
                color=_COLORS[index % len(_COLORS)],
                marker=_MARKERS[index % len(_MARKERS)],
                linewidth=3 if contestant.server == "ours" else 1.5,
                zorder=3 if contestant.server == "ours" else 2,
            )
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks([_place(cell) for cell in cells], [format_size(cell.size) for cell in cells], rotation=45)
    axis.minorticks_off()
    axis.grid(visible=True, alpha=0.3)
    axis.set_xlabel("size of the tensor")
    axis.set_title(f"{cells[0].clients} client{'s' * (cells[0].clients > 1)}, {cells[0].transport}")


def _list_points(results: Results, cells: Sequence[Cell], contestant: Contestant) -> list[tuple[int, float]]:
    entries = [results.find(cell, contestant.name) for cell in cells]
    return [(_place(entry.cell), entry.rate) for entry in entries if entry is not None and entry.rate]


def _place(cell: Cell) -> int:
    return max(cell.size, _ZERO_POSITION)
