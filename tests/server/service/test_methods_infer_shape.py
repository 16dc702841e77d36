"""Single queries: short ones have a result at once, and results are cached by the bytes of the query."""

import pytest

from tensor_reshape.client.queries import ShapeQuery, read_query
from tensor_reshape.rules.limits import DEFAULT_LIMITS, LIGHT_HEADER_BYTES
from tensor_reshape.rules.questions import ShapeRequest
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.wire import inference

QUERIES = {
    b"plain": ShapeQuery(data_shape=["N", 12, 64], shape=[0, -1], special_zero=True),
    b"rejected": ShapeQuery(data_shape=[2, 3], shape=[4, -1], special_zero=True),
    b"searched": ShapeQuery(data_shape=[(0, 9), (0, 9)], shape=[None, 7, (2, 5)], special_zero=True),
}


class Asked(ReshapeService):
    """A service of the queries above.

    Attributes:
        read: the names that were decoded, in this order.
    """

    def __init__(self) -> None:
        super().__init__(DEFAULT_LIMITS)
        self.read: list[bytes] = []

    def decode(self, raw: bytes) -> ShapeRequest:
        self.read.append(raw)
        return read_query(QUERIES[raw.strip()]).request


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    service = Asked()
    monkeypatch.setattr(inference, "decode_infer_request", service.decode)
    monkeypatch.setattr(inference, "encode_infer_response", lambda answer: str(answer.dims).encode())
    return service


def test_query_result_is_equal_on_the_receiving_and_worker_threads(asked: Asked):
    assert asked.infer_shape_light(b"plain") == ReshapeService(DEFAULT_LIMITS).infer_shape(b"plain")


def test_repeated_query_is_answered_without_decoding(asked: Asked):
    for ask in (asked.infer_shape_light, asked.infer_shape):
        assert ask(b"plain") == ask(b"plain")
    assert asked.read == [b"plain"]
    assert (asked.lookups.misses, asked.lookups.hits) == (1, 3)


def test_ten_thousand_query_results_are_cached(asked: Asked, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference, "decode_infer_request", lambda _: asked.decode(b"plain"))
    monkeypatch.setattr(inference, "encode_infer_response", lambda _: bytes(40))
    for _ in range(2):
        for number in range(10_000):
            asked.infer_shape(number.to_bytes(60))
    assert (asked.lookups.misses, asked.lookups.hits) == (10_000, 10_000)


def test_query_error_is_not_cached(asked: Asked):
    for ask in (asked.infer_shape_light, asked.infer_shape_light, asked.infer_shape):
        with pytest.raises(ValueError, match="divisible"):
            ask(b"rejected")
    assert asked.read == [b"rejected"] * 3


def test_query_that_needs_a_search_runs_on_a_thread(asked: Asked):
    assert asked.infer_shape_light(b"searched") is None
    result = asked.infer_shape(b"searched")
    assert asked.infer_shape_light(b"searched") == result


def test_long_query_is_passed_to_a_thread_undecoded(asked: Asked):
    assert asked.infer_shape_light(b"plain".ljust(LIGHT_HEADER_BYTES + 1)) is None
    assert asked.read == []
