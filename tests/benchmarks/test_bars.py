import pytest
from benchmarks.cells import MIB, Cell
from benchmarks.contestants import TRANSPORT
from benchmarks.rounds import Entry, Sample
from benchmarks.suites.bars import Bar, judge

FASTER = Bar("at least 2 x stock", MIB, "ours", "stock", 2)
SMALLER = Bar("below 8 MiB", MIB, "ours", None, 8 * MIB, 1)
CONTESTANTS = {one.name: one for one in TRANSPORT}


def build_entry(name: str, rate: int, peak_bytes: int | None = None, cell: Cell = Cell(MIB)) -> Entry:  # noqa: B008
    samples = {number: Sample(rate, 1, 0.1, 0.1, 0) for number in range(3)}
    return Entry(CONTESTANTS[name], cell, peak_bytes=peak_bytes, samples=samples)


@pytest.mark.parametrize(("rate", "verdict"), [(200, "pass"), (199, "**miss**")])
def test_a_bar_is_kept_where_the_median_ratio_reaches_it(rate: int, verdict: str):
    ((_, cell, _, told),) = judge([FASTER], [[build_entry("ours", rate), build_entry("stock", 100)]]).rows

    assert (cell, told) == ("1 MiB, 1 client, tcp", verdict)


@pytest.mark.parametrize(
    ("peak_bytes", "verdict"), [(8 * MIB - 1, "pass"), (8 * MIB, "**miss**"), (None, "not measured")]
)
def test_a_bar_of_memory_is_kept_below_it(peak_bytes: int | None, verdict: str):
    ((*_, told),) = judge([SMALLER], [[build_entry("ours", 100, peak_bytes)]]).rows

    assert told == verdict


def test_a_peer_that_failed_leaves_its_bar_unjudged():
    failed = Entry(CONTESTANTS["stock"], Cell(MIB), "not installed")

    ((*_, told),) = judge([FASTER], [[build_entry("ours", 200), failed]]).rows

    assert told == "not measured"


@pytest.mark.parametrize("cell", [Cell(2 * MIB), Cell(MIB, 16)])
def test_a_bar_says_nothing_of_other_cells(cell: Cell):
    assert judge([SMALLER], [[build_entry("ours", 100, MIB, cell)]]).rows == []
