"""A cached response is used for requests that differ only in their elements and their id."""

from tensor_reshape.server.oip.raw_contents import ResponseCache, Spans
from tensor_reshape.server.service.header_cache import MAX_CACHED_HEADER_BYTES

ID = b"\x1a\x02ab"
REQUEST = b"head" + ID + b":elementstail"
SPANS = Spans(4, 8, 9, 4)
LONGER = b"head" + b"\x1a\x03abc" + b":elementstail"
LONGER_SPANS = Spans(4, 9, 10, 4)


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
