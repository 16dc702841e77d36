"""What an error says besides, by what the server tells of itself: nothing that is not known to be so."""

import grpc

from tensor_reshape.client.errors import UnavailableError
from tensor_reshape.client.hints import NO_SERVER_INFO, calls_for_hint, hint_size
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.config import CORE, Config
from tensor_reshape.server.server_info import describe_server
from tensor_reshape.wire.methods import INFER_SHAPE, OPERATION_METHODS, STREAM_RESHAPE

(RESHAPE, *_) = [method.path for method in OPERATION_METHODS.values()]
TOO_LARGE = LimitError.of(Reason.MESSAGE_TOO_LARGE, "Received message larger than max", "data")
INFO = describe_server(Config(max_message_bytes=4096), CORE)


def test_only_oversized_reshapes_get_a_hint():
    assert calls_for_hint(TOO_LARGE, RESHAPE)
    assert not calls_for_hint(TOO_LARGE, INFER_SHAPE.path)
    assert not calls_for_hint(LimitError.of(Reason.OUTPUT_TOO_LARGE, "too large"), RESHAPE)
    assert not calls_for_hint(UnavailableError("gone", grpc.StatusCode.UNAVAILABLE), RESHAPE)


def test_hint_names_both_sizes_and_the_advice():
    hinted = hint_size(TOO_LARGE, RESHAPE, 2**20, INFO)
    assert str(hinted) == (
        'the request takes 1 MiB, but the server\'s limit is 4 KiB: use transfer="stream", '
        "or a client with a smaller inline_max_bytes"
    )
    assert isinstance(hinted, LimitError)
    assert (hinted.reason, hinted.field) == (TOO_LARGE.reason, TOO_LARGE.field)
    assert hinted.metadata == {"size": "1048576", "limit": "4096"}


def test_hint_for_a_stream_names_chunk_bytes():
    assert str(hint_size(TOO_LARGE, STREAM_RESHAPE.path, 2**20, INFO)) == (
        "a message of the stream takes 1 MiB, but the server's limit is 4 KiB: "
        "create the client with smaller chunk_bytes"
    )


def test_error_is_unchanged_when_no_limit_explains_it():
    assert hint_size(TOO_LARGE, RESHAPE, 2**20, None) is TOO_LARGE
    assert hint_size(TOO_LARGE, RESHAPE, 2**20, NO_SERVER_INFO) is TOO_LARGE
    assert hint_size(TOO_LARGE, RESHAPE, 4096, INFO) is TOO_LARGE  # it was rejected on the way
