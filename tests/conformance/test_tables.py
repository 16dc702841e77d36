"""The table of a report."""

from conformance_runs import ROWS, make_case, make_mixed_results, make_results, write_shape
from tensor_reshape.conformance.tables import build_table, find_worst, write_cell
from tensor_reshape.conformance.verdicts import Verdict

RESULTS = make_mixed_results()
OTHER = make_results(
    (make_case(), write_shape(6)),
    (ROWS, write_shape(2, 3)),
    (make_case("layouts/no"), {"unsupported": "x"}),
    name="other",
)


def test_conformance_table_lists_verdicts_from_best_to_worst():
    assert build_table([RESULTS]).write().splitlines() == [
        "rule      agrees  unsupported  weaker  wrong_shape  garbage  hang  crash",
        "target         .            .       .            .        1     .      .",
        "inferred       2            .       .            2        .     1      1",
        "partial        .            1       1            .        .     .      .",
        "all            2            1       1            2        1     1      1",
    ]


def test_conformance_table_has_a_column_for_each_implementation():
    head, *rows = (line.split("  ") for line in build_table([RESULTS, OTHER]).write().splitlines())
    assert [cell for cell in head if cell] == ["rule", " mine", "other"]
    assert [cell.strip() for cell in rows[1] if cell] == ["inferred", "2 of 6, crash", "1 of 1"]
    rules = ["target", "inferred", "partial", "layouts", "all"]
    assert [row[0] for row in build_table([RESULTS, OTHER]).rows] == rules


def test_conformance_table_cell_shows_agreement_and_worst_verdict():
    assert write_cell(RESULTS, "inferred") == "2 of 6, crash"
    assert write_cell(RESULTS, None) == "2 of 8, crash"
    assert write_cell(OTHER, "layouts") == "not supported"
    assert write_cell(OTHER, "partial") == "."
    assert (find_worst(RESULTS, "partial"), find_worst(OTHER, "inferred")) == (Verdict.WEAKER, Verdict.AGREES)
    assert (find_worst(OTHER, None), find_worst(OTHER, "layouts")) == (Verdict.AGREES, Verdict.UNSUPPORTED)
