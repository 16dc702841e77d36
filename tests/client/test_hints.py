"""The advice in errors about messages that are too large, and in errors of stalled calls."""

import grpc
import pytest

from tensor_reshape.client.errors import ServiceError, UnavailableError
from tensor_reshape.client.hints import advise
from tensor_reshape.client.pauses import Pauses
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.wire.methods import INFER_SHAPE, OPERATION_METHODS, STREAM_RESHAPE

(RESHAPE, *_) = [method.path for method in OPERATION_METHODS.values()]
TEXT = "CLIENT: Received message larger than max (1048576 vs. 4096)"
STALLED = LimitError.of(Reason.STALLED, "no progress for 1.0 seconds (--stall-timeout-seconds)", seconds=1.0)
CANCELLED = ServiceError("Received RST_STREAM with error code 8", grpc.StatusCode.CANCELLED)
TOO_LARGE = LimitError.of(Reason.MESSAGE_TOO_LARGE, TEXT, "data")


def test_message_too_large_error_has_both_sizes_and_a_remedy():
    advised = advise(TOO_LARGE, RESHAPE)
    assert str(advised) == (
        'the message has 1 MiB, but its receiver allows 4 KiB: use transfer="stream", '
        'or transfer="auto" and a client whose inline_max_bytes is below this limit'
    )
    assert isinstance(advised, LimitError)
    assert (advised.reason, advised.field) == (TOO_LARGE.reason, TOO_LARGE.field)
    assert advised.metadata == {"size": "1048576", "limit": "4096"}
    assert str(TOO_LARGE) == TEXT


def test_message_too_large_error_of_streams_suggests_smaller_chunk_bytes():
    assert str(advise(TOO_LARGE, STREAM_RESHAPE.path)) == (
        "the message has 1 MiB, but its receiver allows 4 KiB: use a client with smaller chunk_bytes"
    )


def test_errors_other_than_message_too_large_get_no_advice():
    other_text = LimitError.of(Reason.MESSAGE_TOO_LARGE, "Received message larger than max", "data")
    other_reason = LimitError.of(Reason.OUTPUT_TOO_LARGE, TEXT)
    for error in (other_text, other_reason, UnavailableError(TEXT, grpc.StatusCode.UNAVAILABLE)):
        assert advise(error, RESHAPE) is error
    assert advise(TOO_LARGE, INFER_SHAPE.path) is TOO_LARGE  # the message of this method cannot be made smaller


def pause(seconds: float) -> Pauses:
    pauses = Pauses()
    pauses.record(seconds)
    return pauses


def test_stalled_error_says_how_long_this_process_paused():
    advised = advise(STALLED, STREAM_RESHAPE.path, pause(60.0))
    assert isinstance(advised, LimitError)
    assert str(advised) == (
        "no progress for 1.0 seconds (--stall-timeout-seconds), because this process paused it for 60.0 seconds: "
        "make such pauses shorter, or raise this option of the server"
    )
    assert (advised.reason, advised.retry_seconds) == (Reason.STALLED, None)
    assert advised.metadata == {"seconds": "1.0", "slow_side": "caller", "paused_seconds": "60.0"}


@pytest.mark.parametrize("pauses", [None, pause(0.0)], ids=["unary", "stream"])
def test_stalled_error_blames_the_network_without_a_pause(pauses: Pauses | None):
    advised = advise(STALLED, STREAM_RESHAPE.path, pauses)
    assert isinstance(advised, LimitError)
    assert str(advised) == (
        "no progress for 1.0 seconds (--stall-timeout-seconds), because the network was too slow: "
        "use a faster network, or raise this option of the server"
    )
    assert advised.metadata == {"seconds": "1.0", "slow_side": "network"}


def test_stream_cancelled_during_a_long_pause_has_stalled():
    advised = advise(CANCELLED, STREAM_RESHAPE.path, pause(60.0))
    assert isinstance(advised, LimitError)
    assert (advised.reason, advised.retry_seconds) == (Reason.STALLED, None)
    assert "this process paused it for 60.0 seconds" in str(advised)
    assert advise(CANCELLED, STREAM_RESHAPE.path, pause(0.01)) is CANCELLED
    assert advise(CANCELLED, STREAM_RESHAPE.path) is CANCELLED
