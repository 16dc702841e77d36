"""The ranges of the factors of two equal products, compared with all solutions, and the steps that they take."""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import prod
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.limits import MAX_DIM, MAX_STEPS
from tensor_reshape.rules.products import Product
from tensor_reshape.rules.solvers import propagation
from tensor_reshape.rules.solvers.equations import Range
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


def make_ranges(ends: Sequence[tuple[int, int | None]]) -> list[Range]:
    return [Range(low, MAX_DIM if high is None else high) for low, high in ends]


interval = st.builds(lambda low, more: Range(low, low + more), st.integers(0, 4), st.integers(0, 5))
side = st.dictionaries(st.integers(0, 3), st.integers(1, 3), max_size=3).map(Counter)


@examples(400)
@given(st.tuples(interval, interval, interval, interval), side, side, st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_solver_narrows_ranges_like_brute_force_enumeration(
    intervals: tuple[Range, ...], left: Counter[int], right: Counter[int], constants: tuple[int, int]
):
    bounds = {key: intervals[key] for key in {*left, *right}}
    above, below = constants
    equation, _ = Product(above, tuple(left.elements()), below, tuple(right.elements())).cancel()
    assert narrow_ranges(intervals, equation, bounds) == try_all(bounds, left, right, constants)


# bounds of a and b on the left, of c on the right, constants; bounds of all, in this order
Ends = list[tuple[int, int | None]]
OPEN: list[tuple[Ends, tuple[int, int], Ends | None]] = [
    ([(0, None), (0, None), (0, None)], (1, 1), [(1, None), (1, None), (1, None)]),
    ([(0, None), (0, None), (6, 6)], (1, 1), [(1, 6), (1, 6), (6, 6)]),
    ([(0, None), (1, 1), (0, 10)], (4, 1), [(1, 2), (1, 1), (4, 8)]),
    ([(0, None), (0, None), (1, 3)], (4, 1), None),  # no multiple is left
    ([(3, None), (1, 1), (0, None)], (1, 2), [(4, None), (1, 1), (2, None)]),
    ([(1, 2**62), (1, 2**62), (2**62, 2**62)], (1, 1), [(1, 2**62), (1, 2**62), (2**62, 2**62)]),
]


def test_solver_bounds_unbounded_ranges_where_possible():
    for bounds, (above, below), want in OPEN:
        found = narrow_ranges(make_ranges(bounds), Product(above, (0, 1), below, (2,)), range(3))
        assert (found and [found[key] for key in range(3)]) == (want and make_ranges(want)), (bounds, above, below)


# the range and the power of each factor, on the left and on the right
HOSTILE: list[tuple[Ends, int, Ends, int]] = [
    ([(2, 2**40)] * 64, 1, [(2, 2**40)] * 64, 1),
    ([(1, 2**63 - 1)] * 8, 64, [(1, 2**63 - 1)] * 8, 63),
    ([(2, 2**61)] * 12, 1, [(2**61 - 1, 2**61 - 1)], 1),
    ([(2, 2**30), (2, 2**30)], 3, [(2**60 + 1, 2**60 + 4)], 1),  # no power is near
    ([(2, None)] * 32, 2, [(3, 2**62)] * 32, 3),
]


def test_range_narrowing_takes_a_bounded_number_of_steps():
    for left, left_power, right, right_power in HOSTILE:
        bounds = make_ranges([*left, *right])
        above, below = range(len(left)), range(len(left), len(bounds))
        equation = Product(1, tuple(above) * left_power, 1, tuple(below) * right_power)
        with patch.object(propagation, "_clip", wraps=propagation._clip) as clip:
            narrow_ranges(bounds, equation, [*above, *below])
        assert clip.call_count <= 2 * MAX_STEPS, (left[0], right[0])
