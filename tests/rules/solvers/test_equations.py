"""Ranges without an upper end. The tests of results cover their use."""

from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.solvers.equations import UNBOUNDED, Range, find_range


def test_dim_without_an_upper_bound_has_an_open_range():
    texts = ["4", "?", "2..", "N:2..", "N:2..3"]
    ends = [(4, 4), (0, MAX_DIM), (2, MAX_DIM), (2, MAX_DIM), (2, 3)]
    assert [find_range(parse_dim(text)) for text in texts] == ends
    assert [Range(0, high).is_open for high in (MAX_DIM - 1, MAX_DIM, UNBOUNDED)] == [False, True, True]


def test_largest_possible_product_of_dims_is_below_unbounded():
    assert UNBOUNDED > (2**63) ** (4 * 64 + 256 + 2 * 64)
