"""Reads and writes protobuf messages as JSON, for the service, the SDK, the command line and the conformance suite.

- A reader accepts field names in lowerCamelCase or as in the proto file, and 64-bit numbers as numbers or as text. It
  rejects duplicate names and unknown names. Its errors contain the position or the field of the invalid value.
- `describe_message` writes 64-bit numbers as numbers, because integers are exact in Python and in most JSON files.
  `write_message` writes 64-bit numbers as text, because protobuf's JSON mapping demands it for JavaScript, which cannot
  represent all of them.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias, cast

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.fields import AnyMessage

Json: TypeAlias = dict[str, Any]

_MAX_CHARACTERS = 200  # the maximum length of protobuf's error text, which may quote text of the client
_MAX_QUOTED = 60
_OUTER_FIELD = re.compile(r"Failed to parse (-?\w+) field: ")
_ENUM = re.compile(r"^Invalid enum value .*for enum type ([\w.]+)$")
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_NUMBER = re.compile(r"NaN|-?Infinity|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BASE64 = re.compile("[A-Za-z0-9+/_-]*")  # a repeated group would take ten times as long and block all other threads
_PADDINGS = (("",), (), ("", "=="), ("", "="))  # the allowed endings, by the number of characters modulo 4
_LONG_TYPES = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})


class _DuplicateNameError(ValueError):
    """A JSON object contains the same name twice."""


class _Check(NamedTuple):
    """A check of a value. `wanted` describes the values that pass the check."""

    passes: Callable[[object], bool]
    wanted: str


class Checks(NamedTuple):
    """The checks that `check_values` makes in addition to the type checks.

    Attributes:
        max_entries: the maximum number of entries of a list or an object.
        opaque: the full name of a message type whose values are not checked.
    """

    max_entries: float = math.inf
    opaque: str = ""


_DEFAULT_CHECKS = Checks()


class _Field(NamedTuple):
    """The form of a field. A field with several values has a container. Each value has a message type or a check."""

    number: int
    container: type[list[Any] | dict[Any, Any]] | None
    kind: Descriptor | None
    check: _Check | None


def decode_text(body: bytes) -> str:
    """Returns the text of a body, which must be UTF-8.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise reject_json(f"the body is not UTF-8 at byte {error.start}") from None


def parse_json(text: str, path: str = "the body") -> Json:
    """Returns the value of a JSON text, which must be an object and is called `path` in errors.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    try:
        document = DECODER.decode(text)
    except (ValueError, RecursionError) as error:  # `int` raises ValueError for too many digits
        raise reject_json(f"{path} is not JSON{_find_cause(error)}") from None
    if not isinstance(document, dict):
        raise reject_json(f"{path} is not a JSON object")
    return document


def read_message(
    kind: type[AnyMessage],
    document: Any,  # noqa: ANN401 - of JSON
    path: str = "",
    *,
    ignores_unknown: bool = False,
) -> AnyMessage:
    """Returns a message that is read from a JSON value.

    Args:
        kind: the class of the message.
        document: the JSON value.
        path: the path of the value in the body, which is empty for the body itself.
        ignores_unknown: whether unknown names are ignored.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    check_values(document, cast("Descriptor", kind.DESCRIPTOR), path)
    try:
        return json_format.ParseDict(document, kind(), ignores_unknown)
    except json_format.ParseError as error:
        text, field = _explain(str(error), cast("Descriptor", kind.DESCRIPTOR))
        field = f"{path}.{field}".strip(".")
        raise reject_json(f"{field or 'the body'}: {text}", field) from None
    # Some releases of protobuf raise other exceptions, for example for an unpaired surrogate in a key.
    except (TypeError, AttributeError, OverflowError, SystemError):
        problem = f"{path or 'the body'} contains a number that is too large, invalid text, or a value of a wrong type"
        raise reject_json(problem, path) from None


def check_values(value: object, kind: Descriptor, path: str = "", checks: Checks = _DEFAULT_CHECKS) -> None:
    """Checks the types of the values of a message. Unknown names are left to the parser.

    protobuf would read an empty list as an empty message, drop characters of invalid base64, and take the lower bits of
    a number as an enum value. For other invalid values, protobuf's error messages would contain the texts of Python
    exceptions.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    if not isinstance(value, dict):
        raise reject_json(f"{path or 'the body'} is not a JSON object", path)
    fields, numbers = _list_fields(kind), set[int]()
    for name, item in value.items():
        field = fields.get(name)
        if field is None:
            continue
        place = f"{path}.{name}" if path else name
        if field.number in numbers:
            raise reject_json(f"{place} is given twice", place)
        numbers.add(field.number)
        if item is not None:
            _check_field(item, field, place, checks)


def _check_field(value: Any, field: _Field, path: str, checks: Checks) -> None:  # noqa: ANN401 - of JSON
    if field.container is None:
        _check_value(value, field, path, checks)
        return
    if not isinstance(value, field.container):
        raise reject_json(f"{path} is not a JSON {'list' if field.container is list else 'object'}", path)
    if len(value) > checks.max_entries:
        raise reject_json(f"{path} has {len(value)} entries; at most {checks.max_entries} are allowed", path)
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        _check_value(item, field, f"{path}[{key}]", checks)


def _check_value(value: object, field: _Field, path: str, checks: Checks) -> None:
    if field.kind is None:
        if field.check is not None and not field.check.passes(value):
            raise reject_json(f"{path} is {shorten(value)}, not {field.check.wanted}", path)
    elif field.kind.full_name != checks.opaque:
        check_values(value, field.kind, path, checks)


@cache
def _list_fields(kind: Descriptor) -> Mapping[str, _Field]:
    """Returns the fields of a message by all their names.

    The result is cached, because reading descriptors takes longer than the checks.
    """
    fields = dict[str, _Field]()
    for field in kind.fields:
        entry = field.message_type
        is_map = entry is not None and entry.GetOptions().map_entry
        element = entry.fields_by_name["value"] if entry is not None and is_map else field
        container: type[list[Any] | dict[Any, Any]] | None = list if field.is_repeated else None
        if is_map:
            container = dict
        read = _Field(field.number, container, element.message_type, _CHECKS.get(element.type))
        fields |= dict.fromkeys((field.name, field.camelcase_name), read)
    return fields


def shorten(value: object) -> str:
    """Returns a short text for a JSON value.

    The text of a list or an object does not contain its values, because they may be large and deep.
    """
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def _is_integer(value: object, low: int, high: int) -> bool:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    elif type(value) is not int and not (isinstance(value, float) and value.is_integer()):
        return False
    return low <= value <= high


def _check_integer(low: int, high: int) -> _Check:
    return _Check(partial(_is_integer, low=low, high=high), f"a whole number from {low} to {high}")


def _is_number(value: object) -> bool:
    return _NUMBER.fullmatch(value) is not None if isinstance(value, str) else type(value) in {int, float}


def is_text(value: object) -> bool:
    """Whether a value is text without unpaired surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # the text contains an unpaired surrogate
        return False
    return True


def _is_base64(value: object) -> bool:
    if not isinstance(value, str):
        return False
    end = _BASE64.match(value).end()  # type: ignore[union-attr] # an empty text matches
    return value[end : end + 3] in _PADDINGS[end % 4]


def write_message(message: Message) -> bytes:
    """Returns a message as JSON, exactly as protobuf's JSON mapping defines."""
    return write_json(json_format.MessageToDict(message))


def write_json(document: object) -> bytes:
    """Returns a value as JSON without spaces.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def describe_message(message: Message, **form: Any) -> Json:
    """Returns a message as a JSON object, with 64-bit integers as numbers.

    `form` contains arguments for `MessageToDict`.
    """
    record: Json = json_format.MessageToDict(message, **form)
    _restore_numbers(record, cast("Descriptor", message.DESCRIPTOR))
    return record


def _restore_numbers(record: Json, kind: Descriptor) -> None:
    for name, value in record.items():
        field = kind.fields_by_name.get(name) or kind.fields_by_camelcase_name[name]
        if field.cpp_type in _LONG_TYPES:
            record[name] = [int(item) for item in value] if isinstance(value, list) else int(value)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            record[name] = dict(sorted(value.items()))  # protobuf does not keep the order of a map
        elif field.message_type is not None:
            for item in value if isinstance(value, list) else [value]:
                _restore_numbers(item, field.message_type)


def reject_json(text: str, field: str = "") -> InvalidRequestError:
    """Returns the error of JSON that is not the expected message."""
    return InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text, field)


def _find_cause(error: Exception) -> str:
    """Returns the end of an error message, with the position or the cause of the fault in a JSON text."""
    if isinstance(error, json.JSONDecodeError):
        line = "" if error.lineno == 1 else f"line {error.lineno}, "
        return f" at {line}character {error.colno}"
    if isinstance(error, _DuplicateNameError):
        return ": an object contains the same name twice"
    return ": it is nested too deeply" if isinstance(error, RecursionError) else ": a number has too many digits"


def _check_names(pairs: list[tuple[str, Any]]) -> Json:
    """Returns a JSON object, and rejects duplicate names, because JSON parsers differ in how they treat duplicates."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _DuplicateNameError
    return found


def _explain(text: str, root: Descriptor) -> tuple[str, str]:
    """Splits an error text of protobuf into an explanation without field names, and the path of the invalid value.

    Some texts of protobuf contain the full path of the value, which begins with the message `root`. Other texts contain
    only the names of the fields around the value, so the returned path consists of these names without list indices.
    """
    pattern = re.compile(rf' at "?{root.name}((?:\.\w+|\[\d+\])*)"?')
    found = pattern.search(text)
    field = found[1].lstrip(".") if found else ".".join(_OUTER_FIELD.findall(text))
    words = " ".join(_OUTER_FIELD.sub("", pattern.sub("", text)).split()).rstrip(".")
    enum = _ENUM.search(words)
    choices = f"; use one of {', '.join(_list_names(root, enum[1]))}" if enum else ""
    return words[:_MAX_CHARACTERS].rstrip(".") + choices, field


def _list_names(root: Descriptor, enum: str) -> list[str]:
    """Returns the names of the values of an enum by its full name, except the name of the value 0."""
    values = root.file.pool.FindEnumTypeByName(enum).values
    return [value.name for value in values if value.number]


_CHECKS: Mapping[int, _Check] = {
    FieldDescriptor.TYPE_BOOL: _Check(lambda value: isinstance(value, bool), "true or false"),
    FieldDescriptor.TYPE_STRING: _Check(is_text, "valid text"),
    FieldDescriptor.TYPE_BYTES: _Check(_is_base64, "base64"),
    FieldDescriptor.TYPE_ENUM: _Check(
        lambda value: is_text(value) or (type(value) is int and -(2**31) <= value < 2**31), "the name of a value"
    ),
    **dict.fromkeys((FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32), _check_integer(-(2**31), 2**31 - 1)),
    **dict.fromkeys((FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64), _check_integer(-(2**63), 2**63 - 1)),
    FieldDescriptor.TYPE_UINT32: _check_integer(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: _check_integer(0, 2**64 - 1),
    **dict.fromkeys((FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE), _Check(_is_number, "a number")),
}
"""The check of each type."""

DECODER = json.JSONDecoder(object_pairs_hook=_check_names)
"""The parser of JSON, which raises ValueError for a duplicate name."""
