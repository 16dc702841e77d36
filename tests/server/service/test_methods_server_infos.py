"""ServerInfo over serialized messages: one response, which is encoded once."""

import pytest

from tensor_reshape.rules.errors import LimitError, ReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.config import Config
from tensor_reshape.server.server_info import describe_server
from tensor_reshape.server.service.methods import build_info_method
from tensor_reshape.wire.servers import decode_server_info

METHOD = build_info_method(describe_server(Config()))


def test_server_info_method_returns_the_info_of_the_server():
    answer = METHOD.respond_light(b"")
    assert answer is not None
    assert decode_server_info(answer) == describe_server(Config())
    assert METHOD.respond_light(b"\x0a\x01x") == answer  # an unknown field of a newer client


def test_malformed_or_oversized_server_info_request_is_rejected():
    for request in (b"\xff", b"\x0a\x02x"):
        with pytest.raises(ReshapeError):
            METHOD.respond_light(request)
    with pytest.raises(LimitError):
        METHOD.respond_light(b"\xff" * (MAX_HEADER_BYTES + 1))
