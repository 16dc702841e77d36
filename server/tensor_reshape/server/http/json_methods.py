"""The methods of the API with messages in protobuf's canonical JSON, which protobuf reads and writes.

- A JSON method maps bytes to bytes like any other, and sends typed queries to the service. It contains no rules.
- A request may name a field as in the proto file or in lowerCamelCase; a response uses the latter. Numbers of 64 bits
  are strings in responses, because JavaScript cannot represent all of them.
- Duplicate names, unknown names and text that is not UTF-8 are rejected with the path of the field.
- Python's JSON and protobuf hold the interpreter lock. They therefore run under the service's locks, and one
  uninterrupted step reads or writes at most one query or result.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from tensor_reshape.rules.batches import ReportBug
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_BATCH_ITEMS
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.server.http.faults import Fault, find_fault, parse_message
from tensor_reshape.server.service.encoded_queries import EncodedQueries
from tensor_reshape.server.service.method_tables import IsOver, Method
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.service.works import Work, always
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.batches import decode_batch_items, encode_batch_result, write_batch_results
from tensor_reshape.wire.inference import build_infer_response, read_question
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE

MAX_QUESTION_BYTES = 64 * 1024
"""The largest query. The JSON of a valid one of rank 64 stays below 20 KiB."""

MAX_BATCH_BYTES = 1024 * 1024
"""The largest batch. It takes about as long as the largest one in protobuf."""

_ITEMS = "items"
_BLANK = r"[ \t\n\r]*"
_BEGIN = re.compile(rf'{_BLANK}{{{_BLANK}"{_ITEMS}"{_BLANK}:{_BLANK}\[')
_BLANKS, _COMMA = re.compile(_BLANK), re.compile(rf"{_BLANK},")
_END = re.compile(rf"{_BLANK}\]{_BLANK}}}{_BLANK}")
_AnyMessage = TypeVar("_AnyMessage", bound=Message)


def build_json_methods(service: ReshapeService) -> tuple[Method, ...]:
    """Returns the JSON methods of `service`, named as over gRPC."""
    questions = EncodedQueries(service, _read_question, _write_answer)

    def answer_batch(body: bytes, is_over: IsOver) -> bytes:
        return service.infer_items(
            lambda report: decode_batch_items(_read_items(body), report), _write_results, is_over
        )

    return (
        Method(INFER_SHAPE.path, questions.respond, questions.respond_light, always(Work.QUERIES)),
        Method(BATCH_INFER_SHAPE.path, answer_batch, find_work=always(Work.BATCHES)),
    )


def parse_json(text: str, what: str = "the body") -> dict[str, Any]:
    """Returns the object in a JSON text.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED.
    """
    try:
        document = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:  # also raised for numbers with more digits than Python reads
        raise _reject_text(error, what) from None
    if not isinstance(document, dict):
        raise _reject(Fault(f"{what} is no JSON object", ""))
    return document


def read_message(kind: type[_AnyMessage], document: Any, place: str = "") -> _AnyMessage:  # noqa: ANN401 - of JSON
    """Returns the message of a JSON value.

    Args:
        kind: the class of the message.
        document: the value.
        place: the path of the value in the body; empty for the body.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED.
    """
    if isinstance(document, dict):  # protobuf accepts an empty list as an object
        try:
            return parse_message(kind, document)
        except ValueError:
            pass  # the error is found below, with its path
    unknown = Fault(f"{place or 'the body'} is no JSON of {kind.DESCRIPTOR.full_name}", place)
    raise _reject(find_fault(kind, document, place) or unknown)


def write_message(message: Message) -> bytes:
    """Returns the JSON of a message."""
    return json.dumps(json_format.MessageToDict(message), separators=(",", ":")).encode()


def _read_question(body: bytes) -> ShapeRequest:
    return read_question(read_message(reshape_pb2.InferShapeRequest, parse_json(_decode(body))))


def _write_answer(answer: ShapeAnswer) -> bytes:
    return write_message(build_infer_response(answer))


def _write_results(results: Iterable[ShapeAnswer | ReshapeError], max_bytes: int, report: ReportBug) -> bytes:
    written = write_batch_results(results, _write_result, max_bytes, report)
    return b'{"results":[%b]}' % b",".join(written)


def _write_result(result: ShapeAnswer | ReshapeError) -> bytes:
    return write_message(reshape_pb2.BatchInferShapeResult.FromString(encode_batch_result(result)))


def _read_items(body: bytes) -> Iterator[bytes]:
    """Yields the items of a batch as serialized messages, which are faster to read than objects."""
    text = _decode(body)
    begin = _BEGIN.match(text)
    values = iter(_read_short(text)) if begin is None else _cut_values(text, begin.end())
    for index, value in enumerate(values):
        if index == MAX_BATCH_ITEMS:
            message = f"the batch has more than {MAX_BATCH_ITEMS} items"
            raise LimitError.of(Reason.BATCH_TOO_LARGE, message, _ITEMS, limit=MAX_BATCH_ITEMS)
        yield read_message(reshape_pb2.BatchInferShapeItem, value, f"{_ITEMS}[{index}]").SerializeToString()


def _read_short(text: str) -> list[Any]:
    """Returns the items of a short batch in an unusual form."""
    if len(text) > MAX_QUESTION_BYTES:
        message = f'the body does not begin with {{"{_ITEMS}":[, and is too long to be read otherwise'
        raise _reject(Fault(message, ""))
    document = parse_json(text)
    items = document.get(_ITEMS)
    if set(document) - {_ITEMS} or not isinstance(items, list | None):
        raise _reject(find_fault(BATCH_INFER_SHAPE.request, document) or Fault("the body is no batch", ""))
    return items or []


def _cut_values(text: str, position: int) -> Iterator[Any]:
    """Yields the values of a list that ends the batch. `position` is the start of its first value."""
    if _END.fullmatch(text, position):
        return
    window = _Window(text)
    for index in count():
        value, position = window.read(position, f"{_ITEMS}[{index}]")
        yield value
        if _END.fullmatch(text, position):
            return
        comma = _COMMA.match(text, position)
        if comma is None:
            raise _reject(Fault(f"behind {_ITEMS}[{index}] is neither a comma nor the end of the batch", ""))
        position = comma.end()


class _Window:
    """A part of a text, in which values are read one after another.

    Python's scanner does not release the interpreter, so it gets at most as many characters as the largest query has.
    """

    def __init__(self, text: str) -> None:
        self._text, self._part, self._begin = text, "", 0

    def read(self, position: int, what: str) -> tuple[Any, int]:
        """Returns the value at a position and the position of its end; `what` names the value in errors.

        Raises:
            InvalidRequestError: MESSAGE_MALFORMED.
        """
        try:
            return self._read(position)
        except (ValueError, RecursionError):  # the value may continue after this part
            self._begin, self._part = position, self._text[position : position + MAX_QUESTION_BYTES]
        try:
            return self._read(position)
        except (ValueError, RecursionError) as error:
            if len(self._part) == MAX_QUESTION_BYTES and not isinstance(error, RecursionError):
                text = f"{what} is not JSON, or has more than {MAX_QUESTION_BYTES} characters"
                raise _reject(Fault(text, what)) from None
            raise _reject_text(error, what) from None

    def _read(self, position: int) -> tuple[Any, int]:
        blank = _BLANKS.match(self._part, position - self._begin)
        value, end = _DECODER.raw_decode(self._part, blank.end() if blank else 0)
        if not isinstance(value, dict) and end == len(self._part):
            message = "a number may go on behind the part"
            raise ValueError(message)
        return value, self._begin + end


def _check_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object. A duplicate name is an error, because JSON readers differ in which value they use."""
    found = dict(pairs)
    if len(found) < len(pairs):
        message = "a name comes twice in an object"
        raise ValueError(message)
    return found


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise _reject(Fault(f"the body is no UTF-8 at byte {error.start}", "")) from None


def _reject_text(error: Exception, what: str) -> InvalidRequestError:
    told = "it is nested too deep" if isinstance(error, RecursionError) else str(error).partition(";")[0]
    return _reject(Fault(f"{what} is no JSON: {told}", ""))


def _reject(fault: Fault) -> InvalidRequestError:
    return InvalidRequestError.of(Reason.MESSAGE_MALFORMED, fault.text, fault.field)


_DECODER = json.JSONDecoder(object_pairs_hook=_check_names)
