import importlib.util
from pathlib import Path

import pytest
from benchmarks.plots import draw, list_lines, spread_heights
from benchmarks.tables import Table

HEAD = ("", "calls a second")


def build_table(title: str, rate: str) -> Table:
    return Table(title, HEAD, [("tensor-reshape", rate)])


def test_a_line_is_megabytes_a_second_by_size():
    tables = [build_table("16 MiB, 1 client, tcp", "100 (90.0-110)"), build_table("1 KiB, 1 client, tcp", "2,000")]

    assert list_lines(tables) == {"tensor-reshape": [(1024, 2.048), (16 * 1024**2, 1677.7216)]}


def test_a_point_that_was_not_measured_is_left_out():
    assert list_lines([build_table("1 KiB, 1 client, tcp", "not installed")]) == {}


def test_cells_of_many_clients_of_unix_sockets_and_of_views_are_no_points():
    titles = ["1 KiB, 16 clients, tcp", "1 KiB, 1 client, unix", "1 GiB, 1 client, tcp", "Bars"]

    assert list_lines([build_table(title, "10") for title in titles]) == {}


@pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="matplotlib is not installed")
def test_two_sizes_make_a_plot(tmp_path: Path):
    tables = [build_table("1 KiB, 1 client, tcp", "2,000"), build_table("1 MiB, 1 client, tcp", "1,000")]

    assert draw(tables, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_one_size_makes_no_plot(tmp_path: Path):
    assert not draw([build_table("1 KiB, 1 client, tcp", "10")], tmp_path / "plot.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("heights", "apart"),
    [
        ([0, 100], [0, 100]),
        ([50, 50], [45, 55]),
        ([50, 52, 54, 200], [42, 52, 62, 200]),
        ([0, 6, 14], [-10 / 3, 20 / 3, 50 / 3]),  # moved apart, the first two reach the third
    ],
)
def test_names_are_moved_apart_around_their_lines(heights: list[float], apart: list[float]):
    assert spread_heights(heights, 10) == pytest.approx(apart)
