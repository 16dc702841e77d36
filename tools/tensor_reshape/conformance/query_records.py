"""Converts shape queries and their errors to JSON lines and back.

Invariant: each line is a valid query or gets its own error. An ambiguous value causes an error and is never guessed.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from tensor_reshape.client.queries import DimLike, ShapeQuery
from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.json_format import Json
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.notation import parse_dim

_HEX = re.compile("[0-9a-fA-F]*")
_ID, _BYTES, _STRIDES, _CONDITIONS = "id", "bytes", "strides", "conditions"
_LINE = ""  # if an error is about a whole line, its field is empty


class BatchLine(NamedTuple):
    """One line of a batch of queries.

    Attributes:
        query: the query, or the error if the line is not a valid query.
        id: the id of the result; None if the line has no id.
        data: the buffer to reshape; None if only the shape is requested.
        strides: the strides of the buffer in elements; None if it is dense.
        lists_conditions: whether the result has a list of conditions even if there are none.
    """

    query: ShapeQuery | ReshapeError
    id: str | int | None = None
    data: bytes | None = None
    strides: Sequence[int] | None = None
    lists_conditions: bool = False


def read_line(line: bytes) -> BatchLine:
    """Reads one line of a batch of queries."""
    name: str | int | None = None
    try:
        record = _parse(line)
        # The id is read first, because an error about the rest of the record contains the id.
        name = _read_id(record.pop(_ID, None))
        data, strides = _read_data(record), _read_strides(record)
        lists_conditions = _read_flag(_CONDITIONS, record.pop(_CONDITIONS, False))
        if strides is not None and data is None:
            message = "bytes are required together with strides"
            raise InvalidRequestError.of(Reason.FIELD_MISSING, message, _BYTES)
        return BatchLine(read_record(record), name, data, strides, lists_conditions)
    except ReshapeError as error:
        return BatchLine(error, name)


def read_record(record: Json) -> ShapeQuery:
    """Reads a query.

    Raises:
        InvalidRequestError: the JSON record is not a valid query.
    """
    for key in record:
        if key not in _KEYS:
            raise _reject(
                _LINE, f"{key!r} is not a key of a query; use {', '.join(_KEYS)}, conditions, id, bytes and strides"
            )
    for key in ("shape",) if "data_from" in record else ("data", "shape"):
        if key not in record:
            message = f"{key} is required; write null if nothing is known about it"
            raise InvalidRequestError.of(Reason.FIELD_MISSING, message, key)
    # Keys that the record does not have are not passed, so that the defaults of `ShapeQuery` apply.
    options: Json = {_KEYS[key][0]: _KEYS[key][1](key, value) for key, value in record.items()}
    # The default of special_zero is None, because the rules reject a query without special_zero.
    return ShapeQuery(**{"special_zero": None, **options})


def read_case_query(record: Json) -> ShapeQuery:
    """Reads the query of a case, without the keys that only `read_line` reads.

    Raises:
        InvalidRequestError: the JSON record is not a valid query.
    """
    return read_record({key: value for key, value in record.items() if key not in {_ID, _BYTES, _STRIDES, _CONDITIONS}})


def describe_rejection(error: ReshapeError) -> Json:
    """Returns the JSON form of an error."""
    return {
        "error": {
            "reason": str(error.reason),
            "message": error.message,
            "field": error.field,
            "metadata": dict(sorted(error.metadata.items())),
        }
    }


def _parse(line: bytes) -> Json:
    try:
        # The line is decoded before it is parsed, because json would guess the encoding of bytes.
        record = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise _reject(_LINE, f"the line is not JSON{_locate(error)}") from None
    if not isinstance(record, dict):
        raise _reject(_LINE, "the line is not a JSON object")
    return record


def _locate(error: ValueError | RecursionError) -> str:
    """Returns the place or the cause of a fault in a line, as the end of a message."""
    if isinstance(error, json.JSONDecodeError):
        return f" at character {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f": byte {error.start + 1} is not UTF-8"
    return ": it is nested too deeply" if isinstance(error, RecursionError) else ": a number has too many digits"


def _read_id(value: object) -> str | int | None:
    if value is None or isinstance(value, str) or _is_int(value):
        return value
    raise _reject(_ID, "id must be text or a number")


def _read_data(record: Json) -> bytes | None:
    """Removes the buffer from a record of JSON and returns it."""
    text = record.pop(_BYTES, None)
    if text is None:
        return None
    if record.get("data_type") is None:
        message = "data_type is required together with bytes"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, message, "data_type")
    if not isinstance(text, str) or len(text) % 2 or _HEX.fullmatch(text) is None:
        raise _reject(_BYTES, "bytes must be text with two hexadecimal digits for each byte")
    return bytes.fromhex(text)


def read_shape(key: str, value: object) -> Sequence[DimLike] | None:
    """Reads a shape. The value null means that nothing is known about the shape. In errors, the shape is called `key`.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED or DIM_SYNTAX_INVALID.
    """
    if value is None:
        return None
    if not isinstance(value, list):
        raise _reject(key, f"{key} must be a list of dims, or null")
    return tuple(_read_dim(f"{key}[{index}]", item) for index, item in enumerate(value))


def _read_dim(field: str, value: object) -> DimLike:
    if value is None or _is_int(value):
        return value
    if isinstance(value, str):
        return _read_text(field, value)
    if isinstance(value, list) and len(value) == 2:  # noqa: PLR2004 # a pair
        return _read_bounds(field, *value)
    if isinstance(value, dict) and {"min", "max"} <= value.keys() <= {"min", "max", "name"}:
        low, high = _read_bounds(field, value["min"], value["max"])
        if "name" not in value:
            return low, high
        # The JSON object of a dim is converted to text and parsed, so that only `parse_dim` checks names.
        return _read_text(field, f"{value['name']}:{low}..{'' if high is None else high}")
    message = f'{field} must be a number, text, null, [low, high], or an object with "min", "max" and maybe "name"'
    raise _reject(field, message)


def _read_bounds(field: str, low: object, high: object) -> tuple[int, int | None]:
    if _is_int(low) and (high is None or _is_int(high)):
        return low, high
    raise _reject(field, f"{field} must have a number as minimum, and a number or null as maximum")


def _read_text(field: str, text: str) -> AnyDim:
    try:
        return parse_dim(text)
    except InvalidRequestError as error:
        raise InvalidRequestError.of(Reason.DIM_SYNTAX_INVALID, error.message, field, **error.metadata) from None


def _read_strides(record: Json) -> Sequence[int] | None:
    """Removes the strides from a record of JSON and returns them."""
    value = record.pop(_STRIDES, None)
    if value is None:
        return None
    if not isinstance(value, list) or not all(_is_int(item) and abs(item) <= MAX_DIM for item in value):
        raise _reject(_STRIDES, "strides must be a list of numbers up to 2^63 - 1, or null")
    return tuple(value)


def _read_flag(key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _reject(key, f"{key} must be true or false")


def _read_text_or_null(key: str, value: object) -> str | None:
    return None if value is None else _read_plain_text(key, value)


def _read_plain_text(key: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise _reject(key, f"{key} must be text")


def _read_index(key: str, value: object) -> int | None:
    if value is None or _is_int(value):
        return value
    raise _reject(key, f"{key} must be the number of an earlier line, counted from 0, or null")


def _is_int(value: object) -> TypeGuard[int]:
    return type(value) is int  # the exact type is compared, because a bool is also an int


def _reject(field: str, message: str) -> InvalidRequestError:
    return InvalidRequestError.of(Reason.MESSAGE_MALFORMED, message, field)


_KEYS: Mapping[str, tuple[str, Callable[[str, object], object]]] = {
    "data": ("data_shape", read_shape),
    "shape": ("shape", read_shape),
    "special_zero": ("special_zero", _read_flag),
    "operation": ("operation", _read_plain_text),
    "expected": ("expected_shape", read_shape),
    "data_type": ("data_type", _read_text_or_null),
    "explain": ("explain", _read_flag),
    "data_from": ("data_from", _read_index),
}
