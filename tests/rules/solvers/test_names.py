"""Names of output dims: copied names, and products and quotients of names."""

from tensor_reshape.rules.dims import format_dims
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.operations import RESHAPE
from written_questions import write_question

# data, target; output
NAMED: dict[tuple[str, str], str] = {
    ("N 4", "0 4"): "[N, 4]",
    ("N 4 5", "0 -1"): "[N, 20]",
    ("N:1..8 4", "N -1"): "[N, 4]",
    ("N 4", "-1"): "[4*N]",
    ("N M", "-1"): "[M*N]",
    ("N N", "-1"): "[N^2]",
    ("N 4", "8 -1"): "[8, N/2]",
    ("N", "M:1..4 -1"): "[M, N/M]",
    ("N", "M ?"): "[M, ?]",  # M may be 0
    ("N ?", "-1"): "[?]",
    ("N:3..3 4", "-1"): "[12]",
}


def test_inferred_output_dims_keep_their_symbol_names():
    assert {row: format_dims(infer(write_question(RESHAPE, *row, True)).dims) for row in NAMED} == NAMED
