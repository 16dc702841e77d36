"""Addresses that can be bound, and addresses that are rejected because another program uses them."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensor_reshape.server.calls.sources import Sources
from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.grpc.servers import Server
from tensor_reshape.server.process.listeners import bind, count_listeners, hold


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server([], Sources(), [("grpc.so_reuseport", 0)])
    yield server
    server.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_binding_port_0_returns_the_actual_port(server: Server, host: str):
    address = bind(server, f"{host}:0", None)
    assert address.rpartition(":")[0] == host
    assert int(address.rpartition(":")[2]) > 0


def test_listen_port_in_use_is_rejected(server: Server):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"cannot listen on {address}"):
            bind(server, address, None)


def test_stale_unix_socket_is_replaced_but_used_socket_rejected(server: Server, tmp_path: Path):
    path = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(ConfigError, match="another server listens on this socket"):
            bind(server, f"unix:{path}", None)
    assert path.exists()
    assert bind(server, f"unix:{path}", None) == f"unix:{path}"


def test_reserved_port_can_be_bound_only_with_so_reuseport():
    with hold("127.0.0.1:0") as address:
        with pytest.raises(ConfigError), hold(address):
            pytest.fail("the port is reserved twice")
        sharing = Server([], Sources(), [("grpc.so_reuseport", 1)])
        assert bind(sharing, address, None, held=True) == address
        sharing.stop()


def test_unix_socket_address_counts_as_one_listener():
    assert count_listeners("unix:/tmp/any.sock") == 1


@pytest.mark.parametrize(("address", "count"), [("127.0.0.1:0", 1), ("[::1]:0", 1), ("no.such.name.invalid:1", 1)])
def test_host_name_counts_as_one_listener_per_resolved_address(address: str, count: int):
    assert count_listeners(address) == count
