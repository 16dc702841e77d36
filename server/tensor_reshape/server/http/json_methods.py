"""The API methods with messages in protobuf's canonical JSON.

- Like other methods, a JSON method takes the bytes of a request and returns the bytes of a response. JSON methods pass
  parsed queries to the service and contain no reshape rules.
- The field names in a request may be in lowerCamelCase, or as in the proto file. A response uses lowerCamelCase.
- In a response, 64-bit numbers are strings, because JavaScript cannot represent all of them as numbers.
- A request with duplicate names, unknown names or text that is not UTF-8 is rejected. The error for a malformed JSON
  request names the position or field of the fault.
- Python's JSON parser and protobuf hold the interpreter lock while they work. Parsing and writing JSON therefore only
  happen while a lock of the service is held, for at most one query or result at a time.
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
from tensor_reshape.server.service.encoded_queries import EncodedQueries
from tensor_reshape.server.service.method_tables import IsOver, Method
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.service.works import Work, always
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.batches import decode_batch_items, encode_batch_result, write_batch_results
from tensor_reshape.wire.inference import build_infer_response, read_question
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE

MAX_QUESTION_BYTES = 64 * 1024
"""Maximum size of a query in bytes. The JSON of a valid query of rank 64 is smaller than 20 KiB."""

MAX_BATCH_BYTES = 1024 * 1024
"""Maximum size of a batch in bytes.

The server needs as much time for a JSON batch of this size as for the largest protobuf batch.
"""

_MAX_DEPTH = 32  # the JSON of a valid query has at most ten levels of nesting
_MAX_CHARACTERS = 200  # the maximum length of protobuf's error text, which may quote text of the client
# Most batch items have fewer characters than this. The JSON scanner first gets a copy of this length, because copying
# 64 KiB for each short item would take longer.
_USUAL_CHARACTERS = 1024
_OUTER_FIELD = re.compile(r"Failed to parse (-?\w+) field: ")
_ITEMS = "items"
_BLANK = r"[ \t\n\r]*"
_BEGIN = re.compile(rf'{_BLANK}{{{_BLANK}"{_ITEMS}"{_BLANK}:{_BLANK}\[')
_FIRST, _NEXT = re.compile(_BLANK), re.compile(rf"{_BLANK},{_BLANK}")
_END = re.compile(rf"{_BLANK}\]{_BLANK}}}{_BLANK}")
_AnyMessage = TypeVar("_AnyMessage", bound=Message)


def build_json_methods(service: ReshapeService) -> tuple[Method, ...]:
    """Returns the JSON methods of `service`, which have the same names as the gRPC methods."""
    questions = EncodedQueries(service, _read_question, _write_answer)

    def answer_batch(body: bytes, is_over: IsOver) -> bytes:
        return service.infer_items(
            lambda report: decode_batch_items(_read_items(body), report), _write_results, is_over
        )

    return (
        Method(INFER_SHAPE.path, questions.respond, questions.respond_light, always(Work.QUERIES)),
        Method(BATCH_INFER_SHAPE.path, answer_batch, find_work=always(Work.BATCHES)),
    )


def parse_body(body: bytes) -> dict[str, Any]:
    """Returns the JSON object in a body.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    return parse_json(_decode(body))


def parse_json(text: str) -> dict[str, Any]:
    """Returns the value of a JSON text, which must be an object.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    try:
        document = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:  # `int` also raises ValueError for numbers with too many digits
        raise _reject_text(error, "the body") from None
    if not isinstance(document, dict):
        problem = "the body is not a JSON object"
        raise _reject(problem)
    return document


def read_message(kind: type[_AnyMessage], document: Any, path: str = "") -> _AnyMessage:  # noqa: ANN401 - of JSON
    """Returns a message that is read from a JSON value.

    Args:
        kind: the class of the message.
        document: the JSON value.
        path: the path of the value in the body, which is empty for the body itself.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED, with the error text of protobuf.
    """
    if not isinstance(document, dict):  # without this check, protobuf would accept an empty list instead of an object
        problem = f"{path or 'the body'} is not a JSON object"
        raise _reject(problem, path)
    try:
        return json_format.ParseDict(document, kind(), max_recursion_depth=_MAX_DEPTH)
    except json_format.ParseError as error:
        text, field = _explain(str(error), kind.DESCRIPTOR.name)
        field = f"{path}.{field}".strip(".")
        problem = f"{field or 'the body'}: {text}"
        raise _reject(problem, field) from None
    # protobuf raises OverflowError for a number such as 1e400, and SystemError for a lone surrogate.
    except (TypeError, AttributeError, OverflowError, SystemError):
        problem = f"{path or 'the body'} contains a number that is too large, invalid text, or a value of a wrong type"
        raise _reject(problem, path) from None


def write_message(message: Message) -> bytes:
    """Returns a message as JSON."""
    return json.dumps(json_format.MessageToDict(message), separators=(",", ":")).encode()


def _read_question(body: bytes) -> ShapeRequest:
    return read_question(read_message(reshape_pb2.InferShapeRequest, parse_body(body)))


def _write_answer(answer: ShapeAnswer) -> bytes:
    return write_message(build_infer_response(answer))


def _write_results(results: Iterable[ShapeAnswer | ReshapeError], max_bytes: int, report: ReportBug) -> bytes:
    written = write_batch_results(results, _write_result, max_bytes, report)
    return b'{"results":[%b]}' % b",".join(written)


def _write_result(result: ShapeAnswer | ReshapeError) -> bytes:
    return write_message(reshape_pb2.BatchInferShapeResult.FromString(encode_batch_result(result)))


def _read_items(body: bytes) -> Iterator[bytes]:
    """Yields the items of a batch as serialized messages.

    Reading the fields of message objects would be slower.
    """
    text = _decode(body)
    begin = _BEGIN.match(text)
    values = iter(_read_short(text)) if begin is None else _split_items(text, begin.end())
    for index, value in enumerate(values):
        if index == MAX_BATCH_ITEMS:
            message = f"the batch has more than {MAX_BATCH_ITEMS} items"
            raise LimitError.of(Reason.BATCH_TOO_LARGE, message, _ITEMS, limit=MAX_BATCH_ITEMS)
        yield read_message(reshape_pb2.BatchInferShapeItem, value, f"{_ITEMS}[{index}]").SerializeToString()


def _read_short(text: str) -> list[Any]:
    """Returns the items of a short JSON batch that does not begin with the list of items."""
    if len(text) > MAX_QUESTION_BYTES:
        problem = f'a body of more than {MAX_QUESTION_BYTES} characters must begin with {{"{_ITEMS}":['
        raise _reject(problem)
    document = parse_json(text)
    items = document.get(_ITEMS)
    if set(document) - {_ITEMS} or not isinstance(items, list | None):
        # this call of protobuf raises an error that describes the fault
        read_message(reshape_pb2.BatchInferShapeRequest, document)
    return items or []


def _split_items(text: str, position: int) -> Iterator[Any]:
    """Yields the items of a JSON batch, in which nothing may follow the list of items.

    `position` is the position of the first item.
    """
    for index in count():
        if _END.fullmatch(text, position):
            return
        begin = (_NEXT if index else _FIRST).match(text, position)
        if begin is None:
            problem = f"{_ITEMS}[{index - 1}] is not followed by a comma or by the end of the batch"
            raise _reject(problem)
        value, position = _read_item(text, begin.end(), f"{_ITEMS}[{index}]")
        yield value


def _read_item(text: str, position: int, path: str) -> tuple[Any, int]:
    """Returns the JSON value that begins at `position`, and the position at which this value ends.

    Python's JSON scanner does not release the interpreter lock, so it gets at most `MAX_QUESTION_BYTES` characters at
    once.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    for characters in (_USUAL_CHARACTERS, MAX_QUESTION_BYTES):
        try:
            value, end = _DECODER.raw_decode(text[position : position + characters])
        # the error may only mean that the JSON value is longer than this part of the text
        except (ValueError, RecursionError) as error:
            problem = error
        else:
            return value, position + end
    if position + MAX_QUESTION_BYTES < len(text) and not isinstance(problem, RecursionError):
        text = f"{path} is not JSON, or has more than {MAX_QUESTION_BYTES} characters"
        raise _reject(text, path)
    raise _reject_text(problem, path)


def _check_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object, and rejects duplicate names, because JSON parsers differ in how they treat duplicates."""
    found = dict(pairs)
    if len(found) < len(pairs):
        message = "an object contains the same name twice"
        raise ValueError(message)
    return found


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        problem = f"the body is not UTF-8 at byte {error.start}"
        raise _reject(problem) from None


def _explain(text: str, root: str) -> tuple[str, str]:
    """Splits an error text of protobuf into an explanation without field names and the path of the wrong value.

    Some texts of protobuf contain the full path of the value, which begins with the message `root`. Other texts contain
    only the names of the fields around the value, so the returned path consists of these names without list indices.
    """
    pattern = re.compile(rf' at "?{root}((?:\.\w+|\[\d+\])*)"?')
    found = pattern.search(text)
    field = found[1].lstrip(".") if found else ".".join(_OUTER_FIELD.findall(text))
    words = " ".join(_OUTER_FIELD.sub("", pattern.sub("", text)).split())
    if words.startswith("int() argument"):  # protobuf passes on this text of Python
        words = "an object or a list is not a number"
    if "expected string or bytes-like object" in words:
        words = "a list is not an object, and a number is not a text"
    return words[:_MAX_CHARACTERS].rstrip("."), field


def _reject_text(error: Exception, path: str) -> InvalidRequestError:
    cause = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).partition(";")[0]
    return _reject(f"{path} is not JSON: {cause}")


def _reject(text: str, field: str = "") -> InvalidRequestError:
    return InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text, field)


_DECODER = json.JSONDecoder(object_pairs_hook=_check_names)
