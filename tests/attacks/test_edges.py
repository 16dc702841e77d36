"""The edge proxies of deploy/proxies forward the calls of well-behaved clients."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from attack_payloads import STATIC
from certificates import issue_proxy_certificate
from http2 import HEALTH_WATCH, REFLECTION, SERVICE_PATH, Connection, Kind, frame, grpc_message
from plain_requests import build_begin, build_static_request, chunk
from proxies import EDGES, Proxy, build_fixture, run_proxy
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client

SMALL = build_static_request()
CANCEL = b"\0\0\0\x08"
CANCELLED = 300
proxy = build_fixture(EDGES)


@pytest.fixture(scope="module")
def address(proxy: Proxy, server: ServerProcess) -> Iterator[str]:
    """The address of a proxy in front of the server."""
    with TemporaryDirectory() as folder, run_proxy(proxy, [server.address], Path(folder)) as address:
        yield address


def test_large_messages_and_streams_pass_a_proxy_unchanged(address: str):
    array = np.arange(1 << 21, dtype=np.int64)  # the largest message
    with Client(address) as client:
        for transfer in ("inline", "stream"):
            output = client.reshape(array, [2, -1], special_zero=False, transfer=transfer, timeout=120)
            assert np.array_equal(output.reshape(-1), array), transfer


def test_proxy_forwards_health_watch_and_reflection_messages_immediately(address: str):
    with Connection(address) as connection:
        for path, message in ((HEALTH_WATCH, b""), (REFLECTION, b"\x3a\x00")):
            stream = connection.open(path)
            connection.send_data(stream, grpc_message(message), end=path == HEALTH_WATCH)
            assert connection.await_(partial(connection.bodies.__contains__, stream)), path


def test_connection_works_after_cancelling_many_streams_through_a_proxy(address: str):
    with Connection(address) as connection:
        for _ in range(CANCELLED):
            stream = connection.open(f"{SERVICE_PATH}StreamReshape")
            connection.send_data(stream, grpc_message(build_begin([6])) + grpc_message(chunk(0, bytes(24))))
            assert connection.await_(partial(connection.bodies.__contains__, stream))
            connection.send(frame(Kind.RST_STREAM, 0, stream, CANCEL))
        assert connection.call(STATIC, SMALL).is_ok


def test_server_applies_quotas_per_client_behind_a_proxy(proxy: Proxy, tmp_path: Path):
    flags = ("--max-calls-per-caller-per-second", "0.001", "--trusted-proxy", "127.0.0.1")
    with ExitStack() as stack:
        server = stack.enter_context(run_server(*flags))
        address = stack.enter_context(run_proxy(proxy, [server.address], tmp_path))
        one, other = (stack.enter_context(Connection(address, source=(f"127.0.0.{host}", 0))) for host in (2, 3))
        assert one.call(STATIC, SMALL).is_ok
        assert other.call(STATIC, SMALL).is_ok
        forged = one.open(STATIC, headers=[("x-forwarded-for", "192.0.2.77")])
        one.send_data(forged, grpc_message(SMALL), end=True)
        assert one.await_end(forged).status == "8"


def test_haproxy_terminates_tls_for_the_server(server: ServerProcess, tmp_path: Path):
    haproxy = EDGES[0].require()
    certificate, credentials = issue_proxy_certificate(tmp_path)
    with (
        run_proxy(haproxy, [server.address], tmp_path, certificate=certificate) as address,
        Client(address, credentials=credentials) as client,
    ):
        assert client.static_reshape(np.ones(4, np.float32), [2, 2], special_zero=False).shape == (2, 2)
