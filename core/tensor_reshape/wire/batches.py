"""Encodes and decodes batches of shape queries, one item at a time.

Invariants:

- If an item cannot be read or its result cannot be written, only that item is rejected.
- A batch is split into items before an item is parsed, so the parser never reads more than one item at a time.
"""

from collections.abc import Iterable, Iterator, Sequence

from tensor_reshape.rules.batches import BatchItem, ReportBug, reject_bug
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError, clip_metadata
from tensor_reshape.rules.limits import MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_HEADER_BYTES
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.fields import check_header_size, encode_field, parse_message, read_field
from tensor_reshape.wire.inference import (
    read_infer_request,
    read_infer_response,
    write_infer_request,
    write_infer_response,
)
from tensor_reshape.wire.json_messages import Json, describe_message
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE

_BATCHES = {
    "items": BATCH_INFER_SHAPE.request,
    "results": BATCH_INFER_SHAPE.response,
}  # each key is the name of the only field of the message
_ITEM_TAG = 0x0A  # field 1, bytes
_ITEM_BEGIN = bytes([_ITEM_TAG])


def encode_batch_item(item: BatchItem) -> bytes:
    """Returns one encoded item of a request.

    Raises:
        ValueError: a number does not fit into an s64.
    """
    message = reshape_pb2.BatchInferShapeItem(data_from=item.data_from)
    write_infer_request(message.question, item.request)
    return message.SerializeToString()


def decode_batch_request(raw: bytes) -> Sequence[bytes]:
    """Returns the items of a batch without parsing them.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
        LimitError: the reason is BATCH_TOO_LARGE.
    """
    if len(raw) > MAX_BATCH_BYTES:
        text = f"the batch has {len(raw)} bytes; at most {MAX_BATCH_BYTES} are allowed"
        raise LimitError.of(Reason.BATCH_TOO_LARGE, text, "items", size=len(raw), limit=MAX_BATCH_BYTES)
    items = _split(raw, MAX_BATCH_ITEMS, "items")
    if len(items) > MAX_BATCH_ITEMS:
        text = f"the batch has more than {MAX_BATCH_ITEMS} items"
        raise LimitError.of(Reason.BATCH_TOO_LARGE, text, "items", limit=MAX_BATCH_ITEMS)
    return items


def decode_batch_items(items: Iterable[bytes], report: ReportBug | None = None) -> Iterator[BatchItem | ReshapeError]:
    """Yields each item of a batch, or the error if the item cannot be read.

    The function `report` handles bugs, as in `answer_batch`.
    """
    for item in items:
        try:
            check_header_size(len(item))
            read: BatchItem | ReshapeError = read_batch_item(parse_message(reshape_pb2.BatchInferShapeItem, item))
        except ReshapeError as error:
            read = error
        except Exception as bug:  # noqa: BLE001 - a bug affects only one item
            read = reject_bug(bug, report)
        yield read
        del read  # otherwise, the error and this frame would refer to each other, and both would stay in memory


def _encode_overflow(max_bytes: int) -> bytes:
    text = "earlier results fill the response: send fewer queries in a batch"
    return encode_batch_result(LimitError.of(Reason.OUTPUT_TOO_LARGE, text, "items", limit=max_bytes))


def encode_batch_response(
    results: Iterable[ShapeAnswer | ReshapeError], max_bytes: int, report: ReportBug | None = None
) -> bytes:
    """Returns the response of a batch.

    If a result would make the total exceed `max_bytes`, an error replaces the result.

    Args:
        results: the results of a batch.
        max_bytes: the largest size of all results together.
        report: the function that handles bugs, as in `answer_batch`.
    """
    pieces, size, too_much = [], 0, b""
    for result in results:
        try:
            piece = encode_batch_result(result)
        except Exception as bug:  # noqa: BLE001 - a bug affects only one item
            piece = encode_batch_result(reject_bug(bug, report))
        if size + len(piece) > max_bytes:
            # The error is encoded only once, because tens of thousands of items of a batch may have this error.
            piece = too_much = too_much or _encode_overflow(max_bytes)
        pieces.append(piece)
        size += len(piece)
    return join_items(pieces)


def encode_batch_result(result: ShapeAnswer | ReshapeError) -> bytes:
    """Encodes one result of a batch, which is an output shape or an error."""
    if isinstance(result, ShapeAnswer):
        message = reshape_pb2.BatchInferShapeResult()
        write_infer_response(message.answer, result)
        return message.SerializeToString()
    return reshape_pb2.BatchInferShapeResult(rejection=build_rejection(result)).SerializeToString()


def build_rejection(error: ReshapeError) -> reshape_pb2.Rejection:
    """Returns the protobuf message for an error."""
    return reshape_pb2.Rejection(
        reason=error.reason,
        message=error.message,
        field=error.field,
        metadata=clip_metadata(error.metadata),
        limit_exceeded=isinstance(error, LimitError),
    )


def describe_rejection(error: ReshapeError) -> Json:
    """Returns the protobuf message for an error, converted to JSON."""
    return describe_message(build_rejection(error))


def decode_batch_response(raw: bytes) -> list[ShapeAnswer | ReshapeError]:
    """Reads the results of a batch from a response.

    Raises:
        ReshapeError: the response is invalid.
    """
    return [_decode_result(result) for result in _split(raw, len(raw), "results")]


def read_batch_item(message: reshape_pb2.BatchInferShapeItem) -> BatchItem:
    """Reads one parsed item of a request.

    Raises:
        InvalidRequestError: the item has no query or no data, or `read_infer_request` rejects the query.
    """
    if not message.HasField("question"):
        raise InvalidRequestError.of(Reason.FIELD_MISSING, "question is required", "question")
    request, linked = read_infer_request(message.question), message.HasField("data_from")
    if not linked and not message.question.HasField("data"):
        raise InvalidRequestError.of(Reason.FIELD_MISSING, "data is required if data_from is not set", "data")
    return BatchItem(request, message.data_from if linked else None)


def _decode_result(raw: bytes) -> ShapeAnswer | ReshapeError:
    message = parse_message(reshape_pb2.BatchInferShapeResult, raw)
    result = message.WhichOneof("result")
    if result is None:
        text = "a result is neither a response nor an error that this version knows"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text, "results")
    if result == "rejection":
        rejection = message.rejection
        kind: type[ReshapeError] = LimitError if rejection.limit_exceeded else InvalidRequestError
        if rejection.reason == Reason.INTERNAL_ERROR:
            kind = ReshapeError  # a bug in the server has caused the rejection
        return kind(
            rejection.message, reason=rejection.reason, field=rejection.field, metadata=dict(rejection.metadata)
        )
    return read_infer_response(message.answer)


def _split(raw: bytes, max_items: int, field_name: str) -> list[bytes]:
    """Splits a message into its items or results without parsing them, and stops after `max_items + 1` of them.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
        LimitError: the reason is BATCH_TOO_LARGE if more than `max_items` fields are not items.
    """
    # Unknown fields of the batch message are limited to `max_items` as well, because reading past two million small
    # fields would take seconds.
    items, position, others = list[bytes](), 0, 0
    while position < len(raw) and len(items) <= max_items:
        field = read_field(raw, position)
        if field is None or field[2] > len(raw):
            return _parse_whole(raw, field_name)
        tag, start, position = field
        if tag == _ITEM_TAG:
            items.append(raw[start:position])
        else:
            others += 1
            if others > max_items:
                text = f"the message has more than {max_items} fields other than `items`"
                raise LimitError.of(Reason.BATCH_TOO_LARGE, text, limit=max_items)
    return items


def _parse_whole(raw: bytes, field_name: str) -> list[bytes]:
    """Uses the generated class to split a message that contains a protobuf group or is malformed."""
    if len(raw) > MAX_HEADER_BYTES:
        text = "the message is not a batch, or contains a group and is above 64 KiB"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text)
    return [item.SerializeToString() for item in getattr(parse_message(_BATCHES[field_name], raw), field_name)]


def join_items(pieces: Sequence[bytes]) -> bytes:
    """Returns the message that contains these encoded items or results."""
    return b"".join([encode_field(_ITEM_BEGIN, piece) for piece in pieces])
