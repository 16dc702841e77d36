"""The answers of fakes, as bytes: `test_fakes` holds them beside those of real servers."""

import pytest

from tensor_reshape.client import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES
from tensor_reshape.testing.answers import INFO, answer, answer_stream
from tensor_reshape.wire.methods import INFER_SHAPE, SERVER_INFO
from tensor_reshape.wire.servers import decode_server_info
from tensor_reshape.wire.streams import encode_chunk


def test_a_request_is_answered_by_the_method_of_its_path():
    assert decode_server_info(answer(SERVER_INFO.path, b"")) == INFO


def test_what_cannot_be_read_is_refused_as_by_a_server():
    with pytest.raises(InvalidRequestError) as caught:
        answer(INFER_SHAPE.path, b"\xff")
    assert caught.value.reason is Reason.MESSAGE_MALFORMED


def test_a_request_above_the_default_limit_is_refused():
    with pytest.raises(LimitError) as caught:
        answer(INFER_SHAPE.path, bytes(MAX_MESSAGE_BYTES + 1))
    assert (caught.value.reason, caught.value.field) == (Reason.MESSAGE_TOO_LARGE, "data")


def test_the_elements_of_a_stream_come_back_as_they_went():
    chunk = encode_chunk(0, memoryview(b"abc"))
    assert list(answer_stream(iter([chunk]))) == [chunk]
