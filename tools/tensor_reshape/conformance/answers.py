"""Reads the answers of implementations from JSON.

Invariants:

- If a JSON record is not a valid answer, reading it raises an `InvalidAnswerError`.
- A null counts as a missing key, because the serializers of many languages write null for a missing value. Only the
  shape itself may be null, which means that its rank is unknown.
- A shape with more than _MAX_DIMS dims is rejected before it is read.
"""

from typing import NamedTuple, TypeAlias

from tensor_reshape.client.queries import read_dims
from tensor_reshape.conformance.conditions import InvalidConditionError, read_conditions
from tensor_reshape.conformance.query_records import read_shape
from tensor_reshape.rules.conditions import Condition
from tensor_reshape.rules.dims import AnyDim, find_bounds
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.json_format import Json

MAX_TEXT_CHARACTERS = 200
_MAX_DIMS = 4096


class InvalidAnswerError(Exception):
    """A JSON record is not a valid answer. The error text describes the fault of the record."""


class ShapeAnswer(NamedTuple):
    """An output shape.

    Attributes:
        dims: the dims. The value is None if the rank is unknown.
        data: the bytes of the output in hexadecimal. The value is None if the answer has no bytes.
        conditions: the conditions. The value is None if the answer does not name any, not even an empty list.
        conditions_complete: whether the answer accepts every instance that satisfies the conditions.
    """

    dims: tuple[AnyDim, ...] | None
    data: str | None = None
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
    parts = [key for key in ("shape", "error", "unsupported") if record.get(key) is not None]
    if len(parts) > 1:
        message = f"the answer has both {parts[0]} and {parts[1]}, but only one of them is allowed"
        raise InvalidAnswerError(message)
    if parts == ["unsupported"]:
        return Unsupported(str(record["unsupported"])[:MAX_TEXT_CHARACTERS])
    if parts == ["error"]:
        error = record["error"]
        return Rejection(str(error.get("reason") or "")[:MAX_TEXT_CHARACTERS] if isinstance(error, dict) else "")
    if "shape" not in record:
        message = "the answer has none of the keys shape, error and unsupported"
        raise InvalidAnswerError(message)
    data = record.get("bytes")
    if not (data is None or isinstance(data, str)):
        message = "bytes must be text"
        raise InvalidAnswerError(message)
    conditions, is_complete = record.get("conditions"), record.get("conditions_complete")
    if not isinstance(is_complete, bool | None):
        message = "conditions_complete must be true or false"
        raise InvalidAnswerError(message)
    try:
        listed = None if conditions is None else read_conditions(conditions)
    except InvalidConditionError as error:
        raise InvalidAnswerError(str(error)) from None
    return ShapeAnswer(_read_dims(record["shape"]), data, listed, is_complete is not False)


def _read_dims(value: object) -> tuple[AnyDim, ...] | None:
    if isinstance(value, list):
        if len(value) > _MAX_DIMS:
            message = f"the shape has {len(value)} dims, but at most {_MAX_DIMS} are allowed"
            raise InvalidAnswerError(message)
        # A dim with a name is written as an object with "min", "max" and "name".
        if any(isinstance(dim, str) for dim in value):
            message = 'a dim of the shape is text, but a name must be {"min", "max", "name"}'
            raise InvalidAnswerError(message)
        value = [_complete(dim) if isinstance(dim, dict) else dim for dim in value]
    try:
        dims = read_dims(read_shape("shape", value), "shape")
    except InvalidRequestError as error:
        raise InvalidAnswerError(error.message) from None
    if any(find_bounds(dim).is_empty for dim in dims or ()):
        message = "a dim of the shape has bounds that contain no value"
        raise InvalidAnswerError(message)
    return dims


def _complete(dim: Json) -> Json:
    return {"min": 0, "max": None, **{key: value for key, value in dim.items() if value is not None}}
