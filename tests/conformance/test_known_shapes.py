"""Every case whose shapes are fully known, by the rules alone, and through a server."""

import math

import numpy as np
import pytest

from conformance_cases import Case, load_known_cases
from tensor_reshape.client import Client, InvalidRequestError
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.inference import infer_shape
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.rules.questions import Question
from tensor_reshape.wire.reshapes import read_target
from tensor_reshape.wire.tensors import TensorView

COUNTS = {"static_reshape": 1775, "dynamic_reshape": 926, "reshape": 1719}
MAX_VOLUME = 2**16  # of the tensors that are really sent


def infer(case: Case, operation: str) -> list[int] | None:
    """Returns the output's dims, None for a refusal."""
    if case.get("target_rank") == 0:
        return read_scalar_target(case, operation)
    question = Question(
        operation=OPERATIONS[operation],
        data=case["data"],
        target=case["target"],
        special_zero=case["special_zero"],
    )
    try:
        return list(infer_shape(question))
    except InvalidRequestError:
        return None


def read_scalar_target(case: Case, operation: str) -> list[int] | None:
    (item,) = case["target"]
    shape = TensorView(DataType.I64, (), None, memoryview(np.int64(item).tobytes()))
    try:
        return read_target(OPERATIONS[operation], shape)
    except InvalidRequestError:
        return None


def execute(client: Client, case: Case, operation: str) -> list[int] | None:
    """Sends a tensor of the case's shape and returns the output's dims, None for a refusal; checks the elements."""
    dtype = np.int32 if operation == "reshape" else np.float16
    numbers = np.arange(np.prod(case["data"], dtype=np.int64)) % 2048  # what f16 holds exactly
    data = numbers.astype(dtype).reshape(case["data"])
    target = np.array(case["target"][0]) if case.get("target_rank") == 0 else case["target"]
    try:
        output = getattr(client, operation)(data, target, special_zero=case["special_zero"])
    except InvalidRequestError:
        return None
    assert output.tobytes() == data.tobytes()
    return list(output.shape)


def find_failures(answers: list[tuple[Case, list[int] | None]]) -> list[tuple[str, object, object]]:
    return [(case["id"], answer, case["want"]) for case, answer in answers if answer != case["want"].get("shape")]


@pytest.mark.parametrize("operation", COUNTS)
def test_no_case_is_left_out(operation: str):
    assert len(load_known_cases(operation)) == COUNTS[operation]


@pytest.mark.parametrize("operation", COUNTS)
def test_the_rules_answer_every_case(operation: str):
    assert find_failures([(case, infer(case, operation)) for case in load_known_cases(operation)]) == []


@pytest.mark.parametrize("operation", COUNTS)
def test_the_server_infers_every_case(client: Client, operation: str):
    def ask(case: Case) -> list[int] | None:
        try:
            answer = client.infer_shape(
                case["data"], case["target"], special_zero=case["special_zero"], operation=operation
            )
        except InvalidRequestError:
            return None
        return list(answer.known)

    cases = [case for case in load_known_cases(operation) if "target_rank" not in case]
    assert find_failures([(case, ask(case)) for case in cases]) == []


@pytest.mark.parametrize("operation", COUNTS)
def test_the_server_executes_every_case_that_fits_in_memory(client: Client, operation: str):
    cases = [case for case in load_known_cases(operation) if is_sendable(case)]

    assert len(cases) > COUNTS[operation] * 0.7
    assert find_failures([(case, execute(client, case, operation)) for case in cases]) == []


def is_sendable(case: Case) -> bool:
    """Whether numpy can hold the data and the output, and DynamicReshape's i32 the target."""
    limit = 2**31 - 1
    shapes = [case["data"], case["target"], case["want"].get("shape", [])]
    small = all(-limit <= item <= limit for shape in shapes for item in shape)
    return small and len(case["data"]) <= 64 and math.prod(case["data"]) <= MAX_VOLUME
