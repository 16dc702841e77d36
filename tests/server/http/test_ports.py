"""The HTTP port: its limit of connections, TLS, draining."""

import asyncio
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from certificates import Certificates, issue_certificates
from http_calls import connect, read_answer, receive_all, request, write_request
from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.http import connections, ports
from tensor_reshape.server.http.connections import FindContext
from tensor_reshape.server.http.ports import HttpPort
from tensor_reshape.server.http.responses import JSON_FORM
from waits import WAIT_SECONDS, await_that

ANY = "127.0.0.1:0"
LARGE_BYTES = 64 << 20


class Waiting:
    """An application whose responses wait, except those to /now."""

    def __init__(self) -> None:
        self.arrived = threading.Semaphore(0)
        self.released = threading.Event()
        self._threads = ThreadPoolExecutor()  # because the event loop waits at its end for its own threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != "/now":
            self.arrived.release()
            with suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().run_in_executor(self._threads, self.released.wait, WAIT_SECONDS)
        await JSON_FORM.build_response(b"1")(scope, receive, send)


async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
    """An application whose response never fits into the socket buffer at once."""
    await JSON_FORM.build_response(bytes(LARGE_BYTES))(scope, receive, send)


def make_port(app: ASGIApp, find_context: FindContext | None = None, address: str = ANY) -> HttpPort:
    return HttpPort(address, app, find_context, shares=False)


@contextmanager
def serve(find_context: FindContext | None = None, app: ASGIApp | None = None) -> Iterator[tuple[HttpPort, Waiting]]:
    waiting = Waiting()
    port = make_port(app or waiting, find_context)
    port.start()
    try:
        yield port, waiting
    finally:
        waiting.released.set()
        port.end()


@contextmanager
def connect_busy(port: HttpPort, app: Waiting) -> Iterator[socket.socket]:
    """Opens a connection with a request that waits for its response."""
    with connect(port.address) as connection:
        connection.sendall(write_request(b""))
        assert app.arrived.acquire(timeout=WAIT_SECONDS)
        yield connection


def ask_now(connection: socket.socket) -> tuple[int, bytes]:
    connection.sendall(write_request(b"", path="/now", method="GET"))
    return read_answer(connection)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return issue_certificates(tmp_path_factory.mktemp("certificates"))


def make_contexts(files: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Returns the server's socket and a client's socket."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server, files.server_key)
    return context, ssl.create_default_context(cafile=str(files.authority))


def ask_over_tls(port: HttpPort, trusted: ssl.SSLContext) -> int:
    return request(port.address.replace("127.0.0.1", "localhost"), "GET", "/now", context=trusted).code


def test_idle_http_connections_are_closed_for_new_connections(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    with serve() as (port, _), ExitStack() as stack:
        silent = [stack.enter_context(connect(port.address)) for _ in range(20)]
        assert request(port.address, "GET", "/now").code == 200
        assert [receive_all(connection) for connection in silent[:16]] == [b""] * 16


def test_new_http_connections_close_no_busy_connection_of_their_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    with serve() as (port, app), connect_busy(port, app) as one, connect_busy(port, app) as two:
        with connect(port.address) as other:
            assert receive_all(other) == b""
        app.released.set()
        assert [read_answer(connection) for connection in (one, two)] == [(200, b"1")] * 2


def test_new_host_replaces_a_busy_http_connection_of_another_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    with serve() as (port, app), ExitStack() as stack:
        first, *others = [stack.enter_context(connect_busy(port, app)) for _ in range(3)]
        host, _, number = port.address.rpartition(":")
        with socket.create_connection((host, int(number)), WAIT_SECONDS, source_address=("127.0.0.2", 0)) as newcomer:
            assert ask_now(newcomer) == (200, b"1")
        assert receive_all(first) == b""
        app.released.set()
        assert [read_answer(connection) for connection in others] == [(200, b"1")] * 2


def test_http_connection_limit_closes_connections_of_the_busiest_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    hosts = dict[str, str]()
    monkeypatch.setattr(connections, "find_address", lambda name: hosts.setdefault(name, "many" if hosts else "one"))
    with serve() as (port, _), ExitStack() as stack:
        first = stack.enter_context(connect(port.address))
        others = [stack.enter_context(connect(port.address)) for _ in range(10)]
        assert [receive_all(connection) for connection in others[:8]] == [b""] * 8
        assert ask_now(first) == (200, b"1")


def test_busy_host_closes_no_idle_http_connection_of_another_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    hosts = dict[str, str]()
    monkeypatch.setattr(connections, "find_address", lambda name: hosts.setdefault(name, "many" if hosts else "one"))
    with serve() as (port, app), connect(port.address) as idle:
        assert ask_now(idle) == (200, b"1")
        with connect_busy(port, app), connect_busy(port, app), connect(port.address) as more:
            assert receive_all(more) == b""
            assert ask_now(idle) == (200, b"1")


@pytest.mark.parametrize("sent", [b"", b"GET /now HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00"])
def test_plain_text_connection_to_the_https_port_is_closed(
    files: Certificates, monkeypatch: pytest.MonkeyPatch, sent: bytes
):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    context, trusted = make_contexts(files)
    with serve(lambda: context) as (port, _), connect(port.address) as connection:
        connection.sendall(sent)
        assert b"HTTP" not in receive_all(connection)
        assert ask_over_tls(port, trusted) == 200


def test_draining_http_port_closes_only_idle_connections():
    with serve() as (port, app), connect(port.address) as idle, connect_busy(port, app) as busy:
        port.drain()
        assert receive_all(idle) == b""
        assert not port.is_idle
        with pytest.raises(ConnectionRefusedError):
            connect(port.address)
        app.released.set()
        assert receive_all(busy).endswith(b"\r\n\r\n1")


def test_stopped_http_port_closes_busy_connections():
    with serve() as (port, app), connect_busy(port, app) as busy:
        port.end()
        assert receive_all(busy) == b""


def test_http_connection_sets_tcp_nodelay_and_a_short_switch_interval():
    before = sys.getswitchinterval()
    with serve() as (port, _):
        with connect(port.address) as connection:
            ask_now(connection)
            assert sys.getswitchinterval() < before
            (served,) = port._connections._open
            accepted = served.transport.get_extra_info("socket")
            # Without this option, the body of a response waits for the acknowledgement of its headers.
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        port.drain()
        port.end()
    assert sys.getswitchinterval() == before


def test_draining_https_port_does_not_wait_for_tls_shutdown(files: Certificates):
    context, trusted = make_contexts(files)
    with (
        serve(lambda: context) as (port, _),
        trusted.wrap_socket(connect(port.address), server_hostname="localhost") as idle,
    ):
        assert ask_now(idle) == (200, b"1")
        port.drain()
        await_that(lambda: port.is_idle, seconds=20.0)  # asyncio by itself would wait 30 seconds


def test_http_connection_that_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ports, "UNREAD_SECONDS", 0.2)
    with serve(app=send_much) as (port, _), connect(port.address) as deaf:
        deaf.sendall(write_request(b""))
        assert deaf.recv(1, socket.MSG_PEEK)  # before the connection is admitted, the port is idle, too
        await_that(lambda: port.is_idle)
        assert len(receive_all(deaf)) < LARGE_BYTES


def test_slow_http_client_gets_the_whole_response():
    with serve(app=send_much) as (port, _), connect(port.address) as slow:
        slow.sendall(write_request(b"", b"Connection: close"))
        assert sum(iter(lambda: len(slow.recv(4096)), 0)) > LARGE_BYTES


def test_failed_http_connection_does_not_count_toward_the_limit():
    def find() -> ssl.SSLContext:
        raise ValueError

    with serve(find) as (port, _), connect(port.address) as connection:
        assert receive_all(connection) == b""
        await_that(lambda: port.is_idle)


def test_http_address_is_in_use_until_the_port_stops():
    port = make_port(Waiting())  # this port is never started
    with pytest.raises(ConfigError, match="cannot listen on"):
        make_port(Waiting(), address=port.address)
    port.end()
    make_port(Waiting(), address=port.address).end()


def test_server_process_ends_when_its_http_thread_ends(monkeypatch: pytest.MonkeyPatch):
    reasons = SimpleQueue[str]()

    async def fail(_server: uvicorn.Server, _counter: int) -> bool:
        raise ValueError

    monkeypatch.setattr(ports, "end_process", reasons.put)
    monkeypatch.setattr(uvicorn.Server, "on_tick", fail)
    with serve():
        assert reasons.get(timeout=WAIT_SECONDS) == "the thread that serves HTTP has ended"
