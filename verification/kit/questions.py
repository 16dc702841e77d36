"""Reads the queries of the suite from JSON."""

from collections.abc import Sequence

from tensor_reshape.client import ShapeQuery
from tensor_reshape.conformance import cases
from tensor_reshape.conformance.cases import split_line
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.questions import ShapeRequest
from tensor_reshape.wire.json_messages import Json

CONDITIONS = "conditions"
"""The rule whose cases list conditions."""


def list_questions(case: Json) -> list[Json]:
    """Returns the queries of a case, one for each operation."""
    return [dict(one.query) for one in split_line(case)]


def make_query(question: Json) -> ShapeQuery:
    """Returns a query as the project's own client sends it.

    Raises:
        InvalidRequestError: a number has more than 64 bits.
    """
    return cases.make_query(BatchItem(ShapeRequest(cases.read_case_question(question))))


def is_known(question: Json) -> bool:
    """Returns whether the data and the requested shape are known numbers."""
    data, shape = question["question"]["data"], question["question"].get("shape")
    dims = data if "data" in data else data.get("shape")
    if dims is None or shape is None or dims.get("partial") or shape.get("partial"):
        return False
    return -1 not in dims.get("dims", [])


def read_known(question: Json) -> tuple[Sequence[int], Sequence[int]]:
    """Returns the data and the requested shape of a query for which `is_known` is true."""
    data, shape = question["question"]["data"], question["question"]["shape"]
    return (data if "data" in data else data["shape"]).get("dims", []), shape.get("items", [])
