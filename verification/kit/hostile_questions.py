"""Questions that tempt: numbers beside the ends of what machines hold, ranks at their limits, empties of huge dims."""

from collections.abc import Iterator
from itertools import product

from tensor_reshape.rules.records import Json
from verification.kit.grids import Dims

_EDGES = (2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63)
_FEW = (2, 2**32, 2**62, 2**63 - 1)


def list_hostile() -> Iterator[Json]:
    """Yields the questions, without operations."""
    for data, target in (*_list_numbers(), *_list_empties(), *_list_ranks(), *_list_unknown()):
        yield {"data": data, "shape": target, "special_zero": 0 in (target or ()) and 0 not in (data or ())}


def _list_numbers() -> Iterator[tuple[Dims, Dims]]:
    for edge in _EDGES:
        yield from (
            ([edge], target) for target in ([-1], [edge], [edge - 1], [edge + 1], [2, -1], [edge, -1], [0], [-edge])
        )
    for first, second in product(_FEW, repeat=2):
        for target in (
            [-1],
            [first, -1],
            [-1, first],
            [second, first],
            [first, second, -1],
            [0, -1],
            [-1, 0],
            [first * 2, -1],
        ):
            yield [first, second], target
    for first, second, third in product((3, 2**32, 2**62), repeat=3):
        yield [first, second, third], [third, -1, first]
        yield [first, second, third], [first, second, third, -1]
        yield [first, second, third], [0, -1, second]


def _list_empties() -> Iterator[tuple[Dims, Dims]]:
    for edge in (*_EDGES[:-1], 3):
        for data in ([0], [edge, 0], [0, edge, edge]):
            yield from ((data, target) for target in ([-1], [edge, 0], [edge, edge, 0], [edge, -1], [edge, edge, -1]))
            yield from ((data, target) for target in ([edge, edge], [0, -1], [edge], []))


def _list_ranks() -> Iterator[tuple[Dims, Dims]]:
    for rank in (11, 12, 13, 14, 32, 33, 63, 64):
        ones = [1] * rank
        yield from (
            ([], ones),
            (ones, []),
            (ones, [-1]),
            (ones, ones),
            (ones, [0] * rank),
            ([2, *ones[1:]], [1, *ones[2:], -1]),
        )
        yield None, ones


def _list_unknown() -> Iterator[tuple[Dims, Dims]]:
    for edge in _EDGES[:-1]:
        yield from (([[0, edge]], target) for target in ([-1], [edge], [2, -1], [[0, edge], -1]))
        yield from (([[edge, edge]], target) for target in ([-1], [edge], [None]))
        yield from (([None, edge], target) for target in ([0, edge], [edge, 0]))
    yield from (
        (data, target) for data in (None, [None]) for target in ([2**63], [-(2**63)], [2**64 - 1], [-1, -1], [0, -2])
    )
