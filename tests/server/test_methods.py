"""InferShape and BatchInferShape over serialized messages: what is answered at once, and what is given up."""

import logging
from collections.abc import Callable

import pytest

from tensor_reshape.client.queries import ShapeQuery, read_query
from tensor_reshape.rules import batches
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.server.service.methods import ReshapeService
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
    found = decode_batch_response(service.infer_batch(build_batch([PLAIN, KNOWN, SEARCHED])))
    assert [isinstance(answer, ValueError) for answer in found] == [False, True, False]


def find_what_cannot_be_sent(*_: object) -> ShapeAnswer:
    return ShapeAnswer((2**64,))


def find_a_bug(*_: object) -> ShapeAnswer:
    message = "a secret"
    raise RuntimeError(message)


@pytest.mark.parametrize("bug", [find_what_cannot_be_sent, find_a_bug], ids=lambda bug: bug.__name__)
def test_a_batch_of_bugs_is_refused_item_by_item_and_logged_once(
    service: ReshapeService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bug: Callable[..., ShapeAnswer],
):
    monkeypatch.setattr(batches, "answer_question", bug)
    with caplog.at_level(logging.ERROR):
        found = decode_batch_response(service.infer_batch(build_batch([PLAIN, KNOWN])))
    refusals = [(answer.reason, answer.message) for answer in found if isinstance(answer, ReshapeError)]
    assert refusals == [(Reason.INTERNAL_ERROR, "internal error")] * 2
    assert [(record.message, record.exc_info is not None) for record in caplog.records] == [("bug", True)]
