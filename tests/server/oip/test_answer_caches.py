"""Answers are found by all of a request but its elements and its id."""

import pytest

from tensor_reshape.server.oip.answer_caches import AnswerCache, Spans
from tensor_reshape.server.service.header_cache import MAX_CACHED_HEADER_BYTES, MAX_CACHED_HEADERS

ID = b"\x1a\x02ab"
REQUEST = b"head" + ID + b":" + b"elements" + b"tail"
SPANS = Spans(4, 8, 9, 4)


def fill() -> AnswerCache:
    cache = AnswerCache()
    cache.add(REQUEST, SPANS, b"answer", "reshape")
    return cache


def test_an_answer_is_found_for_other_elements_and_another_id():
    hit = fill().find(b"head" + b"\x1a\x02cd" + b":" + b"ELEMENTS" + b"tail")
    assert hit is not None
    assert (hit.header, bytes(hit.payload), hit.model) == (b"\x1a\x02cdanswer", b"ELEMENTS", "reshape")


@pytest.mark.parametrize(
    ("request_", "spans"),
    [
        (b"HEAD" + ID + b":elementstail", SPANS),
        (b"head" + ID + b":elementsTAIL", SPANS),
        (b"head" + ID + b":elementtail", SPANS),
        (b"head" + b"\x22\x02ab" + b":elementstail", SPANS),
        (b"head" + b"\x1a\x03ab" + b":elementstail", SPANS),
        (b"head" + b"\x1a\x02a\xff" + b":elementstail", SPANS),
        (b"head:elementstail", SPANS),
        (b"", SPANS),
    ],
    ids=["head", "tail", "length", "no id", "another length of the id", "not ASCII", "without id", "nothing"],
)
def test_nothing_is_found_for_what_differs_elsewhere(request_: bytes, spans: Spans):
    assert fill().find(request_, spans) is None


LONGER = b"head" + b"\x1a\x03abc" + b":elementstail"
LONGER_SPANS = Spans(4, 9, 10, 4)


def test_an_id_of_another_length_is_found_where_it_is_said_to_lie():
    hit = fill().find(LONGER, LONGER_SPANS)
    assert hit is not None
    assert hit.header == b"\x1a\x03abcanswer"


@pytest.mark.parametrize(
    ("request_", "spans"),
    [(b"he" + ID + b"ad:elementstail", Spans(2, 6, 9, 4)), (b"head:elementstail", Spans(0, 0, 5, 4))],
    ids=["elsewhere", "absent"],
)
def test_an_id_is_found_in_its_place_alone(request_: bytes, spans: Spans):
    assert fill().find(request_, spans) is None


def test_the_last_place_is_guessed():
    cache = fill()
    cache.find(LONGER, LONGER_SPANS)
    assert cache.find(LONGER) is not None
    assert cache.find(REQUEST) is None


def test_what_is_long_around_its_elements_is_not_kept():
    cache, request = AnswerCache(), bytes(MAX_CACHED_HEADER_BYTES + 1)
    cache.add(request, Spans(0, 0, len(request), 0), b"", "reshape")
    assert cache.find(request) is None


def test_no_more_than_so_many_are_kept():
    cache = AnswerCache()
    for number in range(MAX_CACHED_HEADERS + 1):
        cache.add(number.to_bytes(4, "big"), Spans(0, 0, 4, 0), b"", "reshape")
    assert cache.find(bytes(4)) is None
    assert cache.find(MAX_CACHED_HEADERS.to_bytes(4, "big")) is not None
