"""The position of raw contents in a message, and cached responses for other elements and another id."""

import pytest

from inference_requests import SIX, build_request
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, Limits
from tensor_reshape.server.oip.raw_contents import (
    MAX_FIELDS,
    ResponseCache,
    Spans,
    Split,
    find_header_limit,
    split_message,
)
from tensor_reshape.server.service.header_cache import MAX_CACHED_HEADER_BYTES

RAW = build_request(id="seven").SerializeToString()
ID = b"\x1a\x02ab"
REQUEST = b"head" + ID + b":elementstail"
SPANS = Spans(4, 8, 9, 4)
LONGER = b"head" + b"\x1a\x03abc" + b":elementstail"
LONGER_SPANS = Spans(4, 9, 10, 4)


def split(raw: bytes) -> Split:
    found = split_message(raw, MAX_HEADER_BYTES)
    assert found is not None
    return found


def test_split_message_separates_raw_contents_from_the_inference_header():
    raw = RAW + b"\x3a\x00" + b"\x12\x011"
    found = split(raw)
    assert [raw[begin:end] for begin, end in found.raw_contents] == [SIX, b""]
    assert found.header == RAW[: -len(SIX) - 2] + b"\x12\x011"
    assert [raw[begin:end] for begin, end in found.ids] == [b"\x1a\x05seven"]


def test_longest_raw_contents_are_taken_as_the_tensor_data():
    begin, id_begin = RAW.index(SIX), RAW.index(b"\x1a")
    assert split(RAW + b"\x3a\x01x").find_spans() == Spans(id_begin, id_begin + 7, begin, 3)


def test_inference_request_with_two_ids_is_not_cacheable():
    assert split(RAW + b"\x1a\x01x").find_spans() is None


def test_inference_cache_key_without_data_excludes_only_the_id():
    query = RAW.replace(b"reshape", b"infer_shape").replace(b"\x0a\x07infer", b"\x0a\x0binfer")
    id_begin = query.index(b"\x1a")
    assert split(query).find_spans() == Spans(id_begin, id_begin + 7, len(query), 0)
    assert split(b"\x12\x011").find_spans() == Spans(0, 0, 3, 0)
    assert split(query + b"\x1a\x01x").find_spans() is None


def test_large_header_is_not_searched_in_the_cache():
    assert split(RAW + b"\x12\x7f" + bytes(127)).find_spans() is not None
    assert split(RAW + (b"\x12\x7f" + bytes(127)) * 16).find_spans() is None


def test_last_model_name_in_an_inference_message_applies():
    assert [split(raw).model_name for raw in (RAW, RAW + b"\x0a\x03abc", b"")] == [b"reshape", b"abc", b""]


def test_unusual_inference_encodings_are_parsed_by_the_protobuf_class():
    odd = {"group": b"\x3b\x3c", "short": b"\x3a\x05abc", "long": b"\x3a\xff\xff\xff\xff\xff\x01", "tag": b"\x00\x00"}
    assert [name for name, more in odd.items() if split_message(RAW + more, MAX_HEADER_BYTES) is not None] == []


def test_inference_message_bytes_outside_raw_contents_are_limited():
    with pytest.raises(LimitError) as caught:
        split_message(b"\x0a\x7f" + bytes(127), 100)
    assert caught.value.reason is Reason.HEADER_TOO_LARGE
    assert split_message(b"\x3a\x7f" + bytes(127), 100) is not None


def test_number_of_fields_of_an_inference_message_is_limited():
    assert split_message(b"\x3a\x00" * MAX_FIELDS, MAX_HEADER_BYTES) is not None
    with pytest.raises(LimitError):
        split_message(b"\x3a\x00" * (MAX_FIELDS + 1), MAX_HEADER_BYTES)


def test_inference_header_limit_is_proportional_to_the_output_limit():
    assert find_header_limit(Limits(max_output_bytes=2**24)) == 2**18
    assert find_header_limit(Limits(max_output_bytes=2**10)) == MAX_HEADER_BYTES


def fill() -> ResponseCache:
    cache = ResponseCache()
    cache.add(REQUEST, SPANS, b"response", "reshape")
    return cache


def test_inference_cache_ignores_tensor_data_and_request_id():
    hit = fill().find(b"head" + b"\x1a\x02cd" + b":" + b"ELEMENTS" + b"tail")
    assert hit is not None
    assert (hit.header, bytes(hit.payload), hit.model) == (b"\x1a\x02cdresponse", b"ELEMENTS", "reshape")


def test_inference_cache_misses_for_a_different_request_header():
    others = {
        "head": (b"HEAD" + ID + b":elementstail", SPANS),
        "tail": (b"head" + ID + b":elementsTAIL", SPANS),
        "length": (b"head" + ID + b":elementtail", SPANS),
        "no id": (b"head" + b"\x22\x02ab" + b":elementstail", SPANS),
        "another length of the id": (b"head" + b"\x1a\x03ab" + b":elementstail", SPANS),
        "not ASCII": (b"head" + b"\x1a\x02a\xff" + b":elementstail", SPANS),
        "without id": (b"head:elementstail", SPANS),
        "nothing": (b"", SPANS),
        "id elsewhere": (b"he" + ID + b"ad:elementstail", Spans(2, 6, 9, 4)),
        "id absent": (b"head:elementstail", Spans(0, 0, 5, 4)),
    }
    assert [name for name, (request, spans) in others.items() if fill().find(request, spans) is not None] == []


def test_inference_cache_accepts_request_ids_of_another_length():
    cache = fill()
    hit = cache.find(LONGER, LONGER_SPANS)
    assert hit is not None
    assert hit.header == b"\x1a\x03abcresponse"
    assert cache.find(LONGER) is not None
    assert cache.find(REQUEST) is None


def test_inference_cache_skips_large_headers():
    cache, request = ResponseCache(), bytes(MAX_CACHED_HEADER_BYTES + 1)
    cache.add(request, Spans(0, 0, len(request), 0), b"", "reshape")
    assert cache.find(request) is None


def test_inference_cache_finds_responses_without_data_for_another_id():
    cache, request = ResponseCache(), b"head" + ID + b"rest"
    cache.add(request, Spans(4, 8, len(request), 0), b"response", "infer_shape")
    hit = cache.find(b"head\x1a\x02cdrest")
    assert hit is not None
    assert (hit.header, bytes(hit.payload), hit.model) == (b"\x1a\x02cdresponse", b"", "infer_shape")
    assert cache.find(b"head\x1a\x02cdREST") is None
