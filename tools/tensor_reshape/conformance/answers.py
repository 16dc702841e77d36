"""The answers of implementations, read from JSON.

Invariants: every record is an answer or an `InvalidAnswerError`. A null counts as a missing key, except for the shape,
because the serializers of many languages write it. A shape with more dims than any rank is not read.
"""

from typing import NamedTuple, TypeAlias

from tensor_reshape.client.queries import read_dims
from tensor_reshape.conformance.query_records import read_shape
from tensor_reshape.rules.dims import AnyDim, find_bounds
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.json_format import Json

MAX_TEXT_CHARACTERS = 200
_MAX_DIMS = 4096


class InvalidAnswerError(Exception):
    """A record is not an answer; the text says why."""


class ShapeAnswer(NamedTuple):
    """An output shape.

    Attributes:
        dims: the dims; None: the rank is unknown.
        view: whether the output can be a view, and its strides; None: not stated.
        data: the bytes of the output in hexadecimal; None: nothing was executed.
    """

    dims: tuple[AnyDim, ...] | None
    view: Json | None = None
    data: str | None = None


class Rejection(NamedTuple):
    """A rejection.

    Attributes:
        reason: the reason; empty: not stated.
    """

    reason: str


class Unsupported(NamedTuple):
    """The implementation does not support the query.

    Attributes:
        why: the explanation of the implementation.
    """

    why: str


Answer: TypeAlias = ShapeAnswer | Rejection | Unsupported


def read_answer(record: Json) -> Answer:
    """Returns the answer of a record.

    Raises:
        InvalidAnswerError: it is not an answer.
    """
    parts = [key for key in ("shape", "error", "unsupported") if record.get(key) is not None]
    if len(parts) > 1:
        message = f"it has both {parts[0]} and {parts[1]}"
        raise InvalidAnswerError(message)
    if parts == ["unsupported"]:
        return Unsupported(str(record["unsupported"])[:MAX_TEXT_CHARACTERS])
    if parts == ["error"]:
        error = record["error"]
        return Rejection(str(error.get("reason") or "")[:MAX_TEXT_CHARACTERS] if isinstance(error, dict) else "")
    if "shape" not in record:
        message = "it has neither shape, error nor unsupported"
        raise InvalidAnswerError(message)
    view, data = record.get("view"), record.get("bytes")
    if not (view is None or isinstance(view, dict)) or not (data is None or isinstance(data, str)):
        message = "its view is not an object, or its bytes are not text"
        raise InvalidAnswerError(message)
    return ShapeAnswer(_read_dims(record["shape"]), view, data)


def _read_dims(value: object) -> tuple[AnyDim, ...] | None:
    if isinstance(value, list):
        if len(value) > _MAX_DIMS:
            message = f"its shape has {len(value)} dims"
            raise InvalidAnswerError(message)
        if any(isinstance(dim, str) for dim in value):  # a name is written as {"min", "max", "name"}
            message = "a dim of its shape is text"
            raise InvalidAnswerError(message)
        value = [_complete(dim) if isinstance(dim, dict) else dim for dim in value]
    try:
        dims = read_dims(read_shape("shape", value), "shape")
    except InvalidRequestError as error:
        raise InvalidAnswerError(str(error)) from None
    if any(find_bounds(dim).is_empty for dim in dims or ()):
        message = "a dim of its shape contains no value"
        raise InvalidAnswerError(message)
    return dims


def _complete(dim: Json) -> Json:
    return {"min": 0, "max": None, **{key: value for key, value in dim.items() if value is not None}}
