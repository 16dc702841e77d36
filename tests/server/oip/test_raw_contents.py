"""Where raw contents are found, and what is not looked for."""

import pytest

from inference_requests import SIX, build_request
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, Limits
from tensor_reshape.server.oip.answer_caches import Spans
from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.server.oip.raw_contents import (
    MAX_FIELDS,
    check_parsable,
    find_header_limit,
    read_outline,
    split_message,
)
from tensor_reshape.wire.fields import parse_message

RAW = build_request(id="seven").SerializeToString()


def test_a_message_is_cut_around_its_raw_contents():
    split = split_message(RAW + b"\x3a\x00" + b"\x12\x011", MAX_HEADER_BYTES)
    assert split is not None
    assert [(RAW + b"\x3a\x00")[begin:end] for begin, end in split.raw_contents] == [SIX, b""]
    assert split.header == RAW[: -len(SIX) - 2] + b"\x12\x011"
    assert [RAW[begin:end] for begin, end in split.ids] == [b"\x1a\x05seven"]


def test_the_elements_are_the_longest_of_the_raw_contents():
    split = split_message(RAW + b"\x3a\x01x", MAX_HEADER_BYTES)
    assert split is not None
    begin = RAW.index(SIX)
    assert split.find_spans() == Spans(RAW.index(b"\x1a"), RAW.index(b"\x1a") + 7, begin, 3)


@pytest.mark.parametrize("more", [b"\x1a\x01x", b""], ids=["two ids", "no raw contents"])
def test_without_one_place_for_each_nothing_is_guessed(more: bytes):
    split = split_message(RAW + more if more else b"\x1a\x01x", MAX_HEADER_BYTES)
    assert split is not None
    assert split.find_spans() is None


@pytest.mark.parametrize("name", [b"", b"reshape", b"infer_shape"])
def test_the_last_name_of_a_model_counts(name: bytes):
    raw = RAW + b"\x0a" + bytes((len(name),)) + name
    parsed: InferMessage = parse_message(find_class("ModelInferRequest"), raw)
    outline = read_outline(raw, 100)
    assert outline is not None
    assert outline.model_name == name == parsed.model_name.encode()


@pytest.mark.parametrize("raw", [RAW + b"\x3b\x3c", b"\x3a\x00" * 101], ids=["group", "many fields"])
def test_nothing_is_told_of_what_is_not_understood(raw: bytes):
    assert read_outline(raw, 100) is None


@pytest.mark.parametrize(
    "odd",
    [b"\x3b\x3c", b"\x3a\x05abc", b"\x3a\xff\xff\xff\xff\xff\x01", b"\x00\x00"],
    ids=["group", "short", "long", "tag"],
)
def test_what_is_not_understood_is_left_to_the_generated_class(odd: bytes):
    assert split_message(RAW + odd, MAX_HEADER_BYTES) is None


def test_more_than_so_many_bytes_besides_raw_contents_are_refused():
    with pytest.raises(LimitError) as caught:
        split_message(b"\x0a\x7f" + bytes(127), 100)
    assert caught.value.reason is Reason.HEAD_TOO_LARGE
    assert split_message(b"\x3a\x7f" + bytes(127), 100) is not None


def test_more_than_so_many_fields_are_refused():
    assert split_message(b"\x3a\x00" * MAX_FIELDS, MAX_HEADER_BYTES) is not None
    with pytest.raises(LimitError):
        split_message(b"\x3a\x00" * (MAX_FIELDS + 1), MAX_HEADER_BYTES)


def test_numbers_may_take_a_share_of_the_largest_message():
    assert find_header_limit(Limits(max_output_bytes=2**24)) == 2**18
    assert find_header_limit(Limits(max_output_bytes=2**10)) == MAX_HEADER_BYTES


def test_a_long_message_is_not_parsed_whole():
    assert check_parsable(b"abc", 3) == b"abc"
    with pytest.raises(InvalidRequestError) as caught:
        check_parsable(b"abcd", 3)
    assert caught.value.reason is Reason.MESSAGE_MALFORMED
