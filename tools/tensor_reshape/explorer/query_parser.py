"""Parses shape queries from text, which comes from the inputs of the page or from a link.

Invariants: only `rules.shape_parser` parses shapes, as on the command line. The rejection of an invalid text names the
same field as a server. The function `find_wrong_item` returns the text and the item that belong to the field of an
error.
"""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl

from tensor_reshape.rules.dims import AnyDim, read_unknown
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_RANK
from tensor_reshape.rules.operations import SHAPE_OPERATIONS, STATIC_RESHAPE, Operation, check_rank
from tensor_reshape.rules.questions import Question, ShapeRequest
from tensor_reshape.rules.shape_parser import parse_shape, split_items

MAX_TEXT_CHARACTERS = 4096
"""The maximum length of one text. Parsing it takes at most a millisecond, and no limit of the server applies to it."""

_FIELDS = {
    "data": "data.dims",
    "shape": "shape",
    "expected": "expected_shape.dims",
    "operation": "operation",
    "special_zero": "special_zero",
    "server": "",
}
"""The field of each text in a rejection."""

_TEXTS = {**{field: name for name, field in _FIELDS.items() if field}, "expected_shape": "expected"}
_PATH = re.compile(r"([a-z_.]+)(?:\[(\d+)\])?")
_FLAGS = {"true": True, "false": False, "": None}


class QueryText(NamedTuple):
    """The texts of a query.

    Attributes:
        data: the data shape. Empty means a scalar.
        shape: the requested shape. Empty means a scalar.
        operation: the name of the operation. If empty, the operation is static_reshape.
        special_zero: the text true or false. If empty, the flag is missing, and the rules reject the query.
        expected: the expected output shape. If empty, there is no expected shape, but `[]` means a scalar.
        server: the address of the page in the browser, for the snippets.
    """

    data: str = ""
    shape: str = ""
    operation: str = ""
    special_zero: str = ""
    expected: str = ""
    server: str = ""

    @classmethod
    def of(cls, query: bytes) -> "QueryText":
        """Returns the query texts in a link. `query` is the part of the link after the question mark.

        Names that are not fields of a query are ignored. If a name occurs twice, its last value counts, as in a form.
        """
        parameters = dict(parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True))
        return cls(**{name: parameters[name] for name in cls._fields if name in parameters})


class WrongItem(NamedTuple):
    """The position of a rejected item in the texts of a query.

    Attributes:
        name: the field of `QueryText` that contains the item. The name is empty if the rejection is not about one
            field.
        start: the first position of the item in the text. The position is None if the rejection is not about one item.
        end: the position after the last character of the item.
    """

    name: str = ""
    start: int | None = None
    end: int | None = None


def parse_query(text: QueryText) -> ShapeRequest:
    """Returns the parsed query, which requests all explanations.

    Raises:
        InvalidRequestError: a text of the query is invalid.
        LimitError: a text of the query is too long, or has more items than a shape may have.
    """
    for name, value in text._asdict().items():
        if len(value) > MAX_TEXT_CHARACTERS:
            message = f"{name} has {len(value)} characters; the explorer accepts up to {MAX_TEXT_CHARACTERS}"
            raise LimitError.of(
                Reason.HEADER_TOO_LARGE, message, _FIELDS[name], size=len(value), limit=MAX_TEXT_CHARACTERS
            )
    operation = _parse_operation(text.operation)
    question = Question(
        operation,
        read_unknown(_parse_shape(operation, text.data, "data")),
        _parse_shape(operation, text.shape, "shape"),
        _parse_flag(text.special_zero),
        expected=read_unknown(_parse_shape(operation, text.expected, "expected")) if text.expected.strip() else None,
    )
    return ShapeRequest(question, explain=True)


def find_wrong_item(text: QueryText, error: ReshapeError) -> WrongItem:
    """Returns the position of the item that caused a rejection."""
    match = _PATH.fullmatch(error.field)
    name = _TEXTS.get(match[1]) if match else None
    if match is None or name is None:
        return WrongItem()
    items = split_items(getattr(text, name)) or ()
    index = -1 if match[2] is None else int(match[2])
    if not 0 <= index < len(items):
        return WrongItem(name)
    return WrongItem(name, items[index].start, items[index].end)


def _parse_operation(name: str) -> Operation:
    operation = SHAPE_OPERATIONS.get(name or STATIC_RESHAPE.name)
    if operation is None:
        message = f"operation is {name!r}; use one of {', '.join(SHAPE_OPERATIONS)}"
        raise InvalidRequestError.of(Reason.OPERATION_UNSPECIFIED, message, _FIELDS["operation"], value=name)
    return operation


def _parse_shape(operation: Operation, text: str, name: str) -> tuple[AnyDim, ...] | None:
    # If no operation accepts the rank of a shape, the shape is rejected before its items are parsed, as on a server.
    rank = len(split_items(text) or ())
    if rank > MAX_RANK:
        check_rank(operation, rank, _FIELDS[name], DEFAULT_LIMITS)
    return parse_shape(text, _FIELDS[name])


def _parse_flag(text: str) -> bool | None:
    if text not in _FLAGS:
        message = f"special_zero is {text!r}; it must be true or false"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, message, _FIELDS["special_zero"], value=text)
    return _FLAGS[text]
