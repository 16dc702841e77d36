"""The divisors next to a number, compared with a complete search, and their limits for large numbers."""

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.divisors import find_near_divisors, list_divisors
from tensor_reshape.rules.limits import MAX_DIM


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
