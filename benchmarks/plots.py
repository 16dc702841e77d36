"""Plots: throughput over size, one line a contestant, ours in front, read from the tables of a report."""

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cells import MIB, TCP, Cell, format_size, parse_cell
from benchmarks.tables import Table

_OURS = "tensor-reshape"
_LINES = {
    "raw socket copy": ("raw socket copy", "#8c8c8c", "v"),
    "C++ gRPC stream, both sides, slices": ("C++ gRPC stream, both sides", "#2ca02c", "^"),
    "C++ gRPC sync": ("C++ gRPC server, Python client", "#17a2b8", "s"),
    "Arrow Flight DoExchange": ("Arrow Flight", "#ff9f1c", "D"),
    "stock grpcio": ("stock grpcio", "#1f4e9c", "P"),
    _OURS: (_OURS, "#d62728", "o"),
}
"""By the label of the report: what the plot calls it, colour and marker. The last is drawn over the others."""

_FONT_POINTS, _LINE_HEIGHT = 11, 1.3

Point = tuple[int, float]


def draw(tables: Sequence[Table], path: Path) -> bool:
    """Writes the PNG of the cells with one client over TCP; False where there are not two sizes, or no matplotlib."""
    lines = list_lines(tables)
    if len({size for points in lines.values() for size, _ in points}) < 2:
        return False
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        print("matplotlib is not installed: no plot; `uv pip install --group bench`", file=sys.stderr)
        return False
    pyplot.switch_backend("Agg")
    figure, axis = pyplot.subplots(figsize=(10, 6))
    for label, points in lines.items():
        _, colour, marker = _LINES[label]
        width, order = (4, 3) if label == _OURS else (1.8, 2)
        axis.plot(*zip(*points, strict=True), color=colour, marker=marker, linewidth=width, markersize=7, zorder=order)
    _dress(axis, sorted({size for points in lines.values() for size, _ in points}))
    _name_lines(axis, lines)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
    return True


def list_lines(tables: Sequence[Table]) -> dict[str, list[Point]]:
    """Returns for each label (size, MB a second) by size: 10^6 bytes of tensor, which go both ways, counted once."""
    cells = [(cell, table) for table in tables if (cell := parse_cell(table.title)) and _is_drawn(cell)]
    lines: dict[str, list[Point]] = {label: [] for label in _LINES}
    for cell, table in sorted(cells, key=lambda pair: pair[0].size):
        for label, text, *_ in table.rows:
            rate = text.partition(" ")[0].replace(",", "")
            if label in lines and rate[:1].isdigit():  # else it says why there is none
                lines[label].append((cell.size, float(rate) * cell.size / 1e6))
    return {label: points for label, points in lines.items() if points}


def _is_drawn(cell: Cell) -> bool:
    # What is larger is measured as a view, which moves nothing.
    return cell.clients == 1 and cell.transport == TCP and 0 < cell.size <= 256 * MIB


def _dress(axis: Any, sizes: Sequence[int]) -> None:  # noqa: ANN401 - of matplotlib
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(sizes, [*map(format_size, sizes)])
    axis.minorticks_off()
    axis.grid(visible=True, alpha=0.25)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g} MB/s" if value < 1000 else f"{value / 1000:g} GB/s")
    axis.set_xlabel("size of the tensor")
    axis.set_title("A tensor there and back, one client: throughput (higher is better)", loc="left", fontsize=13)


def _name_lines(axis: Any, lines: Mapping[str, Sequence[Point]]) -> None:  # noqa: ANN401 - of matplotlib
    """Writes each name at the right edge, beside the line's end: a legend would have to be searched."""
    figure = axis.figure
    figure.canvas.draw()  # else the scale is not known yet
    right = max(size for points in lines.values() for size, _ in points)
    ends = sorted((axis.transData.transform(points[-1])[1], label) for label, points in lines.items())
    heights = spread_heights([end for end, _ in ends], _FONT_POINTS * _LINE_HEIGHT * figure.dpi / 72)
    for height, (_, label) in zip(heights, ends, strict=True):
        name, colour, _ = _LINES[label]
        axis.annotate(
            name,
            (right, axis.transData.inverted().transform((0, height))[1]),
            xytext=(12, 0),
            textcoords="offset points",
            color=colour,
            fontsize=_FONT_POINTS,
            fontweight="bold" if label == _OURS else "normal",
            va="center",
            annotation_clip=False,
        )


def spread_heights(heights: Sequence[float], least: float) -> list[float]:
    """Returns ascending heights that are moved apart, each as little as others allow."""
    # Blocks of names that would touch: each stands around the mean of where its names want to be.
    blocks: list[tuple[float, int]] = []
    for height in heights:
        middle, count = height, 1
        while blocks and middle - count * least / 2 < blocks[-1][0] + blocks[-1][1] * least / 2:
            before, others = blocks.pop()
            middle, count = (middle * count + before * others) / (count + others), count + others
        blocks.append((middle, count))
    return [middle + (place - (count - 1) / 2) * least for middle, count in blocks for place in range(count)]
