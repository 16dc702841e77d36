"""ServerInfo over serialized messages: one answer, written once."""

import pytest

from tensor_reshape.rules.errors import LimitError, ReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.config import Config
from tensor_reshape.server.introductions import describe_server
from tensor_reshape.server.service.methods import Method
from tensor_reshape.server.service.server_infos import build_info_method
from tensor_reshape.wire.servers import decode_server_info

UNKNOWN_FIELD = b"\x0a\x01x"


@pytest.fixture
def method() -> Method:
    return build_info_method(describe_server(Config()))


def test_the_answer_is_what_was_described(method: Method):
    answer = method.answer_light(b"")
    assert answer is not None
    assert decode_server_info(answer) == describe_server(Config())


def test_a_newer_client_may_ask_for_more(method: Method):
    assert method.answer_light(UNKNOWN_FIELD) == method.answer_light(b"")


@pytest.mark.parametrize("request_", [b"\xff", b"\x0a\x02x"])
def test_garbage_is_refused(method: Method, request_: bytes):
    with pytest.raises(ReshapeError):
        method.answer_light(request_)


def test_a_request_that_is_no_small_one_is_refused_unread(method: Method):
    with pytest.raises(LimitError):
        method.answer_light(b"\xff" * (MAX_HEADER_BYTES + 1))
