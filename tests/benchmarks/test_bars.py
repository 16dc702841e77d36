import pytest
from benchmarks.cells import KIB, MIB, Cell
from benchmarks.contestants import SERVERS, TRANSPORT
from benchmarks.rounds import Entry, Sample
from benchmarks.suites import server, transport
from benchmarks.suites.bars import BARS, HISTORY_COLUMNS, LEAST_ROUNDS, Bar, find_verdict, judge
from benchmarks.suites.useful import CELLS
from benchmarks.tables import Table, merge_tables

PLACE = Cell(MIB)
FASTER = Bar("at least 2 x stock", PLACE, "ours", "stock", 2)
SMALLER = Bar("below 8 MiB", PLACE, "ours", None, 8 * MIB)
CONTESTANTS = {one.name: one for one in TRANSPORT}


def build_entry(name: str, rate: int, peak_bytes: int | None = None, cell: Cell = PLACE) -> Entry:
    samples = {number: Sample(rate, 1, 0.1, 0.1, 0) for number in range(LEAST_ROUNDS)}
    return Entry(CONTESTANTS[name], cell, peak_bytes=peak_bytes, samples=samples)


def spread(low: float, middle: float, high: float) -> list[float]:
    """Returns nine ratios with these quartiles."""
    return [low] * 4 + [middle] + [high] * 4


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        (spread(0.85, 1, 9), "pass"),
        (spread(0.84, 1, 9), "undecided"),  # the median passes, but a quarter of the rounds is well below
        (spread(0.1, 0.99, 1.17), "**miss**"),
        (spread(0.1, 0.99, 1.18), "undecided"),  # the median misses, but a quarter of the rounds is well above
        (spread(0.84, 1.5, 2), "undecided"),
        ([2] * (LEAST_ROUNDS - 1), "undecided"),
        ([0.5] * (LEAST_ROUNDS - 1), "undecided"),
        ([], "not measured"),
    ],
)
def test_a_verdict_is_by_the_median_where_the_quartile_does_not_contradict_it(ratios: list[float], verdict: str):
    assert find_verdict(ratios, 1) == verdict


@pytest.mark.parametrize("ratios", [spread(0.9, 1.1, 1.4), spread(0.8, 1.1, 1.2), spread(0.7, 0.9, 1.0)])
def test_a_verdict_against_us_is_as_hard_to_reach_as_one_for_us(ratios: list[float]):
    mirrored = {"pass": "**miss**", "**miss**": "pass", "undecided": "undecided"}

    assert find_verdict([1 / ratio for ratio in ratios], 1) == mirrored[find_verdict(ratios, 1)]


def test_a_bar_is_judged_by_the_ratios_of_its_contestants():
    ((_, cell, measured, told),) = judge([FASTER], [[build_entry("ours", 200), build_entry("stock", 100)]]).rows

    assert (cell, measured, told) == ("1 MiB, 1 client, tcp", "2.00 (2.00-2.00)", "pass")


@pytest.mark.parametrize(
    ("peak_bytes", "verdict"), [(8 * MIB - 1, "pass"), (8 * MIB, "**miss**"), (None, "not measured")]
)
def test_a_bar_of_memory_is_kept_below_it(peak_bytes: int | None, verdict: str):
    ((*_, told),) = judge([SMALLER], [[build_entry("ours", 100, peak_bytes)]]).rows

    assert told == verdict


def test_a_peer_that_failed_leaves_its_bar_unjudged():
    failed = Entry(CONTESTANTS["stock"], PLACE, "not installed")

    ((*_, told),) = judge([FASTER], [[build_entry("ours", 200), failed]]).rows

    assert told == "not measured"


@pytest.mark.parametrize("cell", [Cell(2 * MIB), Cell(MIB, 16), Cell(MIB, processes=4)])
def test_a_bar_says_nothing_of_other_cells(cell: Cell):
    assert judge([SMALLER], [[build_entry("ours", 100, MIB, cell)]]).rows == []


@pytest.mark.parametrize("bar", BARS, ids=lambda bar: f"{bar.text}, {bar.cell}")
def test_the_useful_suite_decides_every_bar(bar: Bar):
    measured = {*CELLS.get(bar.cell, ()), *(one.name for one in SERVERS)}

    assert {bar.over, bar.under or bar.over} <= measured


def test_no_two_bars_share_a_row_or_a_column_of_the_history():
    assert len({(bar.text, bar.cell) for bar in BARS}) == len(BARS)
    assert len({*HISTORY_COLUMNS}) == len(HISTORY_COLUMNS) == 10


@pytest.mark.parametrize("title", ["1 KiB, 1 client, tcp", "The server alone: 1 KiB, 1 client, tcp"])
def test_a_later_run_replaces_the_bars_of_the_tables_that_it_has_and_no_others(title: str):
    cell = Cell(KIB)
    groups = [[Entry(one, cell) for one in TRANSPORT], server.list_entries(cell)]
    titles = {bar.title for bar in BARS if bar.cell == cell}

    merged, *_ = merge_tables([judge(BARS, groups)], [judge([], []), Table(title, ("",))])

    assert {row[1] for row in merged.rows} == titles - {title}


def test_the_bars_of_a_table_are_known_by_its_title():
    cell = Cell(KIB)
    tables = [transport.tell_group([Entry(one, cell) for one in TRANSPORT])]
    tables.append(server.tell_group(server.list_entries(cell)))

    assert {bar.title for bar in BARS if bar.cell == cell} == {table.title for table in tables}
