"""A client with several connections, some of which lose the server."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain

import grpc
import pytest

from both_clients import CLIENTS, open_client
from server_processes import ServerProcess
from tensor_reshape.client import UnavailableError
from tensor_reshape.client.turns import ChannelTurns
from waits import await_that

State = grpc.ChannelConnectivity


class Relay:
    """Forwards connections to a server, until it is cut."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                pair = self._listener.accept()[0], socket.create_connection(self._target)
                self.pairs.append(pair)
                for one, other in (pair, pair[::-1]):
                    self._threads.append(threading.Thread(target=self._forward, args=(one, other)))
                    self._threads[-1].start()

    @staticmethod
    def _forward(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        _shut(one, other)

    def refuse(self) -> None:
        """Accepts no more connections."""
        _shut(self._listener)
        self._listener.close()

    def close(self) -> None:
        self.refuse()
        self._threads[0].join()
        self.cut(len(self.pairs))
        for thread in self._threads:
            thread.join()
        for one in chain.from_iterable(self.pairs):
            one.close()

    def cut(self, count: int) -> None:
        """Closes the first connections."""
        for pair in self.pairs[:count]:
            _shut(*pair)


def _shut(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay_to(server: ServerProcess) -> Iterator[Relay]:
    relay = Relay(server.address)
    try:
        yield relay
    finally:
        relay.close()


@pytest.mark.parametrize("connections", [2, 4])
@pytest.mark.parametrize("kind", CLIENTS)
def test_calls_succeed_while_one_of_several_connections_is_left(kind: str, connections: int, server: ServerProcess):
    with relay_to(server) as relay, open_client(kind, relay.address, connections=connections) as client:
        client.wait_until_ready()
        assert len(relay.pairs) == connections
        relay.refuse()
        relay.cut(connections - 1)
        for _ in range(2 * connections):
            assert client.infer_shape((2, 3), (-1,)) == [6]


@pytest.mark.parametrize("kind", CLIENTS)
def test_wait_for_all_connections_names_the_cause_of_the_lost_one(kind: str, server: ServerProcess):
    with relay_to(server) as relay, open_client(kind, relay.address, connections=2) as client:
        client.wait_until_ready()
        relay.refuse()
        relay.cut(1)
        errors: list[str] = []

        def is_lost() -> bool:
            """Returns whether the client has noticed the loss."""
            try:
                client.wait_until_ready(timeout=1)
            except UnavailableError as error:
                errors.append(str(error))
            return bool(errors)

        await_that(is_lost)
        assert "connection refused" in errors[0]


def test_lost_channels_get_no_turn_unless_all_are_lost():
    states: dict[str, State | None] = {"a": State.READY, "b": State.IDLE, "c": State.TRANSIENT_FAILURE, "d": None}
    turns = ChannelTurns(list(states), states.__getitem__)
    assert [turns.take() for _ in range(7)] == ["a", "b", "d", "a", "b", "d", "a"]
    assert turns.find_lost() == ("c", State.TRANSIENT_FAILURE)
    lost = ChannelTurns(list(states), lambda _: State.TRANSIENT_FAILURE)
    assert {lost.take() for _ in range(4)} == set(states)


def test_lone_channel_gets_each_turn():
    lone = ChannelTurns(["a"], lambda _: State.TRANSIENT_FAILURE)
    assert [lone.take(), lone.take()] == ["a", "a"]
    assert ChannelTurns(["a", "b"], lambda _: State.READY).find_lost() == ("a", State.READY)
