"""Questions of small numbers, all of them: each data with each target, for each operation.

Law: what is asked twice with one answer is one case; an operation that answers otherwise has a case of its own.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

from tensor_reshape.rules.records import Json

Dims: TypeAlias = Sequence[Any] | None

_SMALL = (0, 2, 3)
_PARTIAL = (None, 0, 2, 3, [0, 3], [2, 6])
_NAMED: tuple[Dims, ...] = (["N"], ["4*N"], ["N", 2], ["N", "N"], ["N", "C"], [2, "N"], ["N", None], ["N:2..5", 4])

KNOWN_DATA: tuple[Dims, ...] = (
    [],
    *([dim] for dim in (0, 1, 2, 3, 6)),
    *map(list, product(_SMALL, repeat=2)),
    *([0, 2, 3], [2, 0, 3], [2, 3, 0], [1, 2, 3], [2, 3, 4]),
)
KNOWN_TARGETS: tuple[Dims, ...] = (
    [],
    *([item] for item in (-2, -1, 0, 1, 2, 3, 6)),
    *map(list, product((-1, 0, 1, 2, 3, 6), repeat=2)),
    *map(list, product((-1, 0, 2), repeat=3)),
)
PARTIAL_DATA: tuple[Dims, ...] = (
    None,
    *([dim] for dim in (None, [0, 3], [1, 3], [2, 6])),
    *(list(dims) for dims in product(_PARTIAL, repeat=2) if not all(isinstance(dim, int) for dim in dims)),
)
PARTIAL_TARGETS: tuple[Dims, ...] = (
    *([item] for item in (-1, 0, 2, None, [1, 4])),
    *map(list, product((-1, 0, 2, None, [1, 4]), repeat=2)),
)
NAMED_TARGETS: tuple[Dims, ...] = (
    *([item] for item in (-1, 0, 2, "N", "M")),
    *map(list, product((-1, 0, 2, "N", "M"), repeat=2)),
)

GRIDS: tuple[tuple[Sequence[Dims], Sequence[Dims]], ...] = (
    (KNOWN_DATA, KNOWN_TARGETS),
    (PARTIAL_DATA, PARTIAL_TARGETS),
    (
        ([], [6], [2, 3], [0, 3]),
        [target for target in PARTIAL_TARGETS if not all(isinstance(i, int) for i in target or ())],
    ),
    (_NAMED, NAMED_TARGETS),
)
"""Data and targets that are asked with one another."""


def list_grid() -> Iterator[Json]:
    """Yields the questions, without operations."""
    for data, targets in GRIDS:
        for dims, target in product(data, targets):
            for special_zero in (False, True) if _may_copy(target) else (False,):
                yield {"data": dims, "shape": target, "special_zero": special_zero}


def _may_copy(target: Dims) -> bool:
    return any(item is None or item == 0 for item in target or ())
