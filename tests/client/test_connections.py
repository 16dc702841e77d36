"""A timeout error of either client describes a connection failure, if there was one."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc import ChannelConnectivity, StatusCode

from both_clients import open_client
from in_process import run_blocked, run_runner
from tensor_reshape.client import CallTimeoutError, InvalidRequestError, Reason, ServiceError, UnavailableError
from tensor_reshape.client.connections import describe_fault, describe_wait, explain_loss, explain_timeout, has_failed

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
            (NOBODY, {}, 0.3, r"ready within .*connection refused"),
            ("dns:///nobody.invalid:50051", {}, 0.5, r"nobody\.invalid"),
            (runner.addresses[0], TLS, 0.5, r"(?i)handshak|ssl|tls"),  # the server speaks plain text
            (f"unix:{tmp_path}/nobody", {}, 0.3, "no such socket"),
            (unhealthy.addresses[0], {}, 0.5, r"ready within .*unhealthy"),
        ]
        for target, settings, timeout, text in rows:
            with open_client(kind, target, **settings) as client, pytest.raises(UnavailableError, match=text):
                client.wait_until_ready(timeout=timeout)


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


def test_channel_connectivity_states_map_to_waiting_or_failed():
    states = [*ChannelConnectivity, None]
    waits = [state for state in states if describe_wait(state, "here:1")]
    assert waits == [ChannelConnectivity.IDLE, ChannelConnectivity.CONNECTING]
    assert [state for state in states if has_failed(state)] == [ChannelConnectivity.TRANSIENT_FAILURE]


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
