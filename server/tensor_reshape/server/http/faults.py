"""Messages from JSON, and explanations of invalid JSON in protobuf's words, with the path of the value.

protobuf does not always name the field, and seldom the index of an item. For invalid JSON, the values in a message are
therefore read one by one, down to the smallest one that protobuf rejects.
"""

from typing import Any, NamedTuple, TypeVar

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

_MAX_DEPTH = 32  # the deepest query has ten levels
_MAX_CHARACTERS = 200  # of protobuf's text, which may quote the client
_AnyMessage = TypeVar("_AnyMessage", bound=Message)


class Fault(NamedTuple):
    """One error in a document.

    Attributes:
        text: a sentence for people.
        field: the path of the value; empty for the whole document.
    """

    text: str
    field: str


def parse_message(kind: type[_AnyMessage], value: dict[str, Any]) -> _AnyMessage:
    """Returns the message of a JSON object.

    Raises:
        ValueError: the object is invalid, with protobuf's text.
    """
    try:
        return json_format.ParseDict(value, kind(), max_recursion_depth=_MAX_DEPTH)
    except json_format.ParseError as error:
        raise ValueError(" ".join(str(error).split())[:_MAX_CHARACTERS]) from error
    # protobuf raises OverflowError for a number such as 1e400, and SystemError for a lone surrogate.
    except (TypeError, AttributeError, OverflowError, SystemError) as error:
        message = "it is not valid for protobuf"
        raise ValueError(message) from error


def find_fault(kind: type[Message], value: Any, place: str = "") -> Fault | None:  # noqa: ANN401 - of JSON
    """Returns why a value is not a valid message; None if it is one.

    Args:
        kind: the class of the message.
        value: the JSON value.
        place: the path of the value; empty for the body.
    """
    if not isinstance(value, dict):  # protobuf accepts an empty list as an object
        return Fault(f"{place or 'the body'} is not an object", place)
    words = _reject(kind, value)
    if not words:
        return None
    descriptor: Any = kind.DESCRIPTOR  # the implementations of protobuf have no common type
    fields = {name: field for field in descriptor.fields for name in (field.name, field.json_name)}
    for name, item in value.items():
        if name in fields and _reject(kind, {name: item}):
            return _find_in_field(kind, fields[name], item, f"{place}.{fields[name].name}".lstrip("."))
    return Fault(f"{place or 'the body'}: {words}", place)


def _find_in_field(kind: type[Message], field: FieldDescriptor, value: Any, place: str) -> Fault:  # noqa: ANN401
    if field.is_repeated and isinstance(value, list):
        for index, item in enumerate(value):
            if words := _reject(kind, {field.name: [item]}):
                return _find_in_item(field, item, f"{place}[{index}]", words)
    words = _reject(kind, {field.name: value})
    return Fault(f"{place}: {words}", place) if field.is_repeated else _find_in_item(field, value, place, words)


def _find_in_item(field: FieldDescriptor, value: Any, place: str, words: str) -> Fault:  # noqa: ANN401
    inner = None if field.message_type is None else find_fault(GetMessageClass(field.message_type), value, place)
    return inner or Fault(f"{place}: {words}", place)


def _reject(kind: type[Message], value: dict[str, Any]) -> str:
    """Returns why a JSON object is not a valid message; empty if it is one."""
    try:
        parse_message(kind, value)
    except ValueError as error:
        return str(error)
    return ""
