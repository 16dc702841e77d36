"""The options of gRPC's core for connections."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from certificates import issue_certificates
from grpc_servers import ANY_PORT, SECONDS, CoreServer, ManualCall
from tensor_reshape.server.config import MEMORY_BUDGET_BYTES, Config, TlsFiles
from tensor_reshape.server.grpc.options import build_credentials, build_options
from tensor_reshape.server.security.certificates import Certificates

STOCK_PING_MS = 10_000  # the shortest ping interval of a stock client (gRFC A8)
CALLERS = 64  # callers of one connection; each may have a call that is not freed yet, and an open one
MINUTE_MS = 60_000
OPTIONS = {
    "grpc.max_receive_message_length": 4096,
    "grpc.max_send_message_length": -1,
    "grpc.max_concurrent_streams": 2 * CALLERS,
    "grpc.server.max_pending_requests": 8192,
    "grpc.server.max_pending_requests_hard_limit": 16384,
    "grpc.http2.lookahead_bytes": 131_072,
    "grpc.http2.bdp_probe": 0,
    "grpc.compression_enabled_algorithms_bitset": 1,
    "grpc.enable_channelz": 0,
    "grpc.so_reuseport": 0,
    "grpc.max_allowed_incoming_connections": 7,
    "grpc.max_metadata_size": 16_384,
    "grpc.absolute_max_metadata_size": 16_384,
    "grpc.server_handshake_timeout_ms": 10_000,
    "grpc.http2.settings_timeout": 5 * MINUTE_MS,
    "grpc.max_connection_idle_ms": 15 * MINUTE_MS,
    "grpc.keepalive_time_ms": MINUTE_MS,
    "grpc.keepalive_timeout_ms": 5 * MINUTE_MS,
    "grpc.http2.ping_timeout_ms": 5 * MINUTE_MS,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.http2.max_pings_without_data": 0,
    "grpc.http2.min_ping_interval_without_data_ms": 5000,
    "grpc.http2.max_ping_strikes": 2,
}
"""Every option, with 4096 bytes for messages and 7 connections."""


def build(max_connection_age_seconds: float = 0.0, *, shares: bool = False) -> dict[str, int]:
    config = Config(max_message_bytes=4096, max_connection_age_seconds=max_connection_age_seconds)
    options = build_options(config, 7, shares=shares)
    assert len({name for name, _ in options}) == len(options)
    return dict(options)


def test_server_channel_options_are_complete():
    assert build() == OPTIONS


def test_server_port_is_shared_only_when_requested():
    assert build(shares=True) == OPTIONS | {"grpc.so_reuseport": 1}


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.0001, 1), (2.5, 2500)])
def test_max_connection_age_is_set_only_when_configured(seconds: float, milliseconds: int):
    age = {"grpc.max_connection_age_ms": milliseconds, "grpc.max_connection_age_grace_ms": 6 * 60 * MINUTE_MS}
    assert build(seconds) == OPTIONS | age


def test_grpcio_client_may_ping_at_its_shortest_interval():
    assert build()["grpc.http2.min_ping_interval_without_data_ms"] < STOCK_PING_MS


def test_server_flow_control_windows_fit_into_the_default_memory():
    options = build()
    unread_bytes = options["grpc.http2.lookahead_bytes"] * options["grpc.max_concurrent_streams"]
    assert 16 * unread_bytes <= MEMORY_BUDGET_BYTES / 4


@contextmanager
def serve_tls(certificates: Certificates) -> Iterator[int]:
    """Serves calls without an answer over TLS, and yields the port."""
    served = CoreServer(ManualCall)
    port = served.server.add_port(ANY_PORT, build_credentials(certificates))
    served.server.start()
    try:
        yield port
    finally:
        served.server.stop()
        assert served.server.wait(SECONDS)


def fetch_certificate(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=SECONDS)


def test_each_handshake_uses_the_latest_certificate(tmp_path: Path):
    files = issue_certificates(tmp_path)
    certificates = Certificates(TlsFiles(certificate=files.server, key=files.server_key, client_ca=None))
    with serve_tls(certificates) as port:
        for _ in range(2):
            assert files.server.read_text().startswith(fetch_certificate(port))
            assert files.server.read_text().startswith(fetch_certificate(port))
            issue_certificates(tmp_path)
            certificates.reload_if_changed()


@pytest.mark.parametrize("is_mutual", [False, True])
def test_only_a_server_with_an_authority_demands_client_certificates(tmp_path: Path, is_mutual: bool):
    files = issue_certificates(tmp_path)
    authority = files.authority if is_mutual else None
    with serve_tls(Certificates(TlsFiles(certificate=files.server, key=files.server_key, client_ca=authority))) as port:
        for credentials, has_certificate in ((files.identity, True), (files.trust, False)):
            with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
                call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/no/Such")
                status = call.future(b"", timeout=SECONDS).exception()
            assert isinstance(status, grpc.RpcError)
            is_refused = is_mutual and not has_certificate
            assert status.code() is (grpc.StatusCode.UNAVAILABLE if is_refused else grpc.StatusCode.UNIMPLEMENTED)


def test_server_without_certificates_has_no_credentials():
    assert build_credentials(None) is None
