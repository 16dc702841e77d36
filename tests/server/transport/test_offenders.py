"""How connections that do harm are silenced, and closed."""

import logging
import socket
from collections.abc import Collection, Iterator
from itertools import count

import pytest

from tensor_reshape.server.transport import offenders
from tensor_reshape.server.transport.offenders import OffenderCloser

NOW = 1000.0
SILENCE_SECONDS = 2.0
SECONDS = 60.0


def name(client: socket.socket) -> str:
    return f"ipv4:127.0.0.1:{client.getsockname()[1]}"


def make(listener: socket.socket, *offenders: socket.socket) -> OffenderCloser:
    """Returns one that is told once of each."""
    waiting = [{name(client): SILENCE_SECONDS} for client in offenders]
    return OffenderCloser({listener.getsockname()[1]}, lambda: waiting.pop() if waiting else {})


class SlowClock:
    """By which everything takes a second."""

    def __init__(self) -> None:
        self._count = count()

    def perf_counter(self) -> float:
        return next(self._count)


def hears(served: socket.socket, seconds: float) -> bool:
    served.settimeout(seconds)
    try:
        return bool(served.recv(100))
    except (TimeoutError, BlockingIOError):
        return False


def test_nothing_is_heard_of_an_offender(listener: socket.socket, pair: tuple[socket.socket, socket.socket]):
    client, served = pair
    client.sendall(b"before")
    assert hears(served, SECONDS)
    make(listener, client).look(NOW)
    client.sendall(b"after")
    assert not hears(served, 0.3)


def test_what_has_come_from_an_offender_and_was_not_read_is_forgotten(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket]
):
    client, served = pair
    client.sendall(b"before")
    served.settimeout(SECONDS)
    assert served.recv(100, socket.MSG_PEEK)
    make(listener, client).look(NOW)
    assert not hears(served, 0)


def test_all_sockets_that_have_the_name_of_an_offender_are_silenced_and_closed(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket]
):
    client, served = pair
    closer = make(listener, client)
    with served.dup():  # as another thread has one that looks at the connection just now
        closer.look(NOW)
        closer.look(NOW + SILENCE_SECONDS + 0.1)
    assert served.recv(1) == b""
    assert not closer._silenced


def test_an_offender_is_closed_after_its_silence_and_not_before(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket]
):
    client, served = pair
    closer = make(listener, client)
    closer.look(NOW)
    closer.look(NOW + SILENCE_SECONDS - 0.1)
    assert not hears(served, 0.3)
    closer.look(NOW + SILENCE_SECONDS + 0.1)
    assert served.recv(1) == b""
    assert client.recv(1) == b""


def test_the_silence_of_an_offender_that_is_named_again_is_not_prolonged(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket]
):
    closer = make(listener, pair[0], pair[0])
    closer.look(NOW)
    closer.look(NOW + SILENCE_SECONDS - 0.1)
    closer.look(NOW + SILENCE_SECONDS + 0.1)
    assert pair[1].recv(1) == b""


def test_an_offender_that_was_not_found_is_closed_when_it_is_named_again(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
):
    closer = make(listener, pair[0], pair[0])
    with monkeypatch.context() as patch:
        patch.setattr(offenders, "find_connections", find_nothing)
        closer.look(NOW)
    closer.look(NOW + 1)
    with monkeypatch.context() as patch:
        patch.setattr(offenders, "find_connections", find_nothing)
        closer.look(NOW + SILENCE_SECONDS + 2)
    closer.look(NOW + SILENCE_SECONDS + 2.1)
    assert pair[1].recv(1) == b""


def test_an_offender_that_has_gone_by_itself_is_forgotten(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket]
):
    closer = make(listener, pair[0])
    closer.look(NOW)
    pair[1].close()
    closer.look(NOW + 60)
    assert not closer._silenced


def find_nothing(ports: Collection[int]) -> Iterator[tuple[int, socket.socket]]:
    """As where there is no descriptor left."""
    del ports
    return iter(())


def test_others_are_heard(listener: socket.socket, pair: tuple[socket.socket, socket.socket]):
    with socket.create_connection(listener.getsockname(), SECONDS) as other, listener.accept()[0] as served:
        closer = make(listener, pair[0])
        closer.look(NOW)
        closer.look(NOW + SILENCE_SECONDS + 0.1)
        other.sendall(b"x")
        assert hears(served, SECONDS)


def test_where_nothing_can_be_dropped_a_connection_is_closed_at_once(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(offenders, "_SO_ATTACH_FILTER", 9999)
    make(listener, pair[0]).look(NOW)
    assert pair[1].recv(1) == b""


def test_one_line_is_logged_however_many_have_to_go(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
):
    with socket.create_connection(listener.getsockname(), SECONDS) as other, listener.accept()[0]:
        closer = make(listener, pair[0], other)
        with caplog.at_level(logging.WARNING):
            closer.look(NOW)
            closer.look(NOW + 1)
    assert len(caplog.records) == 1


def test_to_look_takes_a_part_of_the_time_alone(
    listener: socket.socket, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
):
    with socket.create_connection(listener.getsockname(), SECONDS) as other, listener.accept()[0] as served:
        closer = make(listener, pair[0], other)
        monkeypatch.setattr(offenders, "time", SlowClock())
        closer.look(NOW)
        closer.look(NOW + 4)
        pair[0].sendall(b"x")  # of the two, the one that was not looked for yet is still heard
        other.sendall(b"x")
        assert hears(served, 0.3) != hears(pair[1], 0.3)
