"""The explorer's answers as a method: a query in, JSON out."""

import json

import pytest

from explorations import LISTEN, SERVICE
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.http.explorer.methods import build_explorer_method
from tensor_reshape.server.service.methods import Work
from tensor_reshape.wire.methods import INFER_SHAPE

INFER = next(method for method in SERVICE.methods.unary if method.name == INFER_SHAPE.path)
METHOD = build_explorer_method(INFER, LISTEN)
QUERY = b"data=2,3,4&shape=0,-1&special_zero=true"


def test_it_is_named_and_limited_as_infer_shape():
    assert METHOD.name == INFER_SHAPE.path
    assert METHOD.find_work(QUERY) is Work.QUESTIONS


def test_what_is_behind_the_question_mark_is_answered_in_json():
    assert json.loads(METHOD.answer(QUERY, lambda: False))["answer"]["text"] == "[2, 12]"


def test_it_is_left_to_a_thread():
    assert METHOD.answer_light(QUERY) is None


def test_a_question_for_which_nobody_waits_is_not_answered():
    with pytest.raises(LimitError) as caught:
        METHOD.answer(b"data=N,7&shape=M,K&special_zero=true", lambda: True)
    assert caught.value.reason == Reason.STALLED
