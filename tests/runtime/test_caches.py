"""The cache keeps recently used values within its limits."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tensor_reshape.runtime.caches import RecentCache

ENTRY = 600  # total bytes of an entry, of which 200 are its own
TWO_ENTRIES = 2 * ENTRY


def fill(count: int) -> RecentCache[str, int]:
    """Caches texts of the numbers from 0 on, in generations of two entries."""
    cache = RecentCache[str, int](TWO_ENTRIES, 200)
    for number in range(count):
        cache.keep(str(number), number, 200)
    return cache


@pytest.mark.parametrize("count", range(12))
def test_cache_keeps_the_newest_half(count: int):
    cache = fill(count)
    found = [number for number in range(count) if cache[str(number)] is not None]
    assert found[-2:] == [*range(count)][-2:]
    assert len(found) <= 4


def test_used_entry_is_never_dropped():
    cache = fill(1)
    for number in range(1, 100):
        assert cache["0"] == 0, number
        cache.keep(str(number), number, 200)


def test_set_that_fits_into_a_generation_is_kept_completely():
    cache, draw = RecentCache[str, int](100 * ENTRY, 200), random.Random(1)
    for _ in range(5000):
        number = draw.randrange(100)
        if cache[str(number)] is None:
            cache.keep(str(number), number, 200)
    assert all(cache[str(number)] == number for number in range(100))


def test_unknown_key_has_no_value():
    assert fill(3)["x"] is None


def test_large_entry_is_not_kept():
    cache = RecentCache[bytes, bytes](TWO_ENTRIES, 8)
    assert [cache.keep(b"small", b"abc", 8), cache.keep(b"large", b"abcd", 9)] == [True, False]
    assert (cache[b"small"], cache[b"large"]) == (b"abc", None)


def test_threads_find_the_value_of_their_key_or_none():
    cache = RecentCache[str, int](8 * ENTRY, 200)

    def use(seed: int) -> set[bool]:
        draw, kept = random.Random(seed), set()
        for _ in range(20_000):
            number = draw.randrange(64)
            value = cache[str(number)]
            kept.add(value in {number, None})
            cache.keep(str(number), number, 200)
        return kept

    with ThreadPoolExecutor(4) as pool:
        assert set().union(*pool.map(use, range(4))) == {True}
    assert sum(cache[str(number)] is not None for number in range(64)) <= 16 + 4
