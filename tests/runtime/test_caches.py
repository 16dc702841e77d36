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
def test_recent_cache_keeps_at_least_the_newest_half(count: int):
    cache = fill(count)
    found = [number for number in range(count) if cache[str(number)] is not None]
    assert found[-2:] == [*range(count)][-2:]
    assert len(found) <= 4


def test_recent_cache_never_drops_a_frequently_used_entry():
    cache = fill(1)
    for number in range(1, 100):
        assert cache["0"] == 0, number
        cache.keep(str(number), number, 200)


def test_recent_cache_keeps_all_entries_that_fit_in_its_limit():
    cache, draw = RecentCache[str, int](100 * ENTRY, 200), random.Random(1)
    for _ in range(5000):
        number = draw.randrange(100)
        if cache[str(number)] is None:
            cache.keep(str(number), number, 200)
    assert all(cache[str(number)] == number for number in range(100))


def test_recent_cache_returns_none_for_an_unknown_key():
    assert fill(3)["x"] is None


def test_recent_cache_does_not_store_large_entries():
    cache = RecentCache[bytes, bytes](TWO_ENTRIES, 8)
    assert [cache.keep(b"small", b"abc", 8), cache.keep(b"large", b"abcd", 9)] == [True, False]
    assert (cache[b"small"], cache[b"large"]) == (b"abc", None)


def test_recent_cache_is_correct_with_concurrent_threads():
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
