"""What an error says besides, by what the server tells of itself: nothing that is not known to be so."""

import grpc
import pytest

from tensor_reshape.client.errors import UnavailableError
from tensor_reshape.client.hints import NOTHING_TOLD, calls_for_hint, hint_size
from tensor_reshape.rules.errors import LimitError, Reason, TensorReshapeError
from tensor_reshape.server.config import Config
from tensor_reshape.server.introductions import describe_server
from tensor_reshape.wire.methods import INFER_SHAPE, OPERATION_METHODS, STREAM_RESHAPE
from tensor_reshape.wire.servers import ServerInfo

(RESHAPE, *_) = [method.path for method in OPERATION_METHODS.values()]
TOO_LARGE = LimitError.of(Reason.MESSAGE_TOO_LARGE, "Received message larger than max", "data")
INFO = describe_server(Config(max_message_bytes=4096))


@pytest.mark.parametrize(
    ("error", "path"),
    [
        (TOO_LARGE, INFER_SHAPE.path),
        (LimitError.of(Reason.OUTPUT_TOO_LARGE, "too large"), RESHAPE),
        (UnavailableError("gone", grpc.StatusCode.UNAVAILABLE), RESHAPE),
    ],
)
def test_other_errors_and_other_methods_have_no_hint(error: TensorReshapeError, path: str):
    assert calls_for_hint(TOO_LARGE, RESHAPE)
    assert not calls_for_hint(error, path)


def test_the_hint_names_both_sizes_and_what_to_do():
    hinted = hint_size(TOO_LARGE, RESHAPE, 2**20, INFO)

    assert str(hinted) == (
        'the request takes 1 MiB, above the server\'s 4 KiB: use transfer="stream", '
        "or a client with a smaller inline_max_bytes"
    )
    assert isinstance(hinted, LimitError)
    assert (hinted.reason, hinted.field) == (TOO_LARGE.reason, TOO_LARGE.field)
    assert hinted.metadata == {"size": "1048576", "limit": "4096"}


def test_a_stream_is_told_of_its_messages():
    hinted = hint_size(TOO_LARGE, STREAM_RESHAPE.path, 2**20, INFO)

    assert str(hinted) == (
        "a message of the stream takes 1 MiB, above the server's 4 KiB: make the client with smaller chunk_bytes"
    )


@pytest.mark.parametrize("info", [None, NOTHING_TOLD])
def test_without_a_word_of_the_server_the_error_stays_what_it_is(info: ServerInfo | None):
    assert hint_size(TOO_LARGE, RESHAPE, 2**20, info) is TOO_LARGE


def test_what_the_server_would_have_taken_was_refused_on_the_way():
    assert hint_size(TOO_LARGE, RESHAPE, 4096, INFO) is TOO_LARGE
