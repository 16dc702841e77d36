"""Random queries about Reshape-1, all of which follow from a seed.

Most begin with a data shape and a requested shape that match, so that many of them have an answer. Some are then made
invalid, and some partly unknown.
"""

from collections.abc import Callable, Iterator
from math import prod
from random import Random

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, make_dim
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question

_DIMS = (0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8, 12, 16)
_HUGE_DIMS = (2**24 + 1, 2**31, 2**32, 94906267, 2**40, 2**52 + 1, 2**53 + 1, 2**60, 2**62, 2**63 - 2, MAX_DIM)
_PRIMES = (2, 3, 5, 7)


def generate(random: Random) -> Iterator[tuple[str, AnyQuestion]]:
    """Yields queries without end, each with its kind."""
    while True:
        (kind,) = random.choices(list(_MAKERS), [share for share, _ in _MAKERS.values()])
        yield kind, _MAKERS[kind][1](random)


def _make_known(random: Random) -> AnyQuestion:
    data = [random.choice(_DIMS) for _ in range(random.randint(0, 5))]
    return _make_question(data, _make_target(random, data), random)


def _make_huge(random: Random) -> AnyQuestion:
    data = [random.choice((*_DIMS[:8], *_HUGE_DIMS)) for _ in range(random.randint(1, 4))]
    target = list(data) if random.random() < 0.5 else [random.choice((-1, 0, 2, 3, *_HUGE_DIMS)) for _ in range(2)]
    random.shuffle(target)
    if target and random.random() < 0.5:
        target[random.randrange(len(target))] = -1
    return _make_question([_blur(random, dim, 0.2) for dim in data], target, random)


def _make_long(random: Random) -> AnyQuestion:
    data = [1] * random.randint(60, 70)
    return _make_question(data, random.choice(([-1], [1], list(data), [*data, 1])), random)


def _make_partial(random: Random) -> AnyQuestion:
    data = [random.choice(_DIMS) for _ in range(random.randint(1, 5))]
    return _make_question([_blur(random, dim, 0.6) for dim in data], _make_target(random, data), random)


def _make_lengths(random: Random) -> AnyQuestion:
    data = [random.choice(_DIMS) for _ in range(random.randint(1, 4))]
    items = [item if item == -1 else _blur_item(random, item) for item in _make_target(random, data)]
    return _make_question([_blur(random, dim, 0.5) for dim in data], items, random)


def _make_unranked(random: Random) -> AnyQuestion:
    data = [random.choice(_DIMS) for _ in range(random.randint(0, 4))]
    return _make_question(None, _make_target(random, data), random)


_MAKERS: dict[str, tuple[int, Callable[[Random], AnyQuestion]]] = {
    "known": (30, _make_known),
    "huge": (8, _make_huge),
    "long": (1, _make_long),
    "partial data": (38, _make_partial),
    "interval items": (15, _make_lengths),
    "unknown rank": (8, _make_unranked),
}
"""The share of each kind in percent."""


def _make_question(
    data: list[AnyDim] | list[int] | None, target: list[AnyDim] | list[int], random: Random
) -> AnyQuestion:
    special_zero = random.random() < 0.6
    return Question(operation=RESHAPE, data=data, target=target, special_zero=special_zero)


def _make_target(random: Random, data: list[int]) -> list[int]:
    """Returns dimensions, mostly of the same volume, and sometimes with a -1 and copies."""
    target = _split(random, prod(data))
    for index in range(min(len(data), len(target))):
        if random.random() < 0.3:
            target[index] = 0 if random.random() < 0.7 else data[index]
    if target and random.random() < 0.6:
        target[random.randrange(len(target))] = -1
    if target and random.random() < 0.1:
        target[random.randrange(len(target))] = random.choice((-2, -1, 0, 1, 2, 9))
    if random.random() < 0.1:
        target.insert(random.randint(0, len(target)), random.choice((-1, 0, 1, 2)))
    return target


def _split(random: Random, volume: int) -> list[int]:
    target = [1] * random.randint(0, 5)
    if volume == 0 or not target:
        return [random.choice((0, 1, 2, 3)) for _ in target]
    for prime in _PRIMES:
        while volume % prime == 0:
            volume //= prime
            target[random.randrange(len(target))] *= prime
    return target


def _blur(random: Random, dim: int, share: float) -> AnyDim:
    """Returns the dimension, or sometimes an interval around it, or an unknown dimension."""
    if random.random() >= share:
        return dim
    if random.random() < 0.25:
        return None
    return make_dim(_widen(random, dim))


def _blur_item(random: Random, item: int) -> AnyDim:
    if item < 1 or random.random() < 0.5:
        return item
    return Dim(ANY) if random.random() < 0.25 else make_dim(_widen(random, item)) or Dim(ANY)


def _widen(random: Random, dim: int) -> Interval:
    low = max(0, dim - random.choice((0, 0, 1, 2, 4)))
    return Interval(low, None if random.random() < 0.2 else dim + random.choice((0, 1, 2, 4, 100)))
