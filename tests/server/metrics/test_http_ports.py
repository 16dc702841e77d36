"""The port for Prometheus serves its page, whatever else comes there."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from http_calls import connect, receive_all
from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.metrics import http_ports
from tensor_reshape.server.metrics.http_ports import CONNECTIONS_PER_SECOND, MetricsPort

GET = b"GET /metrics HTTP/1.1\r\n\r\n"
PAGE = b"page\n" * 100_000
WAIT_SECONDS = 60.0


@contextmanager
def serve(render: Callable[[], bytes] = lambda: PAGE, address: str = "127.0.0.1:0") -> Iterator[MetricsPort]:
    port = MetricsPort(address, "text/plain", render)
    port.start()
    try:
        yield port
    finally:
        port.stop()


def ask(port: MetricsPort, request: bytes) -> tuple[bytes, bytes]:
    """Returns the first line of the answer, and its body."""
    with connect(port.address) as connection:
        connection.sendall(request)
        head, _, body = receive_all(connection).partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


def test_page_is_served_and_other_requests_are_refused():
    answers = {
        b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n": (b"200 OK", PAGE),
        b"GET /metrics?x=y HTTP/1.0\r\nHost: a\r\n\r\n": (b"200 OK", PAGE),
        b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n": (b"200 OK", b""),
        b"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n": (b"405 Method Not Allowed", b""),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n": (b"404 Not Found", b""),
        b"GET /metrics/../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n": (b"404 Not Found", b""),
        b"\x16\x03\x01\x02\x00\r\nHost: a\r\n\r\n": (b"404 Not Found", b""),
        b"GET /metrics HTTP/1.1\r\nX: ".ljust(8192, b"x"): (b"400 Bad Request", b""),  # longer than it may be
    }
    with serve() as port:
        for request, (status, body) in answers.items():
            assert ask(port, request) == (b"HTTP/1.1 " + status, body)


def test_request_may_come_in_pieces():
    with serve() as port, connect(port.address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (b"GET /metr", b"ics HTTP/1.1\r\n", b"\r", b"\n"):
            connection.sendall(piece)
        assert receive_all(connection).endswith(PAGE)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_ports, "REQUEST_SECONDS", 0.5)


@pytest.mark.usefixtures("hasty")
def test_silent_connections_are_closed_and_do_not_block_others():
    with serve() as port, ExitStack() as stack:
        silent = [stack.enter_context(connect(port.address)) for _ in range(10)]
        assert ask(port, GET)[1] == PAGE
        assert [receive_all(connection) for connection in silent] == [b""] * 10


@pytest.mark.usefixtures("hasty")
def test_connection_that_does_not_read_is_closed():
    # A page of more bytes than the system keeps for the connection.
    with serve(lambda: bytes(1 << 26)) as port, connect(port.address) as connection:
        connection.sendall(GET)
        assert connection.recv(1) == b"H"
        ended = asyncio.wait(set(port._tasks), return_when=asyncio.FIRST_COMPLETED)
        asyncio.run_coroutine_threadsafe(ended, port._loop).result(WAIT_SECONDS)
        assert len(receive_all(connection)) < 1 << 26


def test_connections_per_second_are_limited():
    count = CONNECTIONS_PER_SECOND
    began = time.monotonic()
    with serve() as port, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(port, b"HEAD /metrics HTTP/1.1\r\n\r\n"), range(count)))
    assert {line for line, _ in answers} == {b"HTTP/1.1 200 OK"}
    assert time.monotonic() - began > 0.9 * (count - 1) / CONNECTIONS_PER_SECOND


def test_page_that_fails_is_logged_and_the_next_is_served(caplog: pytest.LogCaptureFixture):
    pages: Iterator[bytes | ValueError] = iter([ValueError("secret"), b"second"])

    def render() -> bytes:
        page = next(pages)
        if isinstance(page, ValueError):
            raise page
        return page

    with serve(render) as port:
        assert ask(port, GET) == (b"HTTP/1.1 500 Internal Server Error", b"")
        assert ask(port, GET) == (b"HTTP/1.1 200 OK", b"second")
    assert [record.message for record in caplog.records] == ["bug"]


def test_address_is_taken_until_the_port_stops():
    with serve() as port:
        with pytest.raises(ConfigError, match="cannot listen on"):
            MetricsPort(port.address, "text/plain", bytes)
        assert ask(port, b"GET / HTTP/1.1\r\n\r\n")[0].endswith(b"404 Not Found")
    with serve(lambda: b"again", port.address) as again:
        assert ask(again, GET)[1] == b"again"
