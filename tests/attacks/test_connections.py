"""Connections without traffic, without replies, or above the limit are closed."""

import socket
import time
from http import HTTPStatus

import pytest

from attack_runs import count_errors
from http2 import PREFACE, Connection, frame
from http_calls import connect, find_http, post, write_request
from in_process import run_runner
from meters import count_descriptors
from plain_requests import STATIC_RESHAPE, build_static_request, can_call
from server_processes import run_server
from steady_clients import run_steady_clients
from tensor_reshape.server.grpc import options
from tensor_reshape.server.process.resources import RESERVED_DESCRIPTORS
from waits import await_that

SECONDS = 60.0  # less than the default timeout of each of these cases
AGE_SECONDS = 1
SETTINGS = frame(4, 0, 0) + frame(4, 1, 0)  # its own settings, and the acknowledgement of the server's


def await_end(silent: socket.socket) -> float:
    """Returns the seconds until the server closes the connection."""
    began = time.monotonic()
    silent.settimeout(SECONDS)
    try:
        while silent.recv(65536):
            pass
    except ConnectionError:
        pass
    return time.monotonic() - began


def is_open(silent: socket.socket) -> bool:
    silent.setblocking(False)
    try:
        return bool(silent.recv(65536))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def call_on(connection: Connection) -> str:
    """Returns the status of a call."""
    return connection.call(STATIC_RESHAPE, build_static_request()).status


def test_connections_without_an_http2_handshake_are_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "HANDSHAKE_SECONDS", 1.0)
    with run_runner() as runner:
        (address,) = runner.addresses
        for content in (b"", PREFACE[:10], PREFACE):
            with connect(address) as silent:
                silent.sendall(content)
                assert await_end(silent) < SECONDS, content
        assert can_call(address)


def test_idle_connections_are_closed_after_a_timeout(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "IDLE_SECONDS", 1.0)
    with run_runner() as runner:
        (address,) = runner.addresses
        with Connection(address) as connection:
            assert connection.call(STATIC_RESHAPE, build_static_request()).is_ok
            assert connection.await_(lambda: bool(connection.closed))
        assert can_call(address)


def test_connection_without_ping_replies_is_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "KEEPALIVE_SECONDS", 1.0)
    with run_runner() as runner, Connection(runner.addresses[0]) as other:
        with connect(runner.addresses[0]) as silent:
            silent.sendall(PREFACE + SETTINGS)
            assert await_end(silent) < SECONDS
        assert not other.closed
        assert other.call(STATIC_RESHAPE, build_static_request()).is_ok


def test_no_call_fails_when_max_connection_age_closes_connections():
    with run_server("--max-connection-age-seconds", f"{AGE_SECONDS}") as server:
        with Connection(server.address) as connection:
            assert connection.await_(lambda: bool(connection.goaway))
        with run_steady_clients(server.address, ("sdk", "mib")) as clients:
            began = time.monotonic()
            clients.await_call(lambda call: call.began > began + 5 * AGE_SECONDS)
            figures = clients.stop()
    assert [seen.failures for seen in figures.values()] == [[], []]


def test_connections_above_the_descriptor_limit_do_not_close_others():
    limit = ("sh", "-c", f'ulimit -n {RESERVED_DESCRIPTORS + 6}; exec "$0" "$@"')
    with run_server(prefix=limit) as server, Connection(server.address) as other:
        assert other.call(STATIC_RESHAPE, build_static_request()).is_ok
        silents = [connect(server.address) for _ in range(20)]
        await_that(lambda: call_on(other) == "0" and sum(map(is_open, silents)) <= 5)
        assert not other.closed
        for silent in silents:
            silent.close()
        await_that(lambda: can_call(server.address))


def test_half_closed_http_connections_leave_no_descriptor_and_no_error():
    with run_server("--http-listen", "127.0.0.1:0") as server:
        http = find_http(server)
        assert post(http).code == HTTPStatus.OK
        pid = server.find_pid(2)  # the process that serves HTTP
        before = count_descriptors(pid)
        for sent in (b"", b"POST /", write_request(b"{", length=9), write_request(b"{}")) * 20:
            with connect(http) as connection:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                await_end(connection)
        await_that(lambda: count_descriptors(pid) <= before)
        assert count_errors(server.records) == 0
