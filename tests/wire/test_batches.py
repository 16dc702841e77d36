"""Batches of questions: what is encoded is read back, and an item that cannot be read is refused alone."""

from typing import cast

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from dim_strategies import REQUESTS
from meters import measure_peak
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import ANY, Symbol, make_expression
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_HEADER_BYTES
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.rules.questions import Equality, Question, ShapeAnswer, ShapeRequest
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.batches import (
    decode_batch_items,
    decode_batch_request,
    decode_batch_response,
    encode_batch_item,
    encode_batch_response,
    join_items,
)
from tensor_reshape.wire.fields import encode_varint

MIB = 1 << 20
GOOD = BatchItem(ShapeRequest(Question(operation=STATIC_RESHAPE, data=[2, 3], target=[6], special_zero=False)))
LINKED = BatchItem(ShapeRequest(Question(operation=STATIC_RESHAPE, data=None, target=[3, 2], special_zero=False)), 0)
BATCH = join_items([encode_batch_item(GOOD), encode_batch_item(LINKED)])
EMPTY_ITEM = b"\x0a\x00"
ANSWER = ShapeAnswer((6,))
REFUSAL = InvalidRequestError.of(Reason.NOT_DIVISIBLE, "no", "shape[1]", index=1, data=(2, 3))

items = st.lists(st.builds(BatchItem, REQUESTS, st.none() | st.integers(-(2**31), 2**31 - 1)), max_size=3)


def encode_batch(batch: list[BatchItem]) -> bytes:
    return join_items([encode_batch_item(item) for item in batch])


def read(raw: bytes) -> list[BatchItem | ReshapeError]:
    return list(decode_batch_items(decode_batch_request(raw)))


def read_reasons(raw: bytes) -> list[str]:
    return [item.reason if isinstance(item, ReshapeError) else "" for item in read(raw)]


def wrap(content: bytes) -> bytes:
    return b"\x0a" + encode_varint(len(content)) + content


def refuse(raw: bytes) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        decode_batch_request(raw)
    return caught.value


def describe(result: ShapeAnswer | ReshapeError) -> tuple[object, ...]:
    if isinstance(result, ShapeAnswer):
        return tuple(result)
    return type(result), result.reason, result.message, result.field, result.metadata


@settings(deadline=None)
@given(items)
def test_a_batch_is_read_back(batch: list[BatchItem]):
    assert read(encode_batch(batch)) == batch


@settings(deadline=None)
@given(items)
def test_a_batch_is_what_the_generated_class_writes(batch: list[BatchItem]):
    raw = encode_batch(batch)
    assert reshape_pb2.BatchInferShapeRequest.FromString(raw).SerializeToString() == raw


def test_a_batch_without_items_is_empty():
    assert read(b"") == []


@pytest.mark.parametrize("broken", [b"\x0a", b"\x0a\x05abc", b"\x0a\x01\x08", b"\x00"], ids=bytes.hex)
def test_an_item_that_is_no_message_is_refused_alone(broken: bytes):
    assert read(BATCH + wrap(broken) + BATCH)[2].__class__ is InvalidRequestError
    assert read_reasons(BATCH + wrap(broken) + BATCH) == ["", "", Reason.MESSAGE_MALFORMED, "", ""]


def test_a_name_that_is_no_utf_8_is_refused_alone():
    named = tensor_pb2.Dim(symbol=tensor_pb2.Symbol(name="NNN"))
    spec = tensor_pb2.TensorSpec(shape=tensor_pb2.Shape(dims=[named]))
    item = reshape_pb2.BatchInferShapeItem(question=reshape_pb2.InferShapeRequest(data=spec))
    broken = item.SerializeToString().replace(b"NNN", b"\xff\xfe\xfd")
    assert read_reasons(wrap(broken) + BATCH) == [Reason.MESSAGE_MALFORMED, "", ""]


def test_an_item_above_64_kib_is_refused_alone():
    assert read_reasons(BATCH + wrap(bytes(MAX_HEADER_BYTES + 1)) + BATCH) == ["", "", Reason.HEAD_TOO_LARGE, "", ""]


def test_an_item_without_a_question_lacks_it():
    (error,) = read(EMPTY_ITEM)
    assert isinstance(error, ReshapeError)
    assert (error.reason, error.field) == (Reason.FIELD_MISSING, "question")


def test_an_item_needs_data_or_a_link():
    (error,) = read(wrap(b"\x0a\x02\x08\x01"))
    assert isinstance(error, ReshapeError)
    assert (error.reason, error.field) == (Reason.FIELD_MISSING, "data")


def test_a_link_to_item_0_is_not_an_absent_link():
    (first,) = read(wrap(b"\x0a\x02\x08\x01\x10\x00"))
    assert isinstance(first, BatchItem)
    assert first.data_from == 0


@pytest.mark.parametrize(
    "raw",
    [
        *[b"\x0a", b"\x0a\x05", b"\x0b", b"\x00", b"\x0a\xff\xff\xff\xff\xff\x7f"],
        *map(bytes.fromhex, ["888080801000", "888080801f01", "8a808080170a00", "babcfa807b00", "fdffffff4f271525b7"]),
    ],
    ids=bytes.hex,
)
def test_what_is_no_batch_is_malformed(raw: bytes):
    assert refuse(raw).reason == Reason.MESSAGE_MALFORMED


ITEM = BATCH[2 : 2 + BATCH[1]]
# Every encoding of the two items that protobuf allows a peer.
ODD = {
    "an unknown number in front": b"\xa8\x1f\x05" + BATCH,
    "an unknown text behind": BATCH + b"\xb2\x1f\x03abc",
    "an unknown group between": wrap(ITEM) + b"\x13\x08\x01\x14" + BATCH[2 + BATCH[1] :],
    "a tag that is too long": b"\x8a\x00" + BATCH[1:],
    "a length that is too long": b"\x0a" + bytes([BATCH[1] | 0x80, 0x00]) + BATCH[2:],
    "a length of five bytes": b"\x0a" + bytes([BATCH[1] | 0x80, 0x80, 0x80, 0x80, 0x00]) + BATCH[2:],
    "an unknown field in an item": wrap(ITEM + b"\xa8\x1f\x05") + BATCH[2 + BATCH[1] :],
    "field 1 of another type": b"\x08\x05" + BATCH,
}


@pytest.mark.parametrize("raw", ODD.values(), ids=ODD.keys())
def test_an_odd_encoding_is_read_as_the_generated_class_reads_it(raw: bytes):
    plain = reshape_pb2.BatchInferShapeRequest.FromString(raw)
    assert read(raw) == read(plain.SerializeToString()) == [GOOD, LINKED]


def test_an_item_whose_question_comes_in_two_pieces_is_one_item():
    question = reshape_pb2.BatchInferShapeItem.FromString(ITEM).question
    first = reshape_pb2.InferShapeRequest(operation=question.operation, special_zero=False)
    second = reshape_pb2.InferShapeRequest(data=question.data, shape=question.shape)
    assert read(wrap(wrap(first.SerializeToString()) + wrap(second.SerializeToString()))) == [GOOD]


@settings(deadline=None, max_examples=500)
@given(st.lists(st.sampled_from([*BATCH, 0x0A, 0x00, 0x08, 0x80, 0x8A, 0xFF, 0x12]), max_size=24).map(bytes))
def test_no_bytes_are_read_otherwise_than_by_the_generated_class(tail: bytes):
    raw = BATCH + tail
    try:
        plain = reshape_pb2.BatchInferShapeRequest.FromString(raw)
    except DecodeError:  # what is no batch may still be items of which one is refused
        return
    assert len(decode_batch_request(raw)) == len(plain.items)
    assert [describe_item(item) for item in read(raw)] == [
        describe_item(item) for item in read(plain.SerializeToString())
    ]


def describe_item(item: BatchItem | ReshapeError) -> object:
    return (item.reason, item.field) if isinstance(item, ReshapeError) else item


def test_a_batch_of_4_mib_is_taken():
    raw = wrap(bytes(MAX_BATCH_BYTES - 5))
    assert (len(raw), len(decode_batch_request(raw))) == (MAX_BATCH_BYTES, 1)


def test_a_batch_above_4_mib_is_too_large():
    error = refuse(bytes(MAX_BATCH_BYTES + 1))
    assert isinstance(error, LimitError)
    assert (error.reason, error.metadata["limit"]) == (Reason.BATCH_TOO_LARGE, str(MAX_BATCH_BYTES))


def test_a_batch_of_65536_items_is_taken():
    assert len(decode_batch_request(EMPTY_ITEM * MAX_BATCH_ITEMS)) == MAX_BATCH_ITEMS


@pytest.mark.parametrize("odd", [b"", b"\xa8\x1f\x05"], ids=["as usual", "behind an unknown field"])
def test_a_batch_of_one_item_more_is_too_large(odd: bytes):
    error = refuse(odd + EMPTY_ITEM * (MAX_BATCH_ITEMS + 1))
    assert isinstance(error, LimitError)
    assert (error.reason, error.metadata["limit"]) == (Reason.BATCH_TOO_LARGE, str(MAX_BATCH_ITEMS))


def test_two_million_empty_items_take_little_memory():
    raw = EMPTY_ITEM * (MAX_BATCH_BYTES // 2)
    assert measure_peak(lambda: refuse(raw)) < 16 * MIB


@pytest.mark.parametrize("result", [ANSWER, ShapeAnswer(None), ShapeAnswer(()), REFUSAL], ids=str)
def test_a_result_is_read_back(result: ShapeAnswer | ReshapeError):
    (twin,) = decode_batch_response(encode_batch_response([result], MIB))
    assert describe(twin) == describe(result)


def test_a_limit_that_was_exceeded_is_read_back_as_one():
    error = LimitError.of(Reason.RANK_LIMIT_EXCEEDED, "no", "shape", rank=65)
    (twin,) = decode_batch_response(encode_batch_response([error], MIB))
    assert describe(twin) == describe(error)


def test_results_keep_their_order():
    results: list[ShapeAnswer | ReshapeError] = [ANSWER, REFUSAL, ShapeAnswer((7,)), REFUSAL]
    assert list(map(describe, decode_batch_response(encode_batch_response(results, MIB)))) == list(
        map(describe, results)
    )


def test_a_response_is_what_the_generated_class_writes():
    raw = encode_batch_response([ANSWER, REFUSAL], MIB)
    message = reshape_pb2.BatchInferShapeResponse.FromString(raw)
    assert reshape_pb2.BatchInferShapeResponse.FromString(message.SerializeToString()) == message
    assert len(message.SerializeToString()) == len(raw)


def test_what_would_make_the_response_too_long_is_refused_instead():
    twins = decode_batch_response(encode_batch_response([ANSWER] * 3, 20))
    assert [isinstance(twin, LimitError) for twin in twins] == [False, False, True]


def test_a_refusal_for_the_length_of_the_response_names_the_limit():
    *_, twin = decode_batch_response(encode_batch_response([ANSWER] * 3, 20))
    assert isinstance(twin, LimitError)
    assert (twin.reason, twin.metadata["limit"]) == (Reason.OUTPUT_TOO_LARGE, "20")


def test_a_result_of_a_kind_to_come_is_not_taken_for_an_answer():
    later = reshape_pb2.BatchInferShapeResult.FromString(b"\x1a\x00")
    raw = reshape_pb2.BatchInferShapeResponse(results=[later]).SerializeToString()
    with pytest.raises(ReshapeError):
        decode_batch_response(raw)


def test_a_result_beside_an_unknown_group_is_the_same_result():
    terms = [make_expression(2, [Symbol("N", ANY)]), make_expression(3, [Symbol("M", ANY)])]
    equalities = (Equality(terms[0], terms[1], unless_empty=True), Equality(terms[1], terms[0], unless_empty=False))
    answer = ShapeAnswer((6,), equalities)
    raw = encode_batch_response([answer, REFUSAL], MIB)
    twins = decode_batch_response(b"\x13\x08\x01\x14" + raw)
    assert list(map(describe, twins)) == [describe(answer), describe(REFUSAL)]


def test_a_response_that_is_no_message_is_malformed():
    with pytest.raises(InvalidRequestError) as caught:
        decode_batch_response(b"\x0a\x05")
    assert caught.value.reason == Reason.MESSAGE_MALFORMED


UNSENDABLE = ShapeAnswer((2**64,))


def test_an_answer_that_cannot_be_encoded_is_refused_alone():
    bugs: list[Exception] = []
    results: list[ShapeAnswer | ReshapeError] = [ANSWER, UNSENDABLE, ANSWER]
    first, refused, last = decode_batch_response(encode_batch_response(results, MIB, bugs.append))
    assert describe(refused) == (ReshapeError, Reason.INTERNAL_ERROR, "internal error", "", {})
    assert (first, last, len(bugs)) == (ANSWER, ANSWER, 1)


def test_an_answer_that_cannot_be_encoded_is_raised_where_nobody_takes_bugs():
    with pytest.raises(ValueError, match="range"):
        encode_batch_response([UNSENDABLE], MIB)


def test_an_item_whose_reading_hits_a_bug_is_refused_alone():
    bugs: list[Exception] = []
    broken = cast("bytes", None)
    items = [encode_batch_item(GOOD), broken, encode_batch_item(GOOD)]
    first, refused, last = decode_batch_items(items, bugs.append)
    assert isinstance(refused, ReshapeError)
    assert (first, refused.reason, last, len(bugs)) == (GOOD, Reason.INTERNAL_ERROR, GOOD, 1)
