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

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from tensor_reshape.rules.batches import ReportBug
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_BATCH_ITEMS
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.server.service.encoded_queries import EncodedQueries
from tensor_reshape.server.service.method_tables import IsOver, Method
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.service.works import Work, always
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.batches import decode_batch_items, encode_batch_result, write_batch_results
from tensor_reshape.wire.inference import build_infer_response, read_question
from tensor_reshape.wire.json_messages import (
    DECODER,
    Json,
    parse_json,
    read_message,
    reject_json,
    reject_text,
    write_message,
)
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE

MAX_QUESTION_BYTES = 64 * 1024
"""Maximum size of a query in bytes. The JSON of a valid query of rank 64 is smaller than 20 KiB."""

MAX_BATCH_BYTES = 1024 * 1024
"""Maximum size of a batch in bytes.

The server needs as much time for a JSON batch of this size as for the largest protobuf batch.
"""

# Most batch items have fewer characters than this. The JSON scanner first gets a copy of this length, because copying
# 64 KiB for each short item would take longer.
_USUAL_CHARACTERS = 1024
_ITEMS = "items"
_BLANK = r"[ \t\n\r]*"
_BEGIN = re.compile(rf'{_BLANK}{{{_BLANK}"{_ITEMS}"{_BLANK}:{_BLANK}\[')
_FIRST, _NEXT = re.compile(_BLANK), re.compile(rf"{_BLANK},{_BLANK}")
_END = re.compile(rf"{_BLANK}\]{_BLANK}}}{_BLANK}")


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


def parse_body(body: bytes) -> Json:
    """Returns the JSON object in a body.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    return parse_json(_decode(body))


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
        raise reject_json(problem)
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
            raise reject_json(problem)
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
            value, end = DECODER.raw_decode(text[position : position + characters])
        # the error may only mean that the JSON value is longer than this part of the text
        except (ValueError, RecursionError) as error:
            problem = error
        else:
            return value, position + end
    if position + MAX_QUESTION_BYTES < len(text) and not isinstance(problem, RecursionError):
        text = f"{path} is not JSON, or has more than {MAX_QUESTION_BYTES} characters"
        raise reject_json(text, path)
    raise reject_text(problem, path)


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        problem = f"the body is not UTF-8 at byte {error.start}"
        raise reject_json(problem) from None
