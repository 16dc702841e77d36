"""InferShape and BatchInferShape over serialized messages: what is answered at once, and what is given up."""

import pytest

from tensor_reshape.client.shapes import ShapeQuery, read_query
from tensor_reshape.core.errors import LimitError
from tensor_reshape.core.limits import DEFAULT_LIMITS
from tensor_reshape.server.service import ReshapeService
from tensor_reshape.wire.batches import decode_batch_response, encode_batch_item, join_items
from tensor_reshape.wire.inference import build_infer_request

PLAIN = ShapeQuery(data_shape=["N", 12, 64], shape=[0, -1], special_zero=True)
KNOWN = ShapeQuery(data_shape=[2, 3], shape=[4, -1], special_zero=True)
SEARCHED = ShapeQuery(data_shape=[(0, 9), (0, 9)], shape=[None, 7, (2, 5)], special_zero=True)


@pytest.fixture
def service() -> ReshapeService:
    return ReshapeService(DEFAULT_LIMITS)


def build_request(query: ShapeQuery) -> bytes:
    return build_infer_request(read_query(query).request).SerializeToString()


def build_batch(queries: list[ShapeQuery]) -> bytes:
    return join_items([encode_batch_item(read_query(query)) for query in queries])


def test_a_plain_question_is_answered_at_once(service: ReshapeService):
    assert service.infer_light(build_request(PLAIN)) == service.infer(build_request(PLAIN))


def test_a_known_question_is_refused_at_once(service: ReshapeService):
    with pytest.raises(ValueError, match="divide"):
        service.infer_light(build_request(KNOWN))


def test_a_question_that_takes_a_search_is_left_to_a_thread(service: ReshapeService):
    assert service.infer_light(build_request(SEARCHED)) is None


def test_an_answer_that_is_known_is_given_at_once(service: ReshapeService):
    answer = service.infer(build_request(SEARCHED))
    assert service.infer_light(build_request(SEARCHED)) == answer


def test_a_batch_that_nobody_waits_for_is_given_up(service: ReshapeService):
    polls = iter([False, False, True])
    with pytest.raises(LimitError):
        service.infer_batch(build_batch([PLAIN] * 9), lambda: next(polls))


def test_a_batch_that_is_waited_for_is_answered_whole(service: ReshapeService):
    answers = decode_batch_response(service.infer_batch(build_batch([PLAIN, KNOWN, SEARCHED])))
    assert [isinstance(answer, ValueError) for answer in answers] == [False, True, False]
