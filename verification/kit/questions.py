"""What a question of the kit is, by its JSON."""

from collections.abc import Iterator

from tensor_reshape.client import ShapeQuery
from tensor_reshape.client.question_records import read_question
from tensor_reshape.conformance.cases import split_case
from tensor_reshape.rules.records import Json

_PACKED = frozenset({"u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1", "f8e8m0"})


def list_questions(case: Json) -> list[Json]:
    """Returns the questions of a case, one for each operation."""
    return [dict(question.asked) for question in split_case(case)]


def make_query(question: Json) -> ShapeQuery:
    """Returns a question as the project's own client asks it."""
    return read_question({key: value for key, value in question.items() if key not in {"id", "bytes"}})


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
