"""Connections over HTTP from clients that write each byte by hand."""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import grpc
import h11
import pytest
import trustme
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from certificates import Certificates, issue_certificates
from http_calls import connect, read_answer, receive_all, write_request
from tensor_reshape.server.http import connections
from tensor_reshape.server.http.apps import build_app
from tensor_reshape.server.http.connect import find_connect_error, is_connect
from tensor_reshape.server.http.connections import Parser, read_certificate
from tensor_reshape.server.http.ports import HttpPort
from tensor_reshape.server.http.requests import find_body_error, read_message
from tensor_reshape.server.http.responses import JSON_FORM
from tensor_reshape.server.security.identities import read_identities
from tensor_reshape.server.transport.options import MAX_METADATA_BYTES
from untrusted_connections import retry

MAX_BYTES = 100_000
CONNECT_BEGIN = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnect-Protocol-Version: 1\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


class Echo:
    """An application that responds with the body of a request, or without reading it if the path is /unread."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.url.path == "/unread":
            await JSON_FORM.build_response(b"")(scope, receive, send)
            return
        find_error = find_connect_error if is_connect(request) else find_body_error
        response = find_error(request, MAX_BYTES) or JSON_FORM.build_response(await read_message(request))
        await response(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[HttpPort]:
    port = HttpPort("127.0.0.1:0", build_app([Route("/{path:path}", Echo())]), None, shares=False)
    port.start()
    yield port
    port.end()


@pytest.fixture
def address(port: HttpPort) -> str:
    return port.address


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, address: str) -> str:
    """A port that waits a short time for the headers of a request."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    return address


def test_pipelined_http_requests_get_responses_in_order(address: str):
    bodies = [*(b"%d" % number for number in range(100)), b"a" * MAX_BYTES]
    with connect(address) as connection:
        connection.sendall(b"".join(map(write_request, bodies)) + write_request(b"", b"Connection: close"))
        answers = receive_all(connection).split(b"HTTP/1.1 200 OK")
    assert [answer.rpartition(b"\r\n\r\n")[2] for answer in answers[1:]] == [*bodies, b""]


def test_http_request_may_arrive_byte_by_byte(address: str):
    with connect(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in write_request(b"ab"):
            connection.sendall(bytes([byte]))
        assert read_answer(connection) == (200, b"ab")


def parse(*parts: bytes) -> list[h11.Event]:
    """Returns the events of a request that arrives in parts."""
    parser, events = Parser(h11.SERVER), list[h11.Event]()
    for part in parts:
        parser.receive_data(part)
        while isinstance(event := parser.next_event(), h11.Event):
            events.append(event)
    return events


def test_chunked_http_request_may_be_split_anywhere():
    content = CONNECT_BEGIN + CHUNKED + b"1\r\na\r\n1\r\nb\r\n0\r\nX: a\r\n\r\n"
    for cut in range(1, len(content)):
        events = parse(content[:cut], content[cut:])
        assert [event.data for event in events if isinstance(event, h11.Data)] == [b"a", b"b"]
        assert isinstance(events[-1], h11.EndOfMessage)


def test_http_connection_without_headers_is_closed(hasty: str):
    for begin in (b"", b"P", b"POST / HTTP/1.1\r\nHost: a\r\nX: "):
        with connect(hasty) as connection:
            connection.sendall(begin)
            assert receive_all(connection) == b"", begin


def test_http_connection_with_slowly_sent_headers_is_closed(hasty: str):
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


def test_http_connection_stays_open_after_a_response(hasty: str):
    with connect(hasty) as connection:
        connection.sendall(write_request(b"a"))
        assert read_answer(connection) == (200, b"a")
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_malformed_http_request_is_rejected_and_closes_the_connection(address: str, caplog: pytest.LogCaptureFixture):
    for sent in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\x00\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * MAX_METADATA_BYTES,
        b"GET /" + b"a" * MAX_METADATA_BYTES * 4,
    ):
        with caplog.at_level(logging.DEBUG), connect(address) as connection:
            connection.sendall(sent)
            received = receive_all(connection)
        assert received == b"" or received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")), sent
    assert [record for record in caplog.records if record.name.startswith(("uvicorn", "tensor_reshape"))] == []


AMBIGUOUS = {
    "length before chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks before length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 38\r\n\r\n",
    "same length twice": b"Content-Length: 0\r\nX: a\r\ncontent-length: 0\r\n\r\n",
    "list of lengths": b"Content-Length: 0, 0\r\n\r\n",
    "sign": b"Content-Length: +0\r\n\r\n",
    "space before colon": b"Content-Length : 0\r\n\r\n",
    "tab before colon": b"Content-Length: 0\r\nTransfer-Encoding\t: chunked\r\n\r\n",
    "folded length": b"Content-Length:\r\n 0\r\n\r\n",
    "folded second length": b"Content-Length: 0\r\nX: a\r\n\tContent-Length: 38\r\n\r\n",
    "bare LF in headers": b"X: a\nContent-Length: 0\r\n\r\n",
    "bare LF after headers": b"Content-Length: 0\r\n\n",
    "bare CR": b"X: a\rContent-Length: 38\r\nContent-Length: 0\r\n\r\n",
    "two encodings": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "unknown encoding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks twice": b"Transfer-Encoding: chunked\r\n" + CHUNKED + b"0\r\n\r\n",
    "bare LF after extension": CHUNKED + b"0;\n\r\n",
    "bare LF after chunk": CHUNKED + b"1\r\na\n0\r\n\r\n",
    "bare LF after last chunk": CHUNKED + b"0\r\n\n",
    "bare LF in trailer": CHUNKED + b"0\r\nX: a\n\r\n",
    "folded trailer": CHUNKED + b"0\r\nX: a\r\n b\r\n\r\n",
    "negative chunk": CHUNKED + b"-0\r\n\r\n",
    "prefixed chunk": CHUNKED + b"0x0\r\n\r\n",
}


@pytest.mark.parametrize("ambiguous", AMBIGUOUS.values(), ids=AMBIGUOUS)
@pytest.mark.parametrize("begin", [CONNECT_BEGIN, write_request() + CONNECT_BEGIN], ids=["first", "pipelined"])
def test_smuggled_http_request_gets_no_response(address: str, begin: bytes, ambiguous: bytes):
    with connect(address) as connection:
        connection.sendall(begin + ambiguous + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        answers = receive_all(connection).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200"] * begin.startswith(write_request()) + [b"400"]


@pytest.mark.parametrize("ambiguous", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_ambiguous_request_is_rejected_if_it_arrives_byte_by_byte(ambiguous: bytes):
    with pytest.raises(h11.RemoteProtocolError):
        parse(*(bytes([byte]) for byte in CONNECT_BEGIN + ambiguous))


def test_malformed_chunk_after_the_response_logs_no_error(address: str, caplog: pytest.LogCaptureFixture):
    with connect(address) as connection:
        connection.sendall(CONNECT_BEGIN.replace(b"POST /", b"POST /unread", 1) + CHUNKED)
        assert read_answer(connection) == (200, b"")
        connection.sendall(b"no size\r\n")
        assert receive_all(connection) == b""
    assert caplog.records == []


def test_unread_responses_stop_the_reading_of_further_requests(address: str):
    with connect(address) as connection:
        connection.settimeout(1)
        sent, block = 0, write_request(b"a" * 1000) * 100
        with suppress(TimeoutError):
            while sent < 1 << 28:
                sent += connection.send(block)
    assert sent < 1 << 26  # of which most is in the buffers of the operating system


def test_oversized_http_body_is_rejected_before_it_arrives(address: str):
    for lines in ((), (b"Expect: 100-continue",)):
        with connect(address) as connection:
            connection.sendall(write_request(b"", *lines, length=MAX_BYTES + 1))
            assert receive_all(connection).startswith(b"HTTP/1.1 413")


def test_chunked_http_body_is_rejected(address: str):
    for method in ("GET", "POST"):
        head = f"{method} / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        with connect(address) as connection:
            connection.sendall(head.encode() + b"1\r\nx\r\n" * 1000)
            assert receive_all(connection).startswith(b"HTTP/1.1 411")


def test_unread_http_body_is_not_parsed_as_a_request(hasty: str):
    request = write_request(b"a")
    with connect(hasty) as connection:
        connection.sendall(write_request(method="GET", length=2 * len(request)))
        assert read_answer(connection) == (200, b"")
        connection.sendall(request)
        assert receive_all(connection) == b""


def test_http_server_sends_100_continue_for_an_accepted_body(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(b"", b"Expect: 100-continue", length=1))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"a")
        assert read_answer(connection) == (200, b"a")


def test_http_upgrade_header_is_ignored(address: str):
    with connect(address) as connection:
        lines = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13")
        connection.sendall(write_request(b"a", *lines))
        assert read_answer(connection) == (200, b"a")


@pytest.mark.parametrize(
    "sent", [b"", b"POST /", write_request(length=5), write_request(b"a"), write_request(b"a") * 9]
)
def test_half_closed_http_connection_gets_whole_responses_and_is_closed(port: HttpPort, sent: bytes):
    with connect(port.address) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = receive_all(connection)
        assert received == b"" or (received.endswith(b"\r\n\r\na") and sent.endswith(b"\r\n\r\na"))
        assert retry(lambda: port.is_idle)


def test_grpc_client_on_the_http_port_gets_unavailable(address: str):
    with grpc.insecure_channel(address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/a/b")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=60)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def shake_hands(files: Certificates, *, demands: bool) -> Mapping[str, Sequence[bytes]]:
    """Connects a client over TLS, and returns what the server reads of its certificate."""
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files.authority))
    served.load_cert_chain(files.server, files.server_key)
    served.verify_mode = ssl.CERT_REQUIRED if demands else ssl.CERT_NONE
    trusted = ssl.create_default_context(cafile=str(files.authority))
    trusted.load_cert_chain(files.client, files.client_key)
    found: asyncio.Future[Mapping[str, Sequence[bytes]]] = asyncio.get_running_loop().create_future()

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.set_result(read_certificate(writer.transport))
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0, ssl=served) as server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=trusted)
        told = await found
        writer.close()
    return told


async def test_client_certificate_identifies_http_callers_only_if_required(tmp_path: Path):
    files = issue_certificates(tmp_path, trustme.CA())
    assert read_identities(await shake_hands(files, demands=True)) == ["email:client@example.org"]
    assert await shake_hands(files, demands=False) == {}
