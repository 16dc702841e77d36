"""Exceptions for the status of a failed call, with the connection failure or with advice."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc import ChannelConnectivity, StatusCode

from both_clients import open_client
from in_process import run_blocked, run_runner
from tensor_reshape.client import (
    CallTimeoutError,
    InternalServerError,
    InvalidRequestError,
    LimitError,
    Reason,
    ServiceError,
    UnavailableError,
)
from tensor_reshape.client.connections import (
    advise,
    build_error,
    describe_fault,
    describe_wait,
    explain_loss,
    explain_timeout,
)
from tensor_reshape.client.transfers import Pauses
from tensor_reshape.wire.methods import INFER_SHAPE, OPERATION_METHODS, STREAM_RESHAPE

SIX = np.arange(6, dtype=np.float32)
NOBODY = "127.0.0.1:1"
TLS = {"credentials": grpc.ssl_channel_credentials()}


@contextmanager
def run_silent() -> Iterator[str]:
    """Accepts connections without sending anything. Yields the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(("transfer", "settings"), [("inline", {}), ("stream", {}), ("inline", TLS)])
def test_timeout_error_mentions_that_the_client_is_not_connected(kind: str, transfer: str, settings: dict[str, Any]):
    with run_silent() as address, open_client(kind, address, **settings) as client:
        with pytest.raises(CallTimeoutError, match=f"within 0.2 seconds.*{address} is not connected") as caught:
            client.reshape(SIX, [2, 3], transfer=transfer, timeout=0.2, request_id="call-7")
        assert (caught.value.request_id, caught.value.seconds) == ("call-7", 0.2)
        assert caught.value.fault.startswith(f"{address} is not connected")


def test_timeout_error_of_a_health_check_names_the_timeout(kind: str):
    with run_silent() as address, open_client(kind, address) as client:
        with pytest.raises(CallTimeoutError, match=r"did not end within 0\.2 seconds") as caught:
            client.check_health(timeout=0.2)
        assert caught.value.seconds == 0.2


def test_timeout_error_of_a_connected_client_omits_the_connection_state(kind: str):
    with run_blocked() as (runner, _), open_client(kind, runner.addresses[0], timeout=0.2) as client:
        client.wait_until_ready(timeout=60)
        with pytest.raises(CallTimeoutError) as caught:
            client.static_reshape(SIX, [6])
        assert str(caught.value) == "DEADLINE_EXCEEDED: the call did not end within 0.2 seconds: pass a longer timeout"
        assert (caught.value.seconds, caught.value.fault) == (0.2, "")


@pytest.mark.parametrize("timeout", [0.05, 0.3])
def test_short_timeout_error_mentions_a_refused_connection(kind: str, timeout: float):
    with open_client(kind, NOBODY) as client:
        for _ in range(3):  # the timeout can be at any point of the attempts to connect
            with pytest.raises(ServiceError, match=r"connection refused|is not connected"):
                client.infer_shape([6], [6], timeout=timeout)


def test_wait_until_ready_timeout_reports_the_connection_error(kind: str, tmp_path: Path):
    with run_runner() as runner, run_runner() as unhealthy:
        unhealthy._health.stop_serving()
        rows: list[tuple[str, dict[str, Any], float, str]] = [
            (NOBODY, {}, 1.5, r"ready within .*connection refused"),
            ("dns:///nobody.invalid:50051", {}, 1.5, r"nobody\.invalid"),
            (runner.addresses[0], TLS, 1.5, r"(?i)handshak|ssl|tls"),  # the server speaks plain text
            (f"unix:{tmp_path}/nobody", {}, 1.5, "no such socket"),
            (unhealthy.addresses[0], {}, 1.5, r"ready within .*unhealthy"),
        ]

        def wait(target: str, settings: dict[str, Any], timeout: float, text: str) -> None:
            with open_client(kind, target, **settings) as client, pytest.raises(UnavailableError, match=text):
                client.wait_until_ready(timeout=timeout)

        with ThreadPoolExecutor(len(rows)) as pool:
            for waiting in [pool.submit(wait, *row) for row in rows]:
                waiting.result()


@pytest.mark.parametrize(
    ("settings", "text"),
    [({}, "no server at 127.0.0.1:1 (connection refused)"), (TLS, "does not use TLS: connect without TLS")],
)
def test_unavailable_error_names_the_target_and_the_cause(
    kind: str, settings: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tensor_reshape.client.retries.PATIENCE_SECONDS", 0.5)
    with run_runner() as runner:
        target = runner.addresses[0] if settings else "127.0.0.1:1"
        with open_client(kind, target, **settings) as client:
            for call in (lambda: client.infer_shape([6], [6], timeout=30), client.check_health):
                with pytest.raises(UnavailableError) as caught:
                    call()
                assert text in str(caught.value)
                assert caught.value.__notes__[0].startswith("gRPC: ")


def test_channel_that_is_idle_or_connecting_waits():
    states = [*ChannelConnectivity, None]
    waits = [state for state in states if describe_wait(state, "here:1")]
    assert waits == [ChannelConnectivity.IDLE, ChannelConnectivity.CONNECTING]


@pytest.mark.parametrize(
    ("target", "address", "text"),
    [
        ("localhost:50051", "ipv6:%5B::1%5D:50051", "no server at localhost:50051 (connection refused by [::1]:50051)"),
        ("127.0.0.1:1", "ipv4:127.0.0.1:1", "no server at 127.0.0.1:1 (connection refused)"),
        ("[::1]:1", "ipv6:%5B::1%5D:1", "no server at [::1]:1 (connection refused)"),
    ],
)
def test_connection_error_of_a_host_name_names_the_address(target: str, address: str, text: str):
    message = f"connections to all backends failing; last error: UNKNOWN: {address}: Failed to connect to remote host: "
    error = UnavailableError(f"{message}Connection refused", StatusCode.UNAVAILABLE)
    assert str(explain_loss(error, target)).endswith(text)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            "Failed parsing HTTP/2 (Expected SETTINGS frame) (Trying to connect an http1.x server (HTTP status 400))",
            "here:1 is an HTTP port: connect to the gRPC port of the server",
        ),
        (
            "Failed parsing HTTP/2 (Expected SETTINGS frame as the first frame, got frame type 45)",
            "here:1 is not a gRPC port, and may be an HTTP port: connect to the gRPC port of the server",
        ),
        (
            "Cannot check peer: missing selected ALPN property.",
            "here:1 does not offer HTTP/2 over TLS: connect to the gRPC port of the server",
        ),
    ],
)
def test_error_of_a_port_without_grpc_says_so(message: str, text: str):
    message = f"connections to all backends failing; last error: UNAVAILABLE: ipv4:127.0.0.1:1: {message}"
    explained = explain_loss(UnavailableError(message, StatusCode.UNAVAILABLE), "here:1")
    assert str(explained) == f"UNAVAILABLE: {text}"


def test_only_unavailable_errors_get_a_connection_description():
    late = CallTimeoutError("late", StatusCode.DEADLINE_EXCEEDED)
    assert "rejected" in describe_fault(UnavailableError("rejected", StatusCode.UNAVAILABLE))
    assert describe_fault(late) == describe_fault(InvalidRequestError.of(Reason.FIELD_MISSING, "no")) == ""


def test_timeout_error_has_the_timeout_and_the_option_of_the_call():
    late = CallTimeoutError("Stream removed (Deadline Exceeded)", StatusCode.DEADLINE_EXCEEDED)
    late.request_id = "call-7"
    explained = explain_timeout(late, 2.5, "here:1 is not connected")
    assert str(explained) == (
        "DEADLINE_EXCEEDED: the call did not end within 2.5 seconds: pass a longer timeout; here:1 is not connected"
    )
    assert (explained.seconds, explained.fault, explained.request_id) == (2.5, "here:1 is not connected", "call-7")
    assert explained.__notes__ == ["gRPC: Stream removed (Deadline Exceeded)"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("upstream request timeout", 30.0), ("Deadline Exceeded", None)], ids=["proxy", "no timeout"]
)
def test_timeout_error_of_a_proxy_keeps_its_text(text: str, seconds: float | None):
    explained = explain_timeout(CallTimeoutError(text, StatusCode.DEADLINE_EXCEEDED), seconds)
    assert (str(explained), explained.seconds) == (f"DEADLINE_EXCEEDED: {text}", None)


KINDS = {
    StatusCode.UNAVAILABLE: UnavailableError,
    StatusCode.DEADLINE_EXCEEDED: CallTimeoutError,
    StatusCode.INTERNAL: InternalServerError,
}


def test_grpc_status_without_details_becomes_a_service_error():
    for code in set(StatusCode) - {StatusCode.OK}:
        error = build_error(code, "no", ())
        assert isinstance(error, ServiceError)
        assert (type(error), error.code, error.message) == (KINDS.get(code, ServiceError), code, "no")
        assert str(error) == f"{code.name}: no"
    assert str(build_error(StatusCode.UNKNOWN, None, ())) == "UNKNOWN: "


def test_message_size_rejection_of_grpc_becomes_a_limit_error():
    error = build_error(StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 5)", ())
    assert isinstance(error, LimitError)
    assert (error.reason, error.field, error.retry_seconds) == (Reason.MESSAGE_TOO_LARGE, "data", None)


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
