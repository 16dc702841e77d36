from benchmarks.contestants import CONTESTANTS, MIB, SERVERS, Cell
from benchmarks.rounds import Entry, Sample
from benchmarks.suites.bars import BARS, Bar, find_verdict, judge
from benchmarks.suites.useful import CELLS, SERVER_CELLS
from benchmarks.tables import LEAST_ROUNDS

PLACE = Cell(MIB)
FASTER = Bar("at least 2 x stock", PLACE, "ours", "stock", 2)
SMALLER = Bar("below 8 MiB", PLACE, "ours", None, 8 * MIB)
BY_NAME = {one.name: one for one in CONTESTANTS}


def build_entry(name: str, rate: int, peak_bytes: int | None = None, cell: Cell = PLACE) -> Entry:
    samples = {number: Sample(rate, 1, 0.1, 0.1) for number in range(LEAST_ROUNDS)}
    return Entry(BY_NAME[name], cell, peak_bytes=peak_bytes, samples=samples)


def spread(low: float, middle: float, high: float) -> list[float]:
    """Returns nine ratios with these quartiles."""
    return [low] * 4 + [middle] + [high] * 4


def test_benchmark_verdict_follows_the_median_unless_a_quartile_contradicts_it():
    for ratios, verdict in (
        (spread(0.85, 1, 9), "pass"),
        (spread(0.84, 1, 9), "undecided"),  # the median passes, but a quarter of the rounds is well below
        (spread(0.1, 0.99, 1.17), "**miss**"),
        (spread(0.1, 0.99, 1.18), "undecided"),  # the median misses, but a quarter of the rounds is well above
        (spread(0.84, 1.5, 2), "undecided"),
        ([2] * (LEAST_ROUNDS - 1), "undecided"),
        ([0.5] * (LEAST_ROUNDS - 1), "undecided"),
        ([], "not measured"),
    ):
        assert find_verdict(ratios, 1) == verdict, ratios


def test_performance_target_is_judged_by_the_ratio_of_two_programs():
    ((_, cell, measured, told),) = judge([FASTER], [[build_entry("ours", 200), build_entry("stock", 100)]]).rows
    assert (cell, measured, told) == ("1 MiB, 1 client, tcp", "2.00 (2.00-2.00)", "pass")
    ((*_, told),) = judge([FASTER], [[build_entry("ours", 200), Entry(BY_NAME["stock"], PLACE, "failed")]]).rows
    assert told == "not measured"


def test_memory_target_passes_only_below_its_limit():
    for peak_bytes, verdict in ((8 * MIB - 1, "pass"), (8 * MIB, "**miss**"), (None, "not measured")):
        ((*_, told),) = judge([SMALLER], [[build_entry("ours", 100, peak_bytes)]]).rows
        assert told == verdict, peak_bytes


def test_performance_target_ignores_other_sizes_and_client_counts():
    for cell in (Cell(2 * MIB), Cell(MIB, 16), Cell(MIB, processes=4)):
        assert judge([SMALLER], [[build_entry("ours", 100, MIB, cell)]]).rows == [], cell


def test_benchmark_suite_measures_the_programs_of_every_performance_target():
    measured = {(one, cell) for cell, names in CELLS.items() for one in names}
    measured |= {(one.name, cell) for cell in SERVER_CELLS for one in SERVERS}
    assert {(one, bar.cell) for bar in BARS for one in (bar.over, bar.under or bar.over)} <= measured
