"""What an error says besides, by what the server tells of itself: nothing that is not known to be so."""

import grpc
import pytest

from tensor_reshape.client.errors import UnavailableError
from tensor_reshape.client.hints import calls_for_hint, hint_stream
from tensor_reshape.client.requests import Call
from tensor_reshape.rules.errors import LimitError, Reason, TensorReshapeError
from tensor_reshape.server.config import Config
from tensor_reshape.server.introductions import describe_server
from tensor_reshape.wire.methods import INFER_SHAPE, OPERATION_METHODS

(RESHAPE, *_) = [method.path for method in OPERATION_METHODS.values()]
TOO_LARGE = LimitError.of(Reason.MESSAGE_TOO_LARGE, "Received message larger than max", "data")
INFO = describe_server(Config(max_message_bytes=4096))


def make_call(size: int, path: str = RESHAPE) -> Call[bytes]:
    return Call(path, bytes(size), bytes)


@pytest.mark.parametrize(
    ("error", "path"),
    [
        (TOO_LARGE, INFER_SHAPE.path),
        (LimitError.of(Reason.OUTPUT_TOO_LARGE, "too large"), RESHAPE),
        (UnavailableError("gone", grpc.StatusCode.UNAVAILABLE), RESHAPE),
    ],
)
def test_other_errors_and_other_methods_have_no_hint(error: TensorReshapeError, path: str):
    assert calls_for_hint(TOO_LARGE, make_call(1))
    assert not calls_for_hint(error, make_call(1, path))


def test_the_hint_names_both_sizes_and_what_to_do():
    hinted = hint_stream(TOO_LARGE, make_call(2**20), INFO)

    assert str(hinted) == 'the request takes 1 MiB, above the server\'s 4 KiB: use transfer="stream"'
    assert isinstance(hinted, LimitError)
    assert (hinted.reason, hinted.field) == (TOO_LARGE.reason, TOO_LARGE.field)
    assert hinted.metadata == {"size": "1048576", "limit": "4096"}


def test_without_a_word_of_the_server_the_error_stays_what_it_is():
    assert hint_stream(TOO_LARGE, make_call(2**20), None) is TOO_LARGE


def test_what_the_server_would_have_taken_was_refused_on_the_way():
    assert hint_stream(TOO_LARGE, make_call(4096), INFO) is TOO_LARGE
