"""Reads the answers of implementations from JSON.

Invariants:

- If a JSON record is not a valid answer, reading it raises an `InvalidAnswerError`.
- A null counts as a missing key, because the serializers of many languages write null for a missing value.
- A shape with more than _MAX_DIMS dims is rejected before it is read.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, check_dims, check_partial_dims, find_bounds
from tensor_reshape.rules.errors import InvalidRequestError, ReshapeError
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.inference import read_infer_response
from tensor_reshape.wire.json_messages import Json, read_message

MAX_TEXT_CHARACTERS = 200
_KEYS = ("answer", "output", "rejection", "unsupported")
_MAX_DIMS = 4096
_MAX_CONDITIONS = 1000
_CONDITIONS = ("conditions", "conditionsComplete", "conditions_complete")


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
    _check_count(value, "dims", _MAX_DIMS)
    try:
        tensor = read_message(tensor_pb2.Tensor, value, "output", ignores_unknown=True)
        return ShapeAnswer(tuple(check_dims(tensor.dims, "output.dims")), tensor.data)
    except InvalidRequestError as error:
        raise InvalidAnswerError(error.message) from None


def _read_shape(value: object) -> ShapeAnswer:
    for path, limit in (("shape.dims", _MAX_DIMS), ("shape.partial", _MAX_DIMS), ("conditions", _MAX_CONDITIONS)):
        _check_count(value, path, limit)
    invalid = _find_invalid(value)
    try:
        answer = read_infer_response(
            read_message(
                reshape_pb2.InferShapeResponse, _replace_invalid(value, invalid), "answer", ignores_unknown=True
            )
        )
        for index, condition in enumerate(answer.conditions):
            _check_condition(condition, f"conditions[{index}]")
    except ReshapeError as error:
        raise InvalidAnswerError(error.message) from None
    if len(_get(value, "conditions") or ()) != len(answer.conditions):
        message = "a condition must have the kind KIND_EQUAL, KIND_DIVIDES or KIND_RANGE"
        raise InvalidAnswerError(message)
    if any(find_bounds(dim).is_empty for dim in answer.dims or ()):
        message = "a dim of the shape has bounds that contain no value"
        raise InvalidAnswerError(message)
    is_listed = any(_get(value, key) is not None for key in _CONDITIONS)
    dims = None if answer.dims is None else tuple(invalid.get(index, dim) for index, dim in enumerate(answer.dims))
    return ShapeAnswer(dims, None, answer.conditions if is_listed else None, answer.conditions_complete)


def _find_invalid(value: object) -> dict[int, int]:
    """Returns the numbers of a shape that no dim has, by index. Such an answer is readable, but wrong."""
    dims = _get(value, "shape.dims")
    listed = enumerate(dims if isinstance(dims, list) else ())
    return {index: dim for index, dim in listed if type(dim) is int and not -1 <= dim <= MAX_DIM}


def _replace_invalid(value: object, invalid: Mapping[int, int]) -> object:
    """Returns the answer with a 0 for each invalid number, because a message can hold only some of them."""
    if not isinstance(value, Mapping) or not invalid:
        return value
    dims = [0 if index in invalid else dim for index, dim in enumerate(value["shape"]["dims"])]
    return {**value, "shape": {**value["shape"], "dims": dims}}


def _check_condition(condition: Condition, path: str) -> None:
    """Checks that a condition can be evaluated.

    Raises:
        InvalidAnswerError: a part of the condition is missing, or a number is out of range.
        InvalidRequestError: a name or a number of a product is invalid.
    """
    ends = [end for end in (condition.min, condition.max) if end is not None]
    products = [product for product in (condition.left, condition.right, condition.unless_zero) if product is not None]
    if condition.kind is ConditionKind.RANGE:
        is_valid = condition.right is None and bool(ends) and min(ends) >= 0
    else:
        is_valid = condition.right is not None and not any(one.divisors or one.divisor != 1 for one in products)
    if not is_valid:
        message = f"{path} must have either right and no divisor, or a range with min or max"
        raise InvalidAnswerError(message)
    for product in products:
        if product.symbols:
            check_partial_dims([Dim(ANY, product)], path)
        elif product.coefficient < 0 or product.divisor < 1:
            message = f"{path} has a number that is out of range"
            raise InvalidAnswerError(message)


def _check_count(value: object, path: str, limit: int) -> None:
    """Checks the length of the list at a path of keys, if there is a list."""
    found = _get(value, path)
    if isinstance(found, list) and len(found) > limit:
        message = f"{path} has {len(found)} items, but at most {limit} are allowed"
        raise InvalidAnswerError(message)


def _get(value: object, path: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the value at a path of keys; None without one."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
