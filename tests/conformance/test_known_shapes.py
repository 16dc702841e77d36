"""The whole kit through a server; and every case whose shapes are fully known by a plain reading, and executed."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from tensor_reshape.client import Client, InvalidRequestError, ShapeQuery
from tensor_reshape.client.queries import MAX_CALL_QUERIES
from tests.oracles.conformance_cases import Case, list_all_questions, load_known_cases
from verification.kit import CONDITIONS, describe_result, is_known, is_right, make_query, read_known, read_plainly

COUNTS = {"static_reshape": 1775, "dynamic_reshape": 926, "reshape": 1717}
MAX_VOLUME = 2**16  # of the tensors that are really sent
QUESTIONS = 23_000  # at least
UNSENDABLE = {"MESSAGE_MALFORMED", "PARTIAL_DIM_INVALID", "EXPRESSION_INVALID", "RANK_LIMIT_EXCEEDED"}
"""The reasons of queries that the SDK does not write, such as a number of more than 64 bits."""


def list_inferences() -> Iterator[tuple[Case, Case]]:
    """Yields the cases and questions that ask for no execution."""
    return ((case, question) for case, question in list_all_questions() if "data" not in question["question"]["data"])


def execute(client: Client, case: Case, operation: str) -> list[int] | None:
    """Sends a tensor of the case's shape and returns the output's dims, None for a rejection; checks the elements."""
    dims, shape = read_known(case)
    dtype = np.int32 if operation == "reshape" else np.float16
    numbers = np.arange(np.prod(dims, dtype=np.int64)) % 2048  # what f16 holds exactly
    data = numbers.astype(dtype).reshape(dims)
    try:
        output = getattr(client, operation)(data, shape, special_zero=case["question"]["specialZero"])
    except InvalidRequestError:
        return None
    assert output.tobytes() == data.tobytes()
    return list(output.shape)


def is_sendable(case: Case) -> bool:
    """Whether numpy can hold the data and the output, and DynamicReshape's i32 the target."""
    limit = 2**31 - 1
    data, shape = read_known(case)
    small = all(-limit <= item <= limit for dims in (data, shape, read_dims(case["result"]) or []) for item in dims)
    return small and len(data) <= 64 and math.prod(data) <= MAX_VOLUME


def read_dims(result: Case) -> list[int] | None:
    """Returns the known dims of a result, None for a rejection."""
    return result["answer"]["shape"].get("dims", []) if "answer" in result else None


def test_recorded_library_results_agree_with_the_conformance_cases():
    for operation, count in COUNTS.items():
        cases = load_known_cases(operation)
        assert len(cases) == count, operation
        compared = [(case["id"], read_dims(case["recorded"]), read_dims(case["result"])) for case in cases]
        assert [name for name, recorded, answer in compared if recorded != answer] == []


def test_second_implementation_agrees_with_every_known_conformance_case():
    asked = [
        (case, one)
        for case, one in list_inferences()
        if is_known(one) and "expectedShape" not in one["question"] and "dataType" not in one["question"]["data"]
    ]
    assert [question["id"] for case, question in asked if not is_right(case, read_plainly(question))] == []


def test_server_agrees_with_every_conformance_case(client: Client):
    asked = [
        (case, question)
        for case, question in list_inferences()
        if "specialZero" in question["question"] and case["result"].get("rejection", {}).get("reason") not in UNSENDABLE
    ]
    by_case = dict[str, ShapeQuery]()  # the questions of a case differ only in their operation
    for case, question in asked:
        by_case[case["id"]] = by_case.get(case["id"]) or make_query(question)
    names = [question["question"]["operation"].removeprefix("OPERATION_").lower() for _, question in asked]
    queries = [replace(by_case[case["id"]], operation=name) for (case, _), name in zip(asked, names, strict=True)]
    # Call after call: on a busy machine, one of several at once might wait too long for room.
    calls = (
        client.infer_shapes(queries[at : at + MAX_CALL_QUERIES]) for at in range(0, len(queries), MAX_CALL_QUERIES)
    )
    assert sum(1 for _ in list_all_questions()) >= QUESTIONS
    answered = zip(asked, chain.from_iterable(calls), strict=True)
    wrong = [
        question["id"]
        for (case, question), one in answered
        if not is_right(case, describe_result(one, lists_conditions=case["rule"] == CONDITIONS))
    ]
    assert wrong == []


@pytest.mark.parametrize("operation", COUNTS)
def test_server_executes_every_conformance_case_that_fits_in_memory(client: Client, operation: str):
    cases = [case for case in load_known_cases(operation) if is_sendable(case)]
    answers = [(case["id"], execute(client, case, operation), read_dims(case["result"])) for case in cases]

    assert len(cases) > COUNTS[operation] * 0.7
    assert [name for name, answer, want in answers if answer != want] == []
