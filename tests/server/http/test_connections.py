"""What a stranger may do with a connection over HTTP, by hand and byte by byte."""

import logging
import socket
import threading
from collections.abc import Iterator

import grpc
import pytest
from starlette.types import Receive, Scope, Send

from http_calls import connect, read_answer, receive_all, write_request
from tensor_reshape.server.config import Config
from tensor_reshape.server.http import connections
from tensor_reshape.server.http.answers import build_answer, send_answer
from tensor_reshape.server.http.ports import HttpPort
from tensor_reshape.server.http.requests import find_fault, read_message

MAX_BYTES = 100_000
MAX_HEAD_BYTES = 4096


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the body of a request."""
    fault = find_fault(scope, MAX_BYTES)
    await send_answer(fault or build_answer(await read_message(scope, receive)), send)


@pytest.fixture
def address() -> Iterator[str]:
    port = HttpPort(Config(max_metadata_bytes=MAX_HEAD_BYTES), "127.0.0.1:0", echo, lambda: None, shares=False)
    port.start()
    yield port.address
    port.end()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, address: str) -> str:
    """A port that waits for no head."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    return address


def test_requests_on_one_connection_are_answered_one_after_another(address: str):
    with connect(address) as connection:
        for body in (b"a", b"b" * MAX_BYTES, b""):
            connection.sendall(write_request(body))
            assert read_answer(connection) == (200, body)


def test_requests_that_come_together_are_answered_in_their_order(address: str):
    bodies = [b"%d" % number for number in range(100)]
    with connect(address) as connection:
        connection.sendall(b"".join(map(write_request, bodies)) + write_request(b"", b"Connection: close"))
        answers = receive_all(connection).split(b"HTTP/1.1 200 OK")
    assert [answer.rpartition(b"\r\n\r\n")[2] for answer in answers[1:]] == [*bodies, b""]


def test_a_request_may_come_byte_by_byte(address: str):
    with connect(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in write_request(b"ab"):
            connection.sendall(bytes([byte]))
        assert read_answer(connection) == (200, b"ab")


@pytest.mark.parametrize("begin", [b"", b"P", b"POST / HTTP/1.1\r\nHost: a\r\nX: "])
def test_a_head_that_does_not_come_ends_the_connection(hasty: str, begin: bytes):
    with connect(hasty) as connection:
        connection.sendall(begin)
        assert receive_all(connection) == b""


def test_a_head_that_trickles_ends_the_connection(hasty: str):
    ended = threading.Event()

    def trickle(connection: socket.socket) -> None:
        try:
            while not ended.wait(0.02):
                connection.sendall(b"x")
        except OSError:
            pass

    with connect(hasty) as connection:
        connection.sendall(write_request(b"a") + b"POST / HTTP/1.1\r\nX: ")
        assert read_answer(connection) == (200, b"a")
        trickling = threading.Thread(target=trickle, args=(connection,))
        trickling.start()
        assert receive_all(connection) == b""
        ended.set()
        trickling.join()


def test_an_idle_connection_outlives_a_slow_head(hasty: str):
    with connect(hasty) as connection:
        connection.sendall(write_request(b"a"))
        assert read_answer(connection) == (200, b"a")
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\x00\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * MAX_HEAD_BYTES,
        b"GET /" + b"a" * MAX_HEAD_BYTES * 4,
    ],
)
def test_what_is_no_request_is_refused_and_ends_the_connection(
    address: str, sent: bytes, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.DEBUG), connect(address) as connection:
        connection.sendall(sent)
        received = receive_all(connection)
    assert received == b"" or received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501"))
    assert [record for record in caplog.records if record.name.startswith(("uvicorn", "tensor_reshape"))] == []


def test_a_body_that_is_longer_than_it_may_be_is_refused_before_it_comes(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(length=MAX_BYTES + 1))
        assert receive_all(connection).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_body_in_chunks_is_not_read(address: str, method: str):
    head = f"{method} / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(address) as connection:
        connection.sendall(head.encode() + b"1\r\nx\r\n" * 1000)
        assert receive_all(connection).startswith(b"HTTP/1.1 411" if method == "POST" else b"HTTP/1.1 200")


def test_a_body_that_the_answer_does_not_wait_for_ends_the_connection(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(b"x", method="GET", length=10))
        assert receive_all(connection).startswith(b"HTTP/1.1 200")


def test_who_waits_to_be_let_send_is_let_where_the_body_is_admitted(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(b"", b"Expect: 100-continue", length=1))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"a")
        assert read_answer(connection) == (200, b"a")


def test_and_else_is_refused_at_once(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(b"", b"Expect: 100-continue", length=MAX_BYTES + 1))
        assert receive_all(connection).startswith(b"HTTP/1.1 413")


def test_there_is_no_upgrade(address: str):
    upgrade = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13")
    with connect(address) as connection:
        connection.sendall(write_request(b"a", *upgrade))
        assert read_answer(connection) == (200, b"a")


def test_who_closes_his_side_ends_the_connection(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(b"", length=5))
        connection.shutdown(socket.SHUT_WR)
        assert b"200 OK" not in receive_all(connection)


def test_a_client_of_grpc_is_told_in_its_way_that_this_is_another_port(address: str):
    with grpc.insecure_channel(address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/a/b")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=60)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
