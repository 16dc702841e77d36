"""The sockets under a server: how it stops listening, and has clients leave, before it stops."""

import socket
import struct
from collections.abc import Callable
from contextlib import suppress

import pytest

from tensor_reshape.server.transport.dismissals import HEARING_SECONDS, Dismissal, close_listeners

GOAWAY = 7


def find_port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def name(client: socket.socket) -> str:
    return f"ipv4:127.0.0.1:{client.getsockname()[1]}"


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def do(_name: str, action: Callable[[], bool]) -> None:
    action()


def test_a_closed_listener_takes_nobody(listener: socket.socket):
    assert close_listeners([find_port(listener)])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(listener.getsockname(), 10)


def test_a_closed_listener_keeps_its_connections(listener: socket.socket, pair: tuple[socket.socket, socket.socket]):
    client, server = pair
    close_listeners([find_port(listener)])
    server.sendall(b"here")
    assert client.recv(4) == b"here"


def test_others_go_on_listening(listener: socket.socket):
    with socket.create_server(("127.0.0.1", 0)) as other:
        close_listeners([find_port(listener)])
        socket.create_connection(other.getsockname(), 10).close()


def test_nothing_is_closed_where_nobody_listens():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert not close_listeners([unused.getsockname()[1]])


def test_an_idle_client_is_told_once_and_given_time(listener: socket.socket, pair: tuple[socket.socket, socket.socket]):
    client, _ = pair
    dismissal, now = Dismissal([find_port(listener)], do), 0.0
    assert [dismissal.advance(now + later) for later in (0, HEARING_SECONDS / 2, HEARING_SECONDS)] == [
        False,
        False,
        True,
    ]
    frame = client.recv(100)
    assert (frame[3], struct.unpack("!II", frame[9:])) == (GOAWAY, (2**31 - 1, 0))
    assert len(frame) == 17


def test_an_idle_connection_that_is_encrypted_is_closed_and_nothing_is_written_into_it(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket]
):
    client, _ = pair
    Dismissal([find_port(listener)], do, closes=True).advance(0.0)
    client.settimeout(10)
    assert client.recv(100) == b""


@pytest.mark.skipif(not has_ipv6(), reason="the system has no IPv6")
def test_a_client_of_ipv6_is_told():
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as listener,
        socket.create_connection(listener.getsockname()[:2], 10) as client,
        listener.accept()[0],
    ):
        Dismissal([find_port(listener)], do).advance(0.0)
        assert len(client.recv(100)) == 17


def test_a_busy_client_is_told_when_it_is_idle(listener: socket.socket, pair: tuple[socket.socket, socket.socket]):
    client, _ = pair
    busy = {name(client)}
    dismissal = Dismissal([find_port(listener)], lambda peer, action: None if peer in busy else do(peer, action))
    assert [dismissal.advance(now) for now in (0.0, 1.0)] == [False, False]
    busy.clear()
    assert [dismissal.advance(now) for now in (2.0, 3.0)] == [False, True]
    assert len(client.recv(100)) == 17


def test_a_client_that_does_not_take_what_was_sent_is_not_written_to(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket]
):
    client, server = pair
    server.setblocking(False)
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += server.send(bytes(1 << 20))
    assert [Dismissal([find_port(listener)], do).advance(now) for now in (0.0, 1.0)] == [False, False]
    received = b""
    while len(received) < sent:
        received += client.recv(1 << 20)
    assert not any(received)


def test_where_nobody_is_connected_there_is_nobody_to_wait_for(listener: socket.socket):
    assert Dismissal([find_port(listener)], do).advance(0.0)
