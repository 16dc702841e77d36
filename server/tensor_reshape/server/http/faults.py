"""What is wrong with a value of JSON that protobuf does not take for a message: in words, and where.

protobuf itself names neither the index of an item nor always the field, and says some of it in words of Python. So it
decides what is taken, and what it does not take is looked at here again. Nothing here takes part in reading what is
good.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from tensor_reshape.rules.errors import format_value

_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
}


class Fault(NamedTuple):
    """One thing that is wrong.

    Attributes:
        text: a sentence for people.
        field: the path of the value; empty for the whole.
    """

    text: str
    field: str


def find_fault(kind: type[Message], value: Any, place: str = "") -> Fault | None:  # noqa: ANN401 - of JSON
    """Returns the first thing that keeps a value from being a message of `kind`; None where none is known.

    Args:
        kind: of the message.
        value: of JSON.
        place: its path; empty: it is the whole.
    """
    descriptor: Any = kind.DESCRIPTOR  # of either implementation of protobuf, which have no type in common
    return next(_find_in_message(descriptor, value, place), None)


def _find_in_message(kind: Descriptor, value: Any, place: str) -> Iterator[Fault]:  # noqa: ANN401
    if not isinstance(value, dict):
        yield Fault(f"{place or 'the body'} is {_name(value)}, and should be an object", place)
        return
    yield from _find_in_names(kind, value, place)
    for field in kind.fields:
        for name in {field.name, field.json_name}:
            item = value.get(name)
            if item is not None:  # of a field, null is none
                yield from _find_in_field(field, item, f"{place}.{field.name}".lstrip("."))


def _find_in_names(kind: Descriptor, value: Mapping[str, Any], place: str) -> Iterator[Fault]:
    known = {name: field for field in kind.fields for name in (field.name, field.json_name)}
    seen = dict[str, str]()  # what has been said, by what it says: a field, or one of a few of which there is one
    for name in value:
        field = known.get(name)
        if field is None:
            fields = ", ".join(field.json_name for field in kind.fields)
            yield Fault(f"{place or 'the body'} has no field {format_value(name)[:64]!r}; it has {fields}", place)
        elif value[name] is not None:
            told = field.containing_oneof.name if field.containing_oneof else field.name
            if told in seen:
                yield Fault(f"{place or 'the body'} has both {seen[told]} and {name}: leave one of them", place)
            seen[told] = name


def _find_in_field(field: FieldDescriptor, value: Any, place: str) -> Iterator[Fault]:  # noqa: ANN401
    if not field.is_repeated:
        yield from _find_in_value(field, value, place)
    elif not isinstance(value, list):
        yield Fault(f"{place} is {_name(value)}, and should be a list", place)
    else:
        for index, item in enumerate(value):
            yield from _find_in_value(field, item, f"{place}[{index}]")


def _find_in_value(field: FieldDescriptor, value: Any, place: str) -> Iterator[Fault]:  # noqa: ANN401
    if field.message_type is not None:
        yield from _find_in_message(field.message_type, value, place)
    elif field.enum_type is not None:
        if not _is_name(field.enum_type, value):
            names = ", ".join(item.name for item in field.enum_type.values)
            yield Fault(f"{place} is {_name(value)}, and should be one of {names}", place)
    elif field.cpp_type in _RANGES:
        least, most = _RANGES[field.cpp_type]
        if not _is_within(value, least, most):
            yield Fault(f"{place} is {_name(value)}, and should be a whole number from {least} to {most}", place)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_BOOL and not isinstance(value, bool):
        yield Fault(f"{place} is {_name(value)}, and should be true or false", place)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING and not _is_text(value):
        yield Fault(f"{place} is {_name(value)}, and should be a string of Unicode", place)


def _is_name(kind: EnumDescriptor, value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, str):
        return _is_text(value) and value in kind.values_by_name  # protobuf raises where it looks a lone surrogate up
    return _is_within(value, *_RANGES[1])


def _is_within(value: Any, least: int, most: int) -> bool:  # noqa: ANN401
    """Whether a value is a whole number in a range: in JSON it may be a string, or be written with an exponent."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return False
    try:
        return least <= int(value) <= most and int(value) == (int(value) if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return False


def _is_text(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _name(value: Any) -> str:  # noqa: ANN401
    """Says what a value is, in a few words."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    return repr(value)[:64] if isinstance(value, str) else format_value(value).lower()[:64]
