"""Integer roots."""

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.roots import find_exact_root, find_root, find_root_above


@examples(500)
@given(st.integers(0, 2**200), st.integers(1, 6))
def test_root_is_the_largest_integer_below(value: int, power: int):
    root = find_root(value, power)
    assert root == 2**64 if power > 1 and value >= 2 ** (64 * power) else root**power <= value < (root + 1) ** power


@examples(500)
@given(st.integers(0, 2**63), st.integers(1, 6))
def test_root_above_is_the_smallest_integer_above(value: int, power: int):
    root = find_root_above(value, power)
    assert root**power >= value
    assert root == 0 or (root - 1) ** power < value


def test_roots_of_large_numbers_are_exact():
    rows = {(2**54 + 2, 1): 2**54 + 2, ((2**40 + 1) ** 2, 2): 2**40 + 1, (2**1240, 2): 2**620, (2**1240 + 1, 2): None}
    assert {row: find_exact_root(*row) for row in rows} == rows
