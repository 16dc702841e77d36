"""Batches round-trip, and an invalid item affects only itself."""

import gc
import weakref
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meters import measure_peak
from strategies import REQUESTS
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_HEADER_BYTES
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.rules.questions import Question, ShapeAnswer, ShapeRequest
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.batches import (
    decode_batch_items,
    decode_batch_request,
    decode_batch_response,
    describe_rejection,
    encode_batch_item,
    encode_batch_response,
    encode_batch_result,
    join_items,
)
from tensor_reshape.wire.fields import encode_varint
from tensor_reshape.wire.json_messages import Json

MIB = 1 << 20
GOOD = BatchItem(ShapeRequest(Question(operation=STATIC_RESHAPE, data=[2, 3], target=[6], special_zero=False)))
LINKED = BatchItem(ShapeRequest(Question(operation=STATIC_RESHAPE, data=None, target=[3, 2], special_zero=False)), 0)
BATCH = join_items([encode_batch_item(GOOD), encode_batch_item(LINKED)])
EMPTY_ITEM = b"\x0a\x00"
ANSWER = ShapeAnswer((6,))
REJECTION = InvalidRequestError.of(Reason.NOT_DIVISIBLE, "no", "shape[1]", index=1, data=(2, 3))

items = st.lists(st.builds(BatchItem, REQUESTS, st.none() | st.integers(-(2**31), 2**31 - 1)), max_size=3)


def encode_batch(batch: list[BatchItem]) -> bytes:
    return join_items([encode_batch_item(item) for item in batch])


def read(raw: bytes) -> list[BatchItem | ReshapeError]:
    return list(decode_batch_items(decode_batch_request(raw)))


def show(item: BatchItem | ReshapeError) -> object:
    return (item.reason, item.field) if isinstance(item, ReshapeError) else item


def wrap(content: bytes) -> bytes:
    return b"\x0a" + encode_varint(len(content)) + content


def reject(raw: bytes) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        decode_batch_request(raw)
    return caught.value


def describe(result: ShapeAnswer | ReshapeError) -> tuple[object, ...]:
    if isinstance(result, ShapeAnswer):
        return tuple(result)
    return type(result), result.reason, result.message, result.field, result.metadata


@given(items)
def test_batch_encoding_matches_the_protobuf_class(batch: list[BatchItem]):
    raw = encode_batch(batch)
    assert read(raw) == batch
    assert reshape_pb2.BatchInferShapeRequest.FromString(raw).SerializeToString() == raw


NAMED = tensor_pb2.TensorSpec(
    shape=tensor_pb2.Shape(dims=[-1], partial=[tensor_pb2.PartialDim(index=0, symbol=tensor_pb2.Symbol(name="NNN"))])
)
NO_UTF_8 = reshape_pb2.BatchInferShapeItem(question=reshape_pb2.InferShapeRequest(data=NAMED)).SerializeToString()
# the content of an item; its rejection as a single query
BROKEN: list[tuple[bytes, tuple[Reason, str]]] = [
    *((broken, (Reason.MESSAGE_MALFORMED, "")) for broken in (b"\x0a", b"\x0a\x05abc", b"\x0a\x01\x08", b"\x00")),
    (NO_UTF_8.replace(b"NNN", b"\xff\xfe\xfd"), (Reason.MESSAGE_MALFORMED, "")),
    (bytes(MAX_HEADER_BYTES + 1), (Reason.HEADER_TOO_LARGE, "")),
    (b"", (Reason.FIELD_MISSING, "question")),
    (b"\x0a\x02\x08\x01", (Reason.FIELD_MISSING, "data")),
]


def test_undecodable_batch_item_affects_only_itself():
    for content, rejection in BROKEN:
        found = list(map(show, read(BATCH + wrap(content) + BATCH)))
        assert found == [GOOD, LINKED, rejection, GOOD, LINKED], content[:20]


def test_bytes_that_are_not_a_batch_message_are_rejected():
    long_tags = ["888080801000", "888080801f01", "8a808080170a00", "babcfa807b00", "fdffffff4f271525b7"]
    short = [b"\x0a", b"\x0a\x05", b"\x0b", b"\x00", b"\x0a\xff\xff\xff\xff\xff\x7f"]
    for raw in (*short, *map(bytes.fromhex, long_tags)):
        assert reject(raw).reason == Reason.MESSAGE_MALFORMED, raw[:12].hex()


def test_group_in_a_batch_is_read_up_to_64_kib():
    size = MAX_HEADER_BYTES - 2
    assert len(decode_batch_request(b"\x13\x14" + EMPTY_ITEM * (size // 2))) == size // 2
    error = reject(b"\x13\x14" + EMPTY_ITEM * (size // 2) + b"\x10\x00")
    assert (error.reason, error.field) == (Reason.MESSAGE_MALFORMED, "")
    results = decode_batch_response(b"\x13\x14" + encode_batch_response([ANSWER, REJECTION], MIB))
    assert list(map(describe, results)) == [describe(ANSWER), describe(REJECTION)]


def test_rejection_is_described_with_the_names_of_the_message():
    described = {"reason": "NOT_DIVISIBLE", "message": "no", "field": "shape[1]"}
    assert describe_rejection(REJECTION) == {**described, "metadata": {"data": "[2, 3]", "index": "1"}}
    limited: Json = {"reason": "BATCH_TOO_LARGE", "message": "no", "limitExceeded": True}
    assert describe_rejection(LimitError.of(Reason.BATCH_TOO_LARGE, "no")) == limited


def test_error_of_a_batch_item_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        items = decode_batch_items([b"\xff"])
        error = weakref.ref(cast("ReshapeError", next(items)))
        assert next(items, None) is None
        assert error() is None
    finally:
        gc.enable()


def test_batch_requests_above_size_or_item_limits_are_rejected():
    assert read(b"") == []
    largest = wrap(bytes(MAX_BATCH_BYTES - 5))
    assert (len(largest), len(decode_batch_request(largest))) == (MAX_BATCH_BYTES, 1)
    assert len(decode_batch_request(EMPTY_ITEM * MAX_BATCH_ITEMS)) == MAX_BATCH_ITEMS
    above = EMPTY_ITEM * (MAX_BATCH_ITEMS + 1)
    others = b"\x10\x00" * MAX_BATCH_ITEMS
    assert len(decode_batch_request(others + EMPTY_ITEM)) == 1
    assert reject(bytes(MAX_BATCH_BYTES + 1)).metadata["size"] == str(MAX_BATCH_BYTES + 1)
    for raw, limit in (
        (bytes(MAX_BATCH_BYTES + 1), MAX_BATCH_BYTES),
        (above, MAX_BATCH_ITEMS),
        (b"\xa8\x1f\x05" + above, MAX_BATCH_ITEMS),  # after an unknown field
        (others + b"\x10\x00", MAX_BATCH_ITEMS),  # fields that are not items
    ):
        error = reject(raw)
        assert isinstance(error, LimitError)
        assert (error.reason, error.metadata["limit"]) == (Reason.BATCH_TOO_LARGE, str(limit))
    flood = EMPTY_ITEM * (MAX_BATCH_BYTES // 2)
    assert measure_peak(lambda: reject(flood)) < 16 * MIB


def test_batch_results_are_decoded_in_their_order():
    limit = LimitError.of(Reason.RANK_LIMIT_EXCEEDED, "no", "shape", rank=65)
    results: list[ShapeAnswer | ReshapeError] = [
        ANSWER,
        REJECTION,
        ShapeAnswer(None),
        ShapeAnswer(None, conditions_complete=False),
        limit,
        ShapeAnswer(()),
        REJECTION,
    ]
    raw = encode_batch_response(results, MIB)
    assert list(map(describe, decode_batch_response(raw))) == list(map(describe, results))
    message = reshape_pb2.BatchInferShapeResponse.FromString(raw)
    assert reshape_pb2.BatchInferShapeResponse.FromString(message.SerializeToString()) == message
    assert len(message.SerializeToString()) == len(raw)


def test_oversized_batch_response_contains_errors():
    size = len(encode_batch_result(ANSWER))
    for most, count in ((3 * size, 3), (3 * size - 1, 2), (2 * size, 2), (2 * size - 1, 1), (size - 1, 0)):
        results = decode_batch_response(encode_batch_response([ANSWER] * 3, most))
        assert results[:count] == [ANSWER] * count
        for rejected in results[count:]:
            assert isinstance(rejected, LimitError)
            assert (rejected.reason, rejected.field, rejected.metadata) == (
                *(Reason.OUTPUT_TOO_LARGE, "items", {"limit": str(most)}),
            )


def test_unencodable_batch_result_affects_only_its_item():
    bugs: list[Exception] = []
    unsendable = ShapeAnswer((2**64,))
    results: list[ShapeAnswer | ReshapeError] = [ANSWER, unsendable, ANSWER]
    first, rejected, last = decode_batch_response(encode_batch_response(results, MIB, bugs.append))
    assert describe(rejected) == (ReshapeError, Reason.INTERNAL_ERROR, "internal error", "", {})
    assert (first, last, len(bugs)) == (ANSWER, ANSWER, 1)
    with pytest.raises(ValueError, match="range"):
        encode_batch_response([unsendable], MIB)


def test_exception_in_a_batch_item_affects_only_that_item():
    bugs: list[Exception] = []
    items = [encode_batch_item(GOOD), cast("bytes", None), encode_batch_item(GOOD)]
    first, rejected, last = decode_batch_items(items, bugs.append)
    assert isinstance(rejected, ReshapeError)
    assert (first, rejected.reason, last, len(bugs)) == (GOOD, Reason.INTERNAL_ERROR, GOOD, 1)
