"""Questions about shapes as people write them, and what becomes of them: `ask(RESHAPE, "N 4 2..8", "0 -1", True)`."""

import pytest

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.inference import infer, infer_shape
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, Question

Dims = tuple[int, ...]

KnownRefusal = tuple[Dims, Dims, bool, Reason, str, dict[str, str]]
"""A row of a table of refusals: data, target, special_zero; reason, field, and a part of the metadata."""

PartialRefusal = tuple[str | None, str | None, bool, str | None, Reason, str]
"""A row for Reshape-1, as people write: data, target, special_zero, expected; reason, field."""


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


def check_known_refusal(operation: Operation, row: KnownRefusal) -> None:
    """Asks the question of a row, and checks its refusal."""
    data, target, special_zero, reason, field, metadata = row
    error = refuse_known(operation, data, target, special_zero)
    assert isinstance(error, InvalidRequestError)
    assert (error.reason, error.field) == (reason, field)
    assert metadata.items() <= error.metadata.items()


def check_partial_refusal(row: PartialRefusal) -> None:
    """Asks the question of a row, and checks its refusal."""
    data, target, special_zero, expected, reason, field = row
    error = refuse(write_question(RESHAPE, data, target, special_zero, expected))
    assert isinstance(error, InvalidRequestError)
    assert (error.reason, error.field) == (reason, field)
