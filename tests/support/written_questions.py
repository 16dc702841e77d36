"""Questions about shapes as people write them, and what becomes of them: `ask(RESHAPE, "N 4 2..8", "0 -1", True)`."""

import pytest

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.errors import InvalidRequestError, ReshapeError
from tensor_reshape.rules.inference import infer, infer_shape
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.questions import AnyQuestion, Question

Dims = tuple[int, ...]


def read_shape(text: str | None) -> list[AnyDim] | None:
    """Reads a shape; None: its rank is unknown."""
    return None if text is None else [parse_dim(dim) for dim in text.split()]


def write_question(
    operation: Operation, data: str | None, target: str | None, special_zero: bool | None, expected: str | None = None
) -> AnyQuestion:
    """Returns a question."""
    return Question(operation, read_shape(data), read_shape(target), special_zero, expected=read_shape(expected))


def ask(
    operation: Operation, data: str | None, target: str | None, special_zero: bool, expected: str | None = None
) -> list[AnyDim] | None:
    """Returns the output's dims."""
    dims = infer(write_question(operation, data, target, special_zero, expected)).dims
    return None if dims is None else list(dims)


def refuse(question: AnyQuestion) -> ReshapeError:
    """Returns the refusal of a question."""
    with pytest.raises(ReshapeError) as caught:
        infer(question)
    return caught.value


def ask_known(operation: Operation, data: Dims, target: Dims, special_zero: bool) -> Dims:
    """Returns the output's dims of a question that is known."""
    return infer_shape(Question(operation, data, target, special_zero))


def answer_or_refusal(operation: Operation, data: Dims, target: Dims, special_zero: bool) -> Dims | None:
    """Returns the output's dims, None where the question is refused."""
    try:
        return ask_known(operation, data, target, special_zero)
    except InvalidRequestError:
        return None


def refuse_known(operation: Operation, data: Dims, target: Dims, special_zero: bool) -> ReshapeError:
    """Returns the refusal of a question that is known."""
    with pytest.raises(ReshapeError) as caught:
        ask_known(operation, data, target, special_zero)
    return caught.value
