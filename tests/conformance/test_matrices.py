"""The matrix of a report."""

from conformance_runs import ROWS, make_mixed_results, make_question, make_results
from tensor_reshape.conformance.matrices import build_matrix, find_worst, write_cell
from tensor_reshape.conformance.verdicts import Verdict

RESULTS = make_mixed_results()
OTHER = make_results(
    (make_question(), {"shape": [6]}),
    (ROWS, {"shape": [2, 3]}),
    (make_question("layouts/no"), {"unsupported": "x"}),
    name="other",
)


def test_of_one_implementation_the_columns_are_the_verdicts_that_occur_the_best_first():
    assert build_matrix([RESULTS]).write().splitlines() == [
        "rule      agrees  unsupported  weaker  wrong_shape  garbage  hang  crash",
        "target         .            .       .            .        1     .      .",
        "inferred       2            .       .            2        .     1      1",
        "partial        .            1       1            .        .     .      .",
        "all            2            1       1            2        1     1      1",
    ]


def test_of_several_the_columns_are_these():
    head, *rows = (line.split("  ") for line in build_matrix([RESULTS, OTHER]).write().splitlines())
    assert [cell for cell in head if cell] == ["rule", " mine", "other"]
    assert [cell.strip() for cell in rows[1] if cell] == ["inferred", "2 of 6, crash", "1 of 1"]
    assert [row[0] for row in build_matrix([RESULTS, OTHER]).rows] == [
        "target",
        "inferred",
        "partial",
        "layouts",
        "all",
    ]


def test_a_cell_says_how_much_agrees_and_the_worst():
    assert write_cell(RESULTS, "inferred") == "2 of 6, crash"
    assert write_cell(RESULTS, None) == "2 of 8, crash"
    assert write_cell(OTHER, "layouts") == "not offered"
    assert write_cell(OTHER, "partial") == "."


def test_the_worst_is_the_first_of_the_list_that_occurs():
    assert (find_worst(RESULTS, "partial"), find_worst(OTHER, "inferred")) == (Verdict.WEAKER, Verdict.AGREES)
    assert (find_worst(OTHER, None), find_worst(OTHER, "layouts")) == (Verdict.AGREES, Verdict.UNSUPPORTED)
