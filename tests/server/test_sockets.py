"""The sockets of this process, found among its descriptors."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tensor_reshape.server.transport.sockets import count_descriptors, find_connections, find_listeners, hold


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


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
