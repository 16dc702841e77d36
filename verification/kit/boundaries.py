"""Which boundary of the rules a case lies on, by its question and its answer alone; which cases could be dropped.

Laws: two cases lie on one boundary where nothing that a rule looks at tells them apart: the kinds of dims and items in
their order, zeros and ones (larger numbers are alike), the class of the largest number (at 2^31, 2^53, 2^63, 2^64), the
class of the ranks, which volume is the larger and whether one divides the other, names, strides, and what is answered.
A case is needed where no other lies on its boundary, or where without it some wrong implementation would have no case
of its own. The rest is needless, and is to be dropped.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from tensor_reshape.rules.records import Json
from verification.kit.mistakes import find_matching

Boundary: TypeAlias = tuple[Any, ...]

_EDGES = (2**31, 2**53, 2**63, 2**64)
_RANKS = (0, 1, 2, 3, 12, 13)


def find_needless(cases: Sequence[Json], caught: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the cases that could be dropped, each by itself; `caught` has those that a wrong implementation fails."""
    counts, most = Counter(map(find_boundary, cases)), len(find_matching(caught))
    shared = [case["id"] for case in cases if counts[find_boundary(case)] > 1]
    return [name for name in shared if len(find_matching(_drop(name, caught))) == most]


def _drop(dropped: str, caught: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: [case for case in cases if case != dropped] for name, cases in caught.items()}


def find_boundary(case: Json) -> Boundary:
    """Returns the boundary of a case: equal for two cases that lie on one."""
    data, shape, answer = case["data"], case["shape"], case["answer"]
    return (
        case["rule"],
        tuple(case["operations"]),
        case.get("special_zero"),
        _class_shape(data),
        _class_shape(shape),
        _compare_ranks(data, shape),
        _class_shape(case.get("expected")),
        _class_layout(case),
        _class_answer(answer),
        _compare_volumes(data, answer.get("shape") or shape),
        data == shape,
    )


def _class_shape(dims: Sequence[Any] | None) -> object:
    if dims is None:
        return None
    rank = max((rank for rank in _RANKS if rank <= len(dims)), default=0)
    return rank, tuple(map(_class_dim, dims)) if rank < 12 else _class_dim(dims[0]), _class_number(_find_volume(dims))


def _class_dim(dim: Any) -> object:  # noqa: ANN401 - of JSON
    """Returns what a dim is; numbers above 1 are alike."""
    if dim is None or isinstance(dim, str):
        return dim
    if isinstance(dim, int):
        return max(min(dim, 2), -2), _class_number(abs(dim))
    low, high = dim if isinstance(dim, list) else (dim["min"], dim["max"])
    ends = max(min(low, 2), -1), high is None or (high > low) - (high < low), _class_number(high or low)
    return ends, dim.get("name") if isinstance(dim, dict) else None


def _class_number(number: int) -> int:
    return sum(number >= edge for edge in _EDGES)


def _find_volume(dims: Sequence[Any]) -> int:
    return prod(abs(dim) for dim in dims if isinstance(dim, int))


def _compare_ranks(data: Sequence[Any] | None, shape: Sequence[Any] | None) -> int | None:
    return None if data is None or shape is None else (len(shape) > len(data)) - (len(shape) < len(data))


def _compare_volumes(data: Sequence[Any] | None, shape: Sequence[Any] | None) -> object:
    """Returns which side has more elements by its numbers, and whether one divides the other."""
    if data is None or shape is None:
        return None
    have, want = _find_volume(data), _find_volume([item for item in shape if item != -1])
    return (have > want) - (have < want), have % want == 0 if want else None, want % have == 0 if have else None


def _class_layout(case: Json) -> object:
    return tuple(case.get("strides", ())), case.get("data_type"), case.get("bytes")


def _class_answer(answer: Json) -> object:
    if "error" in answer:
        return answer["error"]["reason"], answer["error"]["field"]
    return _class_shape(answer["shape"]), str(answer.get("view"))
