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
from tensor_reshape.client.connections import add_fault, describe_fault, describe_wait, explain_loss, has_failed

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
        with pytest.raises(CallTimeoutError, match=f"{address} is not connected") as caught:
            client.reshape(SIX, [2, 3], transfer=transfer, timeout=0.2, request_id="call-7")
        assert caught.value.request_id == "call-7"


def test_timeout_error_of_a_connected_client_omits_the_connection_state(kind: str):
    with run_blocked() as (runner, _), open_client(kind, runner.addresses[0], timeout=0.2) as client:
        client.wait_until_ready(timeout=60)
        with pytest.raises(CallTimeoutError) as caught:
            client.static_reshape(SIX, [6])
        assert "connect" not in str(caught.value)


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


def test_only_unavailable_errors_get_a_connection_description():
    late = CallTimeoutError("late", StatusCode.DEADLINE_EXCEEDED)
    assert "rejected" in describe_fault(UnavailableError("rejected", StatusCode.UNAVAILABLE))
    assert describe_fault(late) == describe_fault(InvalidRequestError.of(Reason.FIELD_MISSING, "no")) == ""
    assert add_fault(late, "") is late
