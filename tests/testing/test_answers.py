"""The answers of fakes, as bytes: `test_fakes` compares them with those of real servers."""

import pytest

from tensor_reshape.client import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES
from tensor_reshape.testing.answers import INFO, answer, answer_stream
from tensor_reshape.wire.methods import INFER_SHAPE, SERVER_INFO
from tensor_reshape.wire.servers import decode_server_info
from tensor_reshape.wire.streams import encode_chunk


def test_a_request_is_answered_by_the_method_of_its_path():
    assert decode_server_info(answer(SERVER_INFO.path, b"")) == INFO


def test_a_request_that_a_server_refuses_is_refused():
    with pytest.raises(InvalidRequestError) as malformed:
        answer(INFER_SHAPE.path, b"\xff")
    with pytest.raises(LimitError) as large:
        answer(INFER_SHAPE.path, bytes(MAX_MESSAGE_BYTES + 1))
    assert malformed.value.reason is Reason.MESSAGE_MALFORMED
    assert (large.value.reason, large.value.field) == (Reason.MESSAGE_TOO_LARGE, "data")


def test_the_elements_of_a_stream_come_back_as_they_went():
    chunk = encode_chunk(0, memoryview(b"abc"))
    assert list(answer_stream(iter([chunk]))) == [chunk]
