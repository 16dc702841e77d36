"""Reads the answers of implementations from JSON.

Invariants:

- If a JSON record is not a valid answer, reading it raises an `InvalidAnswerError`.
- A null counts as a missing key, because the serializers of many languages write null for a missing value.
- A shape with more than _MAX_DIMS dims is rejected before it is read.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, check_partial_dims, find_bounds
from tensor_reshape.rules.errors import InvalidRequestError, ReshapeError
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.inference import read_infer_response
from tensor_reshape.wire.json_messages import Json, read_message

MAX_TEXT_CHARACTERS = 200
_KEYS = ("answer", "output", "rejection", "unsupported")
_MAX_DIMS = 4096
_MAX_CONDITIONS = 1000


class InvalidAnswerError(Exception):
    """A JSON record is not a valid answer. The error text describes the fault of the record."""


class ShapeAnswer(NamedTuple):
    """An output shape.

    Attributes:
        dims: the dims. The value is None if the rank is unknown.
        data: the bytes of the output. The value is None if the answer has no bytes.
        conditions: the conditions. The value is None if the answer does not mention any.
        conditions_complete: whether the answer accepts every instance that satisfies the conditions.
    """

    dims: tuple[AnyDim, ...] | None
    data: bytes | None = None
    conditions: tuple[Condition, ...] | None = None
    conditions_complete: bool = True


class Rejection(NamedTuple):
    """A rejection.

    Attributes:
        reason: the reason. The text is empty if the answer has no reason.
    """

    reason: str


class Unsupported(NamedTuple):
    """The answer of an implementation that does not support the query.

    Attributes:
        why: the explanation that the implementation gives.
    """

    why: str


Answer: TypeAlias = ShapeAnswer | Rejection | Unsupported


def read_answer(record: Json) -> Answer:
    """Returns the answer in a JSON record.

    Raises:
        InvalidAnswerError: the record is not a valid answer.
    """
    parts = [key for key in _KEYS if record.get(key) is not None]
    if not parts:
        message = f"the answer has none of the keys {', '.join(_KEYS)}"
        raise InvalidAnswerError(message)
    if len(parts) > 1:
        message = f"the answer has both {parts[0]} and {parts[1]}, but only one of them is allowed"
        raise InvalidAnswerError(message)
    value = record[parts[0]]
    match parts[0]:
        case "unsupported":
            return Unsupported(str(value)[:MAX_TEXT_CHARACTERS])
        case "rejection":
            return Rejection(str(value.get("reason") or "")[:MAX_TEXT_CHARACTERS] if isinstance(value, dict) else "")
        case "output":
            return _read_output(value)
        case _:
            return _read_shape(value)


def _read_output(value: object) -> ShapeAnswer:
    try:
        tensor = read_message(tensor_pb2.Tensor, value, "output", ignores_unknown=True)
    except InvalidRequestError as error:
        raise InvalidAnswerError(error.message) from None
    return ShapeAnswer(tuple(tensor.dims), tensor.data)


def _read_shape(value: object) -> ShapeAnswer:
    for path, limit in (("shape.dims", _MAX_DIMS), ("shape.partial", _MAX_DIMS), ("conditions", _MAX_CONDITIONS)):
        if (count := _count(value, *path.split("."))) > limit:
            message = f"{path} has {count} items, but at most {limit} are allowed"
            raise InvalidAnswerError(message)
    try:
        answer = read_infer_response(
            read_message(reshape_pb2.InferShapeResponse, value, "answer", ignores_unknown=True)
        )
        for index, condition in enumerate(answer.conditions):
            _check_condition(condition, f"conditions[{index}]")
    except ReshapeError as error:
        raise InvalidAnswerError(error.message) from None
    if _count(value, "conditions") != len(answer.conditions):
        message = "a condition must have the kind KIND_EQUAL, KIND_DIVIDES or KIND_RANGE"
        raise InvalidAnswerError(message)
    if any(find_bounds(dim).is_empty for dim in answer.dims or ()):
        message = "a dim of the shape has bounds that contain no value"
        raise InvalidAnswerError(message)
    # The check of the message has shown that the value is an object.
    is_listed = isinstance(value, Mapping) and bool({"conditions", "conditionsComplete"} & value.keys())
    return ShapeAnswer(answer.dims, None, answer.conditions if is_listed else None, answer.conditions_complete)


def _check_condition(condition: Condition, path: str) -> None:
    """Checks that a condition can be evaluated.

    Raises:
        InvalidAnswerError: a part of the condition is missing, or a number is out of range.
        InvalidRequestError: a name or a number of a product is invalid.
    """
    is_range = condition.kind is ConditionKind.RANGE
    if is_range is (condition.right is not None) or not all(
        end is None or end >= 0 for end in (condition.min, condition.max)
    ):
        message = f"{path} must have either right, or min and max that are not negative"
        raise InvalidAnswerError(message)
    for product in filter(None, (condition.left, condition.right, condition.unless_zero)):
        if product.symbols:
            check_partial_dims([Dim(ANY, product)], path)
        elif product.coefficient < 0 or product.divisor < 1:
            message = f"{path} has a number that is out of range"
            raise InvalidAnswerError(message)


def _count(value: object, *path: str) -> int:
    """Returns the number of items of the list at a path of keys; 0 without a list."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return len(value) if isinstance(value, list) else 0
