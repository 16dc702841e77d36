"""Proxy settings in the environment, and the targets to which they apply."""

import socket

import pytest

from both_clients import CLIENTS, open_client
from server_processes import ServerProcess
from tensor_reshape.client import Client, UnavailableError


@pytest.fixture(autouse=True)
def _proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets a proxy that does not exist, and removes all other proxy settings from the environment."""
    for name in ("https_proxy", "grpc_proxy", "no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")


@pytest.mark.parametrize("kind", CLIENTS)
def test_clients_ignore_http_proxy_for_local_targets(kind: str, server: ServerProcess):
    port, sock = server.address.rpartition(":")[2], server.addresses[1]
    for target in (server.address, f"localhost:{port}", f"dns:///localhost:{port}", f"ipv4:127.0.0.1:{port}", sock):
        with open_client(kind, target) as client:
            assert client.infer_shape([2, 3], [-1], timeout=20) == (6,), target


def test_remote_targets_use_the_http_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        proxy.settimeout(20)
        with Client("reshape.example:50051") as client:
            health = client.submit(client.check_health, timeout=20)
            connection, _ = proxy.accept()
            with connection:
                assert connection.recv(1000).startswith(b"CONNECT reshape.example:50051 HTTP/1.")
            assert isinstance(health.exception(60), UnavailableError)
