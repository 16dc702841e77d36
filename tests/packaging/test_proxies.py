"""HAProxy and nginx, with the files of deploy/proxies, behave as docs/deployment/proxies.md describes."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import numpy as np
import pytest

from attacks import early_garbled_bombs, early_header_bombs, early_small_bombs
from certificates import issue_proxy_certificate
from plain_requests import begin, catch_status, open_stream
from proxies import PROXIES, Proxy, build_fixture, run_proxy
from server_processes import run_server
from tensor_reshape.client import Client, InvalidRequestError, Reason, ReshapeError, ServiceError
from tensor_reshape.wire.servers import HealthStatus
from verification.restarts import restart_behind

MAX_CALLS = 16
COMMON = ("--max-calls", str(MAX_CALLS), "--stall-timeout-seconds", "300")
STREAM_BYTES = 256 * 1024 * 1024
LARGEST_BYTES = 2**25
"""Limit of the messages of one of the two servers, which distinguishes it from the other."""

FLAGS = ((*COMMON, "--max-message-bytes", str(LARGEST_BYTES)), COMMON)
ARRAY = np.arange(64, dtype=np.float32)
proxy = build_fixture(PROXIES)


@pytest.fixture(scope="module")
def address(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a proxy in front of two servers with different limits."""
    with ExitStack() as stack:
        servers = [stack.enter_context(run_server(*flags)) for flags in FLAGS]
        addresses = [server.address for server in servers]
        address = stack.enter_context(run_proxy(proxy, addresses, tmp_path_factory.mktemp(proxy.name)))
        with Client(address) as client:
            client.wait_until_ready()
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def test_proxy_distributes_calls_of_one_connection_round_robin(client: Client):
    limits = [client.server_info().limits.max_message_bytes for _ in range(10)]
    assert 4 <= limits.count(LARGEST_BYTES) <= 6


def test_large_stream_and_largest_message_pass_a_proxy_unchanged(client: Client):
    array = np.arange(STREAM_BYTES // 8, dtype=np.int64)
    output = client.reshape(array, [-1, 2], special_zero=False, transfer="stream", timeout=120)
    assert np.array_equal(output.reshape(-1), array)
    message = np.arange(1 << 22, dtype=np.float32)
    rows = client.reshape(message, [2, -1], special_zero=False, transfer="inline")
    assert np.array_equal(rows.reshape(-1), message)


def test_proxies_forward_error_details_except_haproxy_on_streams(proxy: Proxy, client: Client, address: str):
    with pytest.raises(InvalidRequestError) as caught:
        client.infer_shape((2, 3), (4, -1), special_zero=False)
    assert (caught.value.reason, caught.value.field) == (Reason.NOT_DIVISIBLE, "shape[1]")
    assert caught.value.metadata["divisor"] == "4"

    with grpc.insecure_channel(address) as channel, open_stream(channel, begin((6,), (4, -1))) as stream:
        error = stream.reject()
    is_cancelled = isinstance(error, ServiceError) and error.code is grpc.StatusCode.CANCELLED
    is_rejected = isinstance(error, ReshapeError) and error.reason is Reason.NOT_DIVISIBLE
    assert is_rejected or (is_cancelled and proxy.name == "haproxy")  # HAProxy 2.6 does this: see the page


def test_call_through_a_proxy_ends_at_its_deadline(address: str):
    with grpc.insecure_channel(address) as channel, open_stream(channel, begin(), seconds=0.5) as stream:
        status = catch_status(lambda: (stream.accept(), next(stream.call)))  # either step may exceed the deadline
    assert status.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_calls_of_disconnected_clients_behind_a_proxy_are_freed(address: str, client: Client):
    for _ in range(8):  # together, they are more than both servers accept
        with grpc.insecure_channel(address) as channel, ExitStack() as stack:
            for _ in range(MAX_CALLS // 2):
                stack.enter_context(open_stream(channel, begin())).accept()
    client.static_reshape(ARRAY, [8, 8], special_zero=False, timeout=60)


def test_proxy_answers_health_checks_but_not_health_watches(client: Client, address: str):
    assert client.check_health() is HealthStatus.SERVING
    with grpc.insecure_channel(address) as channel:
        watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream("/grpc.health.v1.Health/Watch")
        with pytest.raises(grpc.RpcError) as caught:
            next(watch(b"", timeout=30))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_proxy_terminates_tls_and_blocks_endless_headers(proxy: Proxy, tmp_path: Path):
    certificate, credentials = issue_proxy_certificate(tmp_path)
    with ExitStack() as stack:
        servers = [stack.enter_context(run_server()) for _ in range(2)]
        addresses = [server.address for server in servers]
        secure = stack.enter_context(run_proxy(proxy, addresses, tmp_path, certificate=certificate))
        with Client(secure, credentials=credentials) as client:
            assert client.static_reshape(ARRAY, [8, 8], special_zero=False).shape == (8, 8)

        address = stack.enter_context(run_proxy(proxy, addresses, tmp_path))
        client = stack.enter_context(Client(address))
        client.wait_until_ready()
        for attack in (early_header_bombs, early_small_bombs, early_garbled_bombs):
            with suppress(OSError):
                attack(address)  # continues until the proxy closes the connection
            assert client.static_reshape(ARRAY, [8, 8], special_zero=False).shape == (8, 8), attack
    assert not [record for server in servers for record in server.records if record.get("level") != "INFO"]


def test_rolling_restart_behind_a_proxy_loses_no_call(proxy: Proxy):
    assert restart_behind(proxy, signal.SIGTERM, restarts=2).failures == []
