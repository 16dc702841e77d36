"""Which values the factors of two equal products may have, against all of their solutions, and what that costs."""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import prod
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_reshape.rules.budgets import MAX_STEPS
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.solvers import propagation
from tensor_reshape.rules.solvers.equations import Equation, Range
from tensor_reshape.rules.solvers.propagation import narrow_ranges

Solution = dict[int, Range] | None


def try_all(bounds: dict[int, Range], left: Counter[int], right: Counter[int], constants: tuple[int, int]) -> Solution:
    """Returns the bounds of every factor over all solutions, found one by one."""
    ranges = [range(max(1, low), high + 1) for low, high in bounds.values()]
    solutions = []
    for values in product(*ranges):
        named = dict(zip(bounds, values, strict=True))
        sides = [prod(named[key] ** power for key, power in side.items()) for side in (left, right)]
        if constants[0] * sides[0] == constants[1] * sides[1]:
            solutions.append(named)
    if not solutions:
        return None
    return {key: Range(min(s[key] for s in solutions), max(s[key] for s in solutions)) for key in bounds}


interval = st.builds(lambda low, more: Range(low, low + more), st.integers(0, 4), st.integers(0, 5))
side = st.dictionaries(st.integers(0, 3), st.integers(1, 3), max_size=3).map(Counter)


@settings(max_examples=400, deadline=None)
@given(st.tuples(interval, interval, interval, interval), side, side, st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_every_end_is_reached_by_a_solution(
    intervals: tuple[Range, ...], left: Counter[int], right: Counter[int], constants: tuple[int, int]
):
    bounds = {key: intervals[key] for key in {*left, *right}}
    equation = Equation([*left.elements()], [*right.elements()], constants).cancel()
    assert narrow_ranges(intervals, equation, bounds) == try_all(bounds, left, right, constants)


def make_ranges(ends: Sequence[tuple[int, int | None]]) -> list[Range]:
    return [Range(low, MAX_DIM if high is None else high) for low, high in ends]


# bounds of a and b on the left, of c on the right, constants; bounds of all, in this order
OPEN: dict[str, tuple[list[tuple[int, int | None]], tuple[int, int], list[tuple[int, int | None]] | None]] = {
    "everything is open": ([(0, None), (0, None), (0, None)], (1, 1), [(1, None), (1, None), (1, None)]),
    "the right side bounds the left": ([(0, None), (0, None), (6, 6)], (1, 1), [(1, 6), (1, 6), (6, 6)]),
    "a multiple": ([(0, None), (1, 1), (0, 10)], (4, 1), [(1, 2), (1, 1), (4, 8)]),
    "no multiple is left": ([(0, None), (0, None), (1, 3)], (4, 1), None),
    "an open end is divided": ([(3, None), (1, 1), (0, None)], (1, 2), [(4, None), (1, 1), (2, None)]),
    "huge bounds": ([(1, 2**62), (1, 2**62), (2**62, 2**62)], (1, 1), [(1, 2**62), (1, 2**62), (2**62, 2**62)]),
}


@pytest.mark.parametrize(("bounds", "constants", "want"), OPEN.values(), ids=OPEN.keys())
def test_open_ends_stay_open_only_where_they_must(
    bounds: list[tuple[int, int | None]], constants: tuple[int, int], want: list[tuple[int, int | None]] | None
):
    found = narrow_ranges(make_ranges(bounds), Equation([0, 1], [2], constants), range(3))
    assert (None if found is None else [found[key] for key in range(3)]) == (
        None if want is None else make_ranges(want)
    )


# what each factor lies between, and its power, on the left and on the right
HOSTILE: dict[str, tuple[list[tuple[int, int | None]], int, list[tuple[int, int | None]], int]] = {
    "64 factors on each side": ([(2, 2**40)] * 64, 1, [(2, 2**40)] * 64, 1),
    "64 powers of 64": ([(1, 2**63 - 1)] * 8, 64, [(1, 2**63 - 1)] * 8, 63),
    "one side is a huge number": ([(2, 2**61)] * 12, 1, [(2**61 - 1, 2**61 - 1)], 1),
    "no power is near": ([(2, 2**30), (2, 2**30)], 3, [(2**60 + 1, 2**60 + 4)], 1),
    "open factors": ([(2, None)] * 32, 2, [(3, 2**62)] * 32, 3),
}


@pytest.mark.parametrize(("left", "left_power", "right", "right_power"), HOSTILE.values(), ids=HOSTILE.keys())
def test_the_work_is_a_bounded_number_of_clips(
    left: list[tuple[int, int | None]], left_power: int, right: list[tuple[int, int | None]], right_power: int
):
    bounds = make_ranges([*left, *right])
    above, below = range(len(left)), range(len(left), len(bounds))
    equation = Equation([*above] * left_power, [*below] * right_power, (1, 1))
    with patch.object(propagation, "_clip", wraps=propagation._clip) as clip:
        narrow_ranges(bounds, equation, [*above, *below])
    assert clip.call_count <= 2 * MAX_STEPS
