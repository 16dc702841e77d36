"""Addresses that can be bound, and addresses that are rejected because another program uses them."""

from collections.abc import Iterator

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


def test_reserved_port_can_be_bound_only_with_so_reuseport():
    with hold("127.0.0.1:0") as address:
        with pytest.raises(ConfigError), hold(address):
            pytest.fail("the port is reserved twice")
        sharing = Server([], Sources(), [("grpc.so_reuseport", 1)])
        assert bind(sharing, address, None, held=True) == address
        sharing.stop()


@pytest.mark.parametrize(("address", "count"), [("unix:/tmp/any.sock", 1), ("[::1]:0", 1), ("no.such.invalid:1", 1)])
def test_host_name_counts_as_one_listener_per_resolved_address(address: str, count: int):
    assert count_listeners(address) == count
