"""What a question of the kit is, by its JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from tensor_reshape.client import ShapeQuery
from tensor_reshape.rules.records import Json

_PACKED = frozenset({"u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1", "f8e8m0"})
_ANSWERED = frozenset({"operations", "rule", "answer", "because", "recorded"})
"""The keys of a case that whoever is asked does not see."""


def list_questions(case: Json) -> list[Json]:
    """Returns the questions of a case, one for each operation."""
    bare = {key: value for key, value in case.items() if key not in _ANSWERED}
    return [{**bare, "id": f"{case['id']}@{name}", "operation": name} for name in case["operations"]]


def make_query(question: Json) -> ShapeQuery:
    """Returns a question as the project's own client asks it."""
    return ShapeQuery(
        data_shape=_read(question["data"]),
        shape=_read(question["shape"]),
        special_zero=question.get("special_zero"),  # type: ignore[arg-type] # absent: the rules refuse it
        operation=question["operation"],
        expected_shape=_read(question.get("expected")),
        data_type=question.get("data_type"),
        data_strides=question.get("strides"),
    )


def _read(dims: Sequence[Any] | None) -> list[Any] | None:
    return None if dims is None else [tuple(dim) if isinstance(dim, list) else dim for dim in dims]


def is_known(question: Json) -> bool:
    """Whether data and target are numbers."""
    sides = (question["data"], question["shape"])
    return all(side is not None and all(isinstance(dim, int) for dim in side) for side in sides)


def has_names(question: Json) -> bool:
    """Whether a dim of data or target has a name."""
    return any(isinstance(dim, str) or (isinstance(dim, dict) and "name" in dim) for dim in _list_dims(question))


def is_packed(data_type: str) -> bool:
    """Whether elements are below one byte, or f8e8m0: what OpenVINO executed for its bits."""
    return data_type in _PACKED


def _list_dims(question: Json) -> Iterator[object]:
    for key in ("data", "shape"):
        yield from question[key] or ()
