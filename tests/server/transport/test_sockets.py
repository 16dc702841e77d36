"""The sockets of this process, found among its descriptors."""

import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import pytest

from http2 import SERVICE_PATH
from in_process import run_stock
from tensor_reshape.server.transport.sockets import count_descriptors, find_connections, find_listeners, hold, name_peer


def find_port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def test_a_descriptor_more_counts():
    before = count_descriptors()
    with Path(os.devnull).open("rb"):
        assert count_descriptors() == before + 1
    assert count_descriptors() == before


def test_what_listens_on_a_port_is_found_and_nothing_else(listener: socket.socket):
    with socket.create_server(("127.0.0.1", 0)):
        found = [one.getsockname() for one in find_listeners({find_port(listener)})]
    assert found == [listener.getsockname()]


def test_the_servers_ends_of_connections_are_found_with_their_numbers(listener: socket.socket):
    with ExitStack() as stack:
        client = stack.enter_context(socket.create_connection(listener.getsockname(), 10))
        served = stack.enter_context(listener.accept()[0])
        found = [(number, one.getpeername()) for number, one in find_connections({find_port(listener)})]
        assert found == [(served.fileno(), client.getsockname())]


def test_a_handle_is_another_descriptor_that_is_closed_afterwards(listener: socket.socket):
    before = count_descriptors()
    with hold(listener.fileno(), {find_port(listener)}) as held:
        assert held.fileno() != listener.fileno()
        assert held.getsockname() == listener.getsockname()
    assert count_descriptors() == before
    assert listener.fileno() >= 0


@pytest.mark.parametrize("of", ["another port", "a file", "nothing"])
def test_what_is_no_socket_of_the_ports_is_not_held_and_leaves_no_descriptor(listener: socket.socket, of: str):
    with Path(os.devnull).open("rb") as file:
        number = {"another port": listener.fileno(), "a file": file.fileno(), "nothing": 10**6}[of]
        before = count_descriptors()
        with pytest.raises(OSError), hold(number, {1}):  # noqa: PT011 - any: the socket is not there
            pass
        assert count_descriptors() == before


def find_host(scope: str) -> str:
    """Returns an address of this machine that means something in this scope of IPv6, as the kernel writes scopes."""
    with suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            digits, _, _, found, _, interface = line.split()
            if found == scope:
                host = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
                return f"[{host}%{interface}]" if scope == LINK else f"[{host}]"
    pytest.skip("no such address")


HOST, LINK = "10", "20"


@pytest.mark.parametrize("scope", ["", HOST, LINK])
def test_a_connection_is_named_as_grpcio_names_it(scope: str):
    peers: list[str] = []

    def note(_: bytes, context: grpc.ServicerContext) -> bytes:
        peers.append(context.peer())
        return b""

    host = find_host(scope) if scope else "127.0.0.1"
    with run_stock({"Reshape": note}, host=host) as address, grpc.insecure_channel(address) as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{SERVICE_PATH}Reshape")
        method(b"", timeout=60)
        port = int(address.rpartition(":")[2])
        assert [name_peer(one) for _, one in find_connections({port})] == peers
