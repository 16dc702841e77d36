"""Questions as texts that somebody typed, or that stand in a link, and what they mean.

Laws: a text is read by `rules.shape_parser`, as on the command line, and by nothing else; what cannot be read is
rejected with the field that a server would name. `find_blamed` leads from that field back to the text and the item.
"""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_RANK
from tensor_reshape.rules.operations import OPERATIONS, STATIC_RESHAPE, Operation, check_rank
from tensor_reshape.rules.questions import Question, ShapeRequest
from tensor_reshape.rules.shape_parser import parse_shape, parse_strides, split_items

MAX_TEXT_CHARACTERS = 4096
"""The longest text of one input. It is read before any limit of the server is asked: a millisecond at most."""

_FIELDS = {
    "data": "data.dims",
    "shape": "shape",
    "expected": "expected_shape.dims",
    "strides": "data.strides",
    "operation": "operation",
    "special_zero": "special_zero",
    "server": "",
}
"""What a rejection calls each text."""

_TEXTS = {**{field: name for name, field in _FIELDS.items() if field}, "expected_shape": "expected"}
_PATH = re.compile(r"([a-z_.]+)(?:\[(\d+)\])?")
_FLAGS = {"true": True, "false": False, "": None}


class TypedQuestion(NamedTuple):
    """A question as it was typed.

    Attributes:
        data: the shape of the data; empty: a scalar's.
        shape: the target; empty: a scalar's.
        operation: its name; empty: static_reshape.
        special_zero: true or false; empty: not said, which the rules reject.
        expected: the output shape that is counted on; empty: none is, and `[]` is a scalar's.
        strides: of the data, in elements; empty: not said, and `[]` is a scalar's.
        server: where the page is, as the browser knows it: for what is shown alone.
    """

    data: str = ""
    shape: str = ""
    operation: str = ""
    special_zero: str = ""
    expected: str = ""
    strides: str = ""
    server: str = ""

    @classmethod
    def of(cls, query: bytes) -> "TypedQuestion":
        """Returns the question in what is behind the question mark of a link.

        Names other than its own say nothing, and of a name that comes twice the last counts: as in a form.
        """
        parameters = dict(parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True))
        return cls(**{name: parameters[name] for name in cls._fields if name in parameters})


class Blamed(NamedTuple):
    """What is to blame for a rejection.

    Attributes:
        name: of the text: a field of `TypedQuestion`; empty: none in particular.
        start: where the item begins in it, None where no item in particular is to blame.
        end: where it ends.
    """

    name: str = ""
    start: int | None = None
    end: int | None = None


def read_question(typed: TypedQuestion) -> ShapeRequest:
    """Returns what is asked, all explanations with it.

    Raises:
        InvalidRequestError: a text cannot be read.
        LimitError: a text is too long, or has more items than a shape may have.
    """
    for name, text in typed._asdict().items():
        if len(text) > MAX_TEXT_CHARACTERS:
            message = f"{name} has {len(text)} characters; the explorer accepts up to {MAX_TEXT_CHARACTERS}"
            raise LimitError.of(
                Reason.HEADER_TOO_LARGE, message, _FIELDS[name], size=len(text), limit=MAX_TEXT_CHARACTERS
            )
    operation = _read_operation(typed.operation)
    question = Question(
        operation,
        _read_shape(operation, typed.data, "data"),
        _read_shape(operation, typed.shape, "shape"),
        _read_flag(typed.special_zero),
        expected=_read_shape(operation, typed.expected, "expected") if typed.expected.strip() else None,
    )
    strides = parse_strides(typed.strides, _FIELDS["strides"]) if typed.strides.strip() else None
    return ShapeRequest(question, explain=True, strides=strides)


def find_blamed(typed: TypedQuestion, error: ReshapeError) -> Blamed:
    """Returns which text is to blame for a rejection, and which item of it."""
    match = _PATH.fullmatch(error.field)
    name = _TEXTS.get(match[1]) if match else None
    if match is None or name is None:
        return Blamed()
    items = split_items(getattr(typed, name)) or ()
    index = -1 if match[2] is None else int(match[2])
    if not 0 <= index < len(items):
        return Blamed(name)
    return Blamed(name, items[index].start, items[index].end)


def _read_operation(name: str) -> Operation:
    operation = OPERATIONS.get(name or STATIC_RESHAPE.name)
    if operation is None:
        message = f"operation is {name!r}; use one of {', '.join(OPERATIONS)}"
        raise InvalidRequestError.of(Reason.OPERATION_UNSPECIFIED, message, _FIELDS["operation"], value=name)
    return operation


def _read_shape(operation: Operation, text: str, name: str) -> tuple[AnyDim, ...] | None:
    # As on a server, a shape of a rank that no operation takes is rejected unread.
    rank = len(split_items(text) or ())
    if rank > MAX_RANK:
        check_rank(operation, rank, _FIELDS[name], DEFAULT_LIMITS)
    return parse_shape(text, _FIELDS[name])


def _read_flag(text: str) -> bool | None:
    if text not in _FLAGS:
        message = f"special_zero is {text!r}; it must be true or false"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, message, _FIELDS["special_zero"], value=text)
    return _FLAGS[text]
