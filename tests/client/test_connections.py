"""An error whose time was up says what was wrong with the connection, where something was; by both clients."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc import ChannelConnectivity, StatusCode

from both_clients import CALLERS, open_client
from in_process import run_blocked, run_runner
from tensor_reshape.client import CallTimeoutError, InvalidRequestError, Reason, ServiceError, UnavailableError
from tensor_reshape.client.connections import add_fault, describe_fault, describe_wait, find_state, has_failed

SIX = np.arange(6, dtype=np.float32)
NOBODY = "127.0.0.1:1"
NOT_CONNECTED = "was not connected"


@pytest.fixture(params=CALLERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def run_silent() -> Iterator[str]:
    """Listens, and says nothing to whoever connects. Yields the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("transfer", ["inline", "stream"])
def test_a_timeout_says_that_nothing_answered_where_the_server_is(kind: str, transfer: str):
    with (
        run_silent() as address,
        open_client(kind, address) as client,
        pytest.raises(CallTimeoutError, match=f"{address} {NOT_CONNECTED}"),
    ):
        client.reshape(SIX, [2, 3], transfer=transfer, timeout=0.3)


def test_a_timeout_says_so_of_a_handshake_too(kind: str):
    tls = grpc.ssl_channel_credentials()
    with (
        run_silent() as address,
        open_client(kind, address, credentials=tls) as client,
        pytest.raises(CallTimeoutError, match=f"{address} {NOT_CONNECTED}"),
    ):
        client.infer_shape([6], [6], timeout=0.3)


def test_a_timeout_of_a_server_that_is_connected_says_nothing_of_it(kind: str):
    with run_blocked() as (runner, _), open_client(kind, runner.addresses[0]) as client:
        client.wait_until_ready()
        with pytest.raises(CallTimeoutError) as caught:
            client.static_reshape(SIX, [6], timeout=0.3)
        assert "connect" not in str(caught.value)


@pytest.mark.parametrize("timeout", [0.05, 0.3])
def test_a_call_that_is_refused_a_connection_says_so_however_short_its_timeout(kind: str, timeout: float):
    with open_client(kind, NOBODY) as client:
        for _ in range(3):  # at any point of the attempts to connect
            with pytest.raises(ServiceError, match=r"Connection refused|was not connected"):
                client.infer_shape([6], [6], timeout=timeout)


def test_whoever_waits_for_a_server_is_told_that_the_connection_is_refused(kind: str):
    with (
        open_client(kind, NOBODY) as client,
        pytest.raises(UnavailableError, match=r"ready within .*Connection refused"),
    ):
        client.wait_until_ready(timeout=0.5)


def test_whoever_waits_is_told_that_the_name_is_not_resolved(kind: str):
    with (
        open_client(kind, "dns:///nobody.invalid:50051") as client,
        pytest.raises(UnavailableError, match=r"nobody\.invalid"),
    ):
        client.wait_until_ready(timeout=1)


def test_whoever_waits_is_told_that_the_handshake_failed(kind: str):
    tls = grpc.ssl_channel_credentials()
    with (
        run_runner() as runner,
        open_client(kind, runner.addresses[0], credentials=tls) as client,
        pytest.raises(UnavailableError, match=r"(?i)handshak|ssl|tls"),
    ):  # the server speaks plain text
        client.wait_until_ready(timeout=1)


def test_whoever_waits_is_told_that_there_is_no_socket(kind: str, tmp_path: Path):
    with (
        open_client(kind, f"unix:{tmp_path}/nobody") as client,
        pytest.raises(UnavailableError, match="No such file"),
    ):
        client.wait_until_ready(timeout=0.5)


def test_whoever_waits_is_told_that_the_server_does_not_serve(kind: str):
    with run_runner() as runner, open_client(kind, runner.addresses[0]) as client:
        runner._health.stop_serving()
        with pytest.raises(UnavailableError, match=r"ready within .*unhealthy"):
            client.wait_until_ready(timeout=1)


def test_a_timeout_keeps_the_request_id_of_its_call(kind: str):
    with run_silent() as address, open_client(kind, address) as client:
        with pytest.raises(CallTimeoutError) as caught:
            client.infer_shape([6], [6], timeout=0.2, request_id="call-7")
        assert caught.value.request_id == "call-7"


def test_the_state_of_a_channel_is_found_without_connecting_it():
    with grpc.insecure_channel(NOBODY) as channel:
        assert find_state(channel) is ChannelConnectivity.IDLE


def test_no_state_is_found_where_no_thread_can_tell_it(monkeypatch: pytest.MonkeyPatch):
    def refuse(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    with grpc.insecure_channel(NOBODY) as channel:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert find_state(channel) is None


@pytest.mark.parametrize("state", [*ChannelConnectivity, None])
def test_a_channel_waits_for_a_connection_in_two_states_and_has_failed_in_one(state: ChannelConnectivity | None):
    waits = state in (ChannelConnectivity.IDLE, ChannelConnectivity.CONNECTING)
    assert bool(describe_wait(state, "here:1")) == waits
    assert has_failed(state) == (state is ChannelConnectivity.TRANSIENT_FAILURE)


def test_only_a_server_that_is_not_there_is_a_fault_of_the_connection():
    assert "refused" in describe_fault(UnavailableError("refused", StatusCode.UNAVAILABLE))
    assert describe_fault(CallTimeoutError("late", StatusCode.DEADLINE_EXCEEDED)) == ""
    assert describe_fault(InvalidRequestError.of(Reason.FIELD_MISSING, "no")) == ""


def test_an_error_without_a_fault_is_the_same():
    error = CallTimeoutError("late", StatusCode.DEADLINE_EXCEEDED)
    assert add_fault(error, "") is error
