"""The port where Prometheus asks answers it, whatever else comes there."""

import asyncio
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.metrics.http_ports import CONNECTIONS_PER_SECOND, MetricsPort

PAGE = b"page\n" * 100_000
WAIT_SECONDS = 60.0


@pytest.fixture
def port() -> Iterator[MetricsPort]:
    port = MetricsPort("127.0.0.1:0", "text/plain", lambda: PAGE)
    port.start()
    yield port
    port.stop()


def connect(port: MetricsPort) -> socket.socket:
    host, _, number = port.address.rpartition(":")
    return socket.create_connection((host, int(number)), WAIT_SECONDS)


def receive_all(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(1 << 16):
        received += chunk
    return received


def ask(port: MetricsPort, request: bytes) -> tuple[bytes, bytes]:
    """Returns the first line of the answer, and what follows its head."""
    with connect(port) as connection:
        connection.sendall(request)
        head, _, body = receive_all(connection).partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1", b"200 OK", PAGE),
        (b"GET /metrics?x=y HTTP/1.0", b"200 OK", PAGE),
        (b"HEAD /metrics HTTP/1.1", b"200 OK", b""),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed", b""),
        (b"GET / HTTP/1.1", b"404 Not Found", b""),
        (b"GET /metrics/../../etc/passwd HTTP/1.1", b"404 Not Found", b""),
        (b"\x16\x03\x01\x02\x00", b"404 Not Found", b""),
    ],
)
def test_the_page_is_shown_and_nothing_else(port: MetricsPort, request_line: bytes, status: bytes, body: bytes):
    assert ask(port, request_line + b"\r\nHost: a\r\n\r\n") == (b"HTTP/1.1 " + status, body)


def test_a_request_without_an_end_is_refused_when_it_is_long(port: MetricsPort):
    assert ask(port, b"GET /metrics HTTP/1.1\r\nX: ".ljust(8192, b"x")) == (b"HTTP/1.1 400 Bad Request", b"")


def test_a_request_may_come_in_pieces(port: MetricsPort):
    with connect(port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (b"GET /metr", b"ics HTTP/1.1\r\n", b"\r", b"\n"):
            connection.sendall(piece)
        assert receive_all(connection).endswith(PAGE)


def test_who_says_nothing_is_sent_away_and_keeps_nobody_waiting(port: MetricsPort):
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(port)) for _ in range(10)]
        assert ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")[1] == PAGE
        assert [receive_all(connection) for connection in silent] == [b""] * 10


def test_who_does_not_read_is_sent_away():
    port = MetricsPort("127.0.0.1:0", "text/plain", lambda: bytes(1 << 26))  # more than the system keeps for it
    port.start()
    try:
        with connect(port) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert connection.recv(1) == b"H"
            ended = asyncio.wait(set(port._tasks), return_when=asyncio.FIRST_COMPLETED)
            asyncio.run_coroutine_threadsafe(ended, port._loop).result(WAIT_SECONDS)
            assert len(receive_all(connection)) < 1 << 26
    finally:
        port.stop()


def test_more_are_not_taken_than_are_allowed_in_a_second(port: MetricsPort):
    count = CONNECTIONS_PER_SECOND
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(port, b"HEAD /metrics HTTP/1.1\r\n\r\n"), range(count)))
    assert {line for line, _ in answers} == {b"HTTP/1.1 200 OK"}
    assert time.monotonic() - began > 0.9 * (count - 1) / CONNECTIONS_PER_SECOND


def test_a_page_that_cannot_be_made_is_an_error_and_the_next_may_be_made(caplog: pytest.LogCaptureFixture):
    pages = iter([b"second"])
    failures = iter([ValueError("secret")])

    def render() -> bytes:
        for failure in failures:
            raise failure
        return next(pages)

    port = MetricsPort("127.0.0.1:0", "text/plain", render)
    port.start()
    try:
        request = b"GET /metrics HTTP/1.1\r\n\r\n"
        assert ask(port, request) == (b"HTTP/1.1 500 Internal Server Error", b"")
        assert ask(port, request) == (b"HTTP/1.1 200 OK", b"second")
    finally:
        port.stop()
    assert [record.message for record in caplog.records] == ["bug"]


def test_an_address_that_is_taken_is_refused_and_one_that_was_left_is_free():
    port = MetricsPort("127.0.0.1:0", "text/plain", bytes)
    port.start()
    with pytest.raises(ConfigError, match="cannot listen on"):
        MetricsPort(port.address, "text/plain", bytes)
    assert ask(port, b"GET / HTTP/1.1\r\n\r\n")[0].endswith(b"404 Not Found")
    port.stop()
    again = MetricsPort(port.address, "text/plain", lambda: b"again")
    again.start()
    try:
        assert ask(again, b"GET /metrics HTTP/1.1\r\n\r\n")[1] == b"again"
    finally:
        again.stop()
