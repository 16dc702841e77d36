"""Queries in one encoding: short ones have a result at once, and results are cached by the bytes of the query."""

import pytest

from tensor_reshape.client.queries import ShapeQuery, read_query
from tensor_reshape.rules.limits import DEFAULT_LIMITS, LIGHT_HEADER_BYTES
from tensor_reshape.rules.questions import ShapeRequest
from tensor_reshape.server.service.encoded_queries import MAX_CACHED_RESULT_BYTES, EncodedQueries
from tensor_reshape.server.service.methods import ReshapeService

QUERIES = {
    b"plain": ShapeQuery(data_shape=["N", 12, 64], shape=[0, -1], special_zero=True),
    b"rejected": ShapeQuery(data_shape=[2, 3], shape=[4, -1], special_zero=True),
    b"searched": ShapeQuery(data_shape=[(0, 9), (0, 9)], shape=[None, 7, (2, 5)], special_zero=True),
}


class Asked:
    """A service of the queries above."""

    def __init__(self) -> None:
        self.service = ReshapeService(DEFAULT_LIMITS)
        # executes them
        self.queries = EncodedQueries(self.service, self._read, lambda answer: str(answer.dims).encode())
        self.read: list[bytes] = []  # the names that were decoded, in this order

    def _read(self, raw: bytes) -> ShapeRequest:
        self.read.append(raw)
        return read_query(QUERIES[raw.strip()]).request


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_query_result_is_equal_on_the_receiving_and_worker_threads(asked: Asked):
    assert asked.queries.respond_light(b"plain") == Asked().queries.respond(b"plain")


def test_repeated_query_is_answered_without_decoding(asked: Asked):
    for ask in (asked.queries.respond_light, asked.queries.respond):
        assert ask(b"plain") == ask(b"plain")
    assert asked.read == [b"plain"]
    assert (asked.service.lookups.misses, asked.service.lookups.hits) == (1, 3)


def test_ten_thousand_query_results_are_cached():
    service = ReshapeService(DEFAULT_LIMITS)
    queries = EncodedQueries(service, lambda _: read_query(QUERIES[b"plain"]).request, lambda _: bytes(40))
    for _ in range(2):
        for number in range(10_000):
            queries.respond(number.to_bytes(60))
    assert (service.lookups.misses, service.lookups.hits) == (10_000, 10_000)


def test_query_error_is_not_cached(asked: Asked):
    for ask in (asked.queries.respond_light, asked.queries.respond_light, asked.queries.respond):
        with pytest.raises(ValueError, match="divisible"):
            ask(b"rejected")
    assert asked.read == [b"rejected"] * 3


def test_query_that_needs_a_search_runs_on_a_thread(asked: Asked):
    assert asked.queries.respond_light(b"searched") is None
    result = asked.queries.respond(b"searched")
    assert asked.queries.respond_light(b"searched") == result


def test_long_query_is_passed_to_a_thread_undecoded(asked: Asked):
    assert asked.queries.respond_light(b"plain".ljust(LIGHT_HEADER_BYTES + 1)) is None
    assert asked.read == []


def test_result_of_a_long_query_is_not_cached(asked: Asked):
    size = MAX_CACHED_RESULT_BYTES - len(asked.queries.respond(b"plain"))
    for raw, reads in ((b"plain".ljust(size), 1), (b"plain".ljust(size + 1), 2)):
        asked.read.clear()
        assert asked.queries.respond(raw) == asked.queries.respond(raw)
        assert len(asked.read) == reads
