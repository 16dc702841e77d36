"""Coroutines of a blocking client, and the error of a host name with several addresses."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import grpc
import numpy as np
import pytest

from both_clients import CALLERS, open_client
from certificates import issue_certificates
from in_process import run_runner, run_stock
from server_processes import run_server
from tensor_reshape.client import Client, UnavailableError
from tensor_reshape.client.base import _find_better_error as find_better_error
from tensor_reshape.client.base import run_now
from tensor_reshape.client.options import Endpoint
from tensor_reshape.server.config import Config

Serve = Callable[[str], AbstractContextManager[str]]
TLS = {"credentials": grpc.ssl_channel_credentials()}
TRIES = 5  # without the calls to other addresses, about half of the tries fail


def find_loopbacks() -> Iterator[str]:
    """Yields the loopback addresses of this machine. A machine without IPv6 has only one."""
    for host, family in (("127.0.0.1", socket.AF_INET), ("[::1]", socket.AF_INET6)):
        with suppress(OSError):
            socket.create_server((host.strip("[]"), 0), family=family).close()
            yield host


LOOPBACKS = [*find_loopbacks()]


@contextmanager
def serve_plain(host: str) -> Iterator[str]:
    with run_stock({}, host=host) as address:
        yield address


@contextmanager
def serve_tls(folder: Path, host: str) -> Iterator[str]:
    files = issue_certificates(folder)
    config = Config(listen=(f"{host}:0",), tls_certificate=files.server, tls_key=files.server_key)
    with run_runner(config) as runner:
        yield runner.addresses[0]


@contextmanager
def serve_http(host: str) -> Iterator[str]:
    class Server(ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    with Server((host.strip("[]"), 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{host}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("connections", [1, 3])
@pytest.mark.parametrize("kind", CALLERS)
def test_calls_use_the_connections_of_a_client_by_turns(kind: str, connections: int):
    with run_server("--log-level", "debug") as server:
        with open_client(kind, server.address, connections=connections) as client:
            client.wait_until_ready()
            for _ in range(2 * connections):
                assert client.infer_shape((2, 3), (-1,)) == [6]
            for _ in range(connections):
                assert client.reshape(np.array([1, 2]), (-1,), transfer="stream").tolist() == [1, 2]
        server.stop()
    for method, count in (("InferShape", 2), ("StreamReshape", 1)):
        called = [one for one in server.records if one.get("method", "").endswith(f"/{method}")]
        peers = Counter(record["peer"] for record in called)
        assert (len(peers), {*peers.values()}) == (connections, {count})


@pytest.mark.parametrize(("connections", "error"), [(0, ValueError), (65, ValueError), (1.5, TypeError)])
def test_number_of_connections_must_be_from_1_to_64(connections: float, error: type[Exception]):
    with pytest.raises(error, match="connections is"):
        Client("localhost:50051", connections=connections)  # type: ignore[arg-type]


@pytest.mark.parametrize("host", LOOPBACKS)
@pytest.mark.parametrize("name", ["plain", "tls", "http"])
def test_connection_error_of_localhost_is_that_of_the_server(
    kind: str, name: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    servers: dict[str, tuple[Serve, dict[str, Any], str]] = {
        "plain": (serve_plain, TLS, "does not use TLS: connect without TLS"),
        "tls": (partial(serve_tls, tmp_path), {}, "closed the connection: it may require TLS"),
        "http": (serve_http, {}, "is an HTTP port: connect to the gRPC port"),
    }
    serve, settings, text = servers[name]
    monkeypatch.setattr("tensor_reshape.client.retries.PATIENCE_SECONDS", 0.1)
    with serve(host) as address:
        target = f"localhost:{address.rpartition(':')[2]}"
        for _ in range(TRIES):
            with open_client(kind, target, **settings) as client:
                for call in (client.check_health, lambda: client.infer_shape([6], [6])):
                    with pytest.raises(UnavailableError, match=f"{target} {text}|server at {target} {text}"):
                        call()


def fail_at(address: str) -> UnavailableError:
    message = f"connections to all backends failing; last error: UNKNOWN: {address}: Failed to connect to remote host: "
    return UnavailableError(f"{message}Connection refused", grpc.StatusCode.UNAVAILABLE)


def find(error: UnavailableError, target: str, credentials: grpc.ChannelCredentials | None = None) -> UnavailableError:
    return find_better_error(error, Endpoint(target, credentials, (), 30), ())


def test_refused_connection_stays_the_error_if_no_address_has_a_server():
    error = fail_at("ipv6:%5B::1%5D:1")
    assert find(error, "localhost:1") is error


def test_healthy_server_at_another_address_changes_no_error():
    with run_runner() as runner:
        port = runner.addresses[0].rpartition(":")[2]
        error = fail_at(f"ipv6:%5B::1%5D:{port}")
        assert find(error, f"localhost:{port}") is error


@pytest.mark.parametrize(
    "target", ["127.0.0.1:{}", "unix:/nowhere/{}", "ipv4:127.0.0.1:{}", "dns:///nobody.invalid:{}"]
)
def test_target_without_other_addresses_keeps_its_error(target: str):
    with run_stock({}) as address:
        port = address.rpartition(":")[2]
        error = fail_at(f"ipv6:%5B::1%5D:{port}" if "nobody" in target else f"ipv4:127.0.0.1:{port}")
        assert find(error, target.format(port), TLS["credentials"]) is error


@pytest.mark.parametrize("target", ["localhost:{}", "dns:localhost:{}", "dns:///localhost:{}"])
def test_host_names_in_the_notations_of_grpc_are_understood(target: str):
    with run_stock({}) as address:
        port = address.rpartition(":")[2]
        error = find(fail_at(f"ipv6:%5B::1%5D:{port}"), target.format(port), TLS["credentials"])
    assert "WRONG_VERSION_NUMBER" in error.message


def test_coroutine_of_a_blocking_client_must_not_suspend():
    with pytest.raises(RuntimeError, match="suspended"):
        run_now(asyncio.sleep(0))
