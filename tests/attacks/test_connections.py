"""Connections that a stranger opens, and says nothing on, or does not answer, or has too many of."""

import socket
import time

import pytest

from http2 import PREFACE, Connection, frame
from in_process import run_runner
from plain_requests import STATIC_RESHAPE, build_static_request
from polite_clients import run_polite_clients
from server_processes import run_server
from strangers import call_anew, connect, retry
from tensor_reshape.server.transport import options

SECONDS = 60.0  # less than what the transport has by default for each of these
AGE_SECONDS = 1
SETTINGS = frame(4, 0, 0) + frame(4, 1, 0)  # its own, and that it has seen the server's


def await_end(stranger: socket.socket) -> float:
    """Returns after how many seconds the server has closed the connection."""
    began = time.monotonic()
    stranger.settimeout(SECONDS)
    try:
        while stranger.recv(65536):
            pass
    except ConnectionError:
        pass
    return time.monotonic() - began


def is_open(stranger: socket.socket) -> bool:
    stranger.setblocking(False)
    try:
        return bool(stranger.recv(65536))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def call_on(connection: Connection) -> str:
    """Returns the status of a call."""
    return connection.call(STATIC_RESHAPE, build_static_request()).status


def test_connections_without_a_greeting_are_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "HANDSHAKE_SECONDS", 1.0)
    with run_runner() as runner:
        (address,) = runner.addresses
        for content in (b"", PREFACE[:10], PREFACE):
            with connect(address, content) as stranger:
                assert await_end(stranger) < SECONDS, content
        assert call_anew(address)


def test_connections_without_a_call_are_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "IDLE_SECONDS", 1.0)
    with run_runner() as runner:
        (address,) = runner.addresses
        with Connection(address) as connection:
            assert connection.call(STATIC_RESHAPE, build_static_request()).is_ok
            assert connection.await_(lambda: bool(connection.closed))
        assert call_anew(address)


def test_connection_without_ping_replies_is_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "KEEPALIVE_SECONDS", 1.0)
    with run_runner() as runner, Connection(runner.addresses[0]) as polite:
        with connect(runner.addresses[0], PREFACE + SETTINGS) as stranger:
            assert await_end(stranger) < SECONDS
        assert not polite.closed
        assert polite.call(STATIC_RESHAPE, build_static_request()).is_ok


def test_old_connections_are_replaced_without_a_failed_call():
    with run_server("--max-connection-age-seconds", f"{AGE_SECONDS}") as server:
        with Connection(server.address) as connection:
            assert connection.await_(lambda: bool(connection.goaway))
        with run_polite_clients(server.address, ("sdk", "mib")) as clients:
            began = time.monotonic()
            clients.await_call(lambda call: call.began > began + 5 * AGE_SECONDS)
            figures = clients.stop()
    assert [seen.failures for seen in figures.values()] == [[], []]


def test_connections_above_the_limit_are_closed_and_others_go_on():
    with run_server("--max-connections", "6") as server, Connection(server.address) as polite:
        assert polite.call(STATIC_RESHAPE, build_static_request()).is_ok
        strangers = [connect(server.address) for _ in range(20)]
        assert retry(lambda: call_on(polite) == "0" and sum(map(is_open, strangers)) <= 5)
        assert not polite.closed
        for stranger in strangers:
            stranger.close()
        assert retry(lambda: call_anew(server.address))
