"""Queries in short text form: `write_question(RESHAPE, "N 4 2..8", "0 -1", True)`."""

from tensor_reshape.rules.dims import AnyDim, format_dims
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.limits import DEFAULT_LIMITS, Limits
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.questions import AnyQuestion, Question


def read_shape(text: str | None) -> list[AnyDim] | None:
    """Parses a shape; None: its rank is unknown."""
    return None if text is None else [parse_dim(dim) for dim in text.split()]


def write_question(
    operation: Operation, data: str | None, target: str | None, special_zero: bool | None, expected: str | None = None
) -> AnyQuestion:
    return Question(operation, read_shape(data), read_shape(target), special_zero, expected=read_shape(expected))


def describe_answer(question: AnyQuestion, limits: Limits = DEFAULT_LIMITS) -> str:
    """Returns the dims of the output as text, or the reason and the field of the rejection."""
    try:
        return format_dims(infer(question, limits).dims)
    except ReshapeError as error:
        return f"{error.reason} {error.field}".strip()
