"""Reads the queries of the suite from JSON."""

from tensor_reshape.client import ShapeQuery
from tensor_reshape.conformance.cases import split_line
from tensor_reshape.conformance.query_records import read_case_query
from tensor_reshape.rules.json_format import Json


def list_questions(case: Json) -> list[Json]:
    """Returns the queries of a case, one for each operation."""
    return [dict(one.query) for one in split_line(case)]


def make_query(question: Json) -> ShapeQuery:
    """Returns a query as the project's own client sends it."""
    return read_case_query(question)


def is_known(question: Json) -> bool:
    """Returns whether the data and the requested shape are known numbers."""
    sides = (question["data"], question["shape"])
    return all(side is not None and all(isinstance(dim, int) for dim in side) for side in sides)
