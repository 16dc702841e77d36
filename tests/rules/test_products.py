"""Products of factors and numbers, divisors compared with a complete search, and integer roots."""

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.products import (
    find_exact_root,
    find_near_divisors,
    find_root,
    find_root_above,
    list_divisors,
)


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
    # Without this limit, a root of thousands of digits takes long.
    limited = {(2**128 - 1, 2): 2**64 - 1, (2**128, 2): 2**64, (2**130, 2): 2**64, (2**65 - 1, 1): 2**65 - 1}
    assert {row: find_root(*row) for row in limited} == limited


@given(st.lists(st.integers(1, 60), min_size=1, max_size=3), st.integers(1, 3000))
@examples(300)
def test_find_near_divisors_returns_the_nearest_divisors(dims: list[int], near: int):
    volume = prod(dims)
    near += volume % near == 0
    divisors = [value for value in range(1, volume + 1) if volume % value == 0]
    nearest = [*[value for value in divisors if value <= near][-1:], *[value for value in divisors if value > near][:1]]
    assert find_near_divisors(volume, near, dims) == (nearest, True)


def test_find_near_divisors_finds_distant_divisors():
    for dims, near, values in [
        ([1024, 768, 1024], 5000, [4096, 6144]),
        ([32, 197, 768], 100_000, [75_648, 100_864]),
        ([7919, 104_729], 5000, [1, 7919]),  # primes
        ([2, 3], 40, [6]),
        ([2**62, 8], 5, [8]),  # divided by 4, the quotient would not be a valid dim
        ([2**62, 8], 3, [8]),
        ([2**61, 8], 3, [4]),
    ]:
        assert find_near_divisors(prod(dims), near, dims) == (values, True)


@given(st.lists(st.integers(1, MAX_DIM), min_size=1, max_size=8), st.integers(2, MAX_DIM))
@examples(200)
def test_near_divisors_divide_the_volume_and_leave_valid_dims(dims: list[int], near: int):
    volume = prod(dims)
    values = find_near_divisors(volume, near, dims).values
    assert values
    assert all(volume % value == 0 and volume // value <= MAX_DIM for value in values)


def test_divisors_not_proven_nearest_are_marked():
    # This product cannot be factorised quickly, but the dims separate its large factors.
    dims = [2**61 - 1, 2**31 - 1, 6]
    assert find_near_divisors(prod(dims), 2**32, dims) == ([2 * (2**31 - 1), 3 * (2**31 - 1)], False)
    volume = 2**40 * 3**20 * 5**10 * 7**5 * 11**5
    found = find_near_divisors(volume, 10**9 + 7, [])
    assert not found.are_nearest
    assert all(volume % value == 0 for value in found.values)


def test_divisors_are_listed_unless_they_are_too_many_or_unknown():
    for number in (1, 2, 49, 360, 997, 100352):
        assert sorted(list_divisors(number, 64) or ()) == [one for one in range(1, number + 1) if number % one == 0]
    assert list_divisors(12, 5) is None
    assert list_divisors(1_000_003 * 1_000_033, 64) is None
    # Only a number below 999 * 999 without a factor up to 999 is known to be prime.
    assert [list_divisors(prime, 64) for prime in (997_991, 998_009)] == [[1, 997_991], None]
    assert [list_divisors(2**63, count) is None for count in (63, 64)] == [True, False]
