"""The guard of connections: clients that write each byte by hand, and the limit of connections."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import grpc
import pytest

from http_calls import (
    ANSWER,
    BATCH_PATH,
    INFER_PATH,
    QUESTION,
    connect,
    connect_from,
    post,
    read_answer,
    receive_all,
    request,
    write_batch,
    write_json,
    write_request,
)
from http_servers import RunningPort, SlowService, run_http
from tensor_reshape.server.http import guards
from tensor_reshape.server.http.guards import MAX_HEAD_BYTES
from waits import WAIT_SECONDS, await_that

QUERY = write_json(QUESTION)
PROBE = write_request(path="/healthz", method="GET")
LAST_PROBE = write_request(b"", b"Connection: close", path="/healthz", method="GET")
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
BEGIN = f"POST {INFER_PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, address: str) -> str:
    """The address of a port that waits a short time for the headers of a request."""
    monkeypatch.setattr(guards, "HEAD_SECONDS", 0.2)
    return address


def count(running: RunningPort) -> int:
    return len(running.port._connections)


@contextmanager
def connect_busy(running: RunningPort, service: SlowService) -> Iterator[socket.socket]:
    """Opens a connection with a request that waits for its response."""
    with connect(running.address) as connection:
        connection.sendall(write_request(write_batch(1), path=BATCH_PATH))
        service.await_arrival()
        yield connection


def probe(connection: socket.socket) -> int:
    connection.sendall(PROBE)
    return read_answer(connection)[0]


def test_request_may_arrive_byte_by_byte(address: str):
    with connect(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in write_request(QUERY):
            connection.sendall(bytes([byte]))
        assert read_answer(connection)[0] == 200


def test_pipelined_requests_are_answered_in_order(address: str):
    wanted = [200, 400, 404, 200] * 10
    paths = {200: "/healthz", 400: INFER_PATH, 404: "/nothing"}
    sent = [write_request(b"{", path=paths[code], method="POST" if code == 400 else "GET") for code in wanted]
    with connect(address) as connection:
        connection.sendall(b"".join(sent) + write_request(QUERY, b"Connection: close"))
        answers = receive_all(connection).split(b"HTTP/1.1 ")[1:]
    assert [int(answer[:3]) for answer in answers] == [*wanted, 200]


def test_request_behind_a_running_one_is_answered_after_it():
    service = SlowService()
    with run_http(service=service) as running, connect_busy(running, service) as connection:
        connection.sendall(LAST_PROBE)
        service.released.set()
        first, second = receive_all(connection).split(b"HTTP/1.1 200 OK")[1:]
    assert b"results" in first
    assert b"SERVING" in second


@pytest.mark.parametrize("sent", [b"", b"P", b"POST / HTTP/1.1\r\nHost: a\r\nX: "], ids=["silent", "line", "headers"])
def test_connection_without_headers_is_closed(hasty: str, sent: bytes):
    with connect(hasty) as connection:
        connection.sendall(sent)
        assert receive_all(connection) == b""


def test_connection_with_dripped_headers_is_closed(hasty: str):
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        with suppress(OSError):
            while not ended.wait(0.02):
                connection.sendall(b"x")

    with connect(hasty) as connection:
        assert probe(connection) == 200
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        dripping = threading.Thread(target=drip, args=(connection,))
        dripping.start()
        assert receive_all(connection) == b""
        ended.set()
        dripping.join()


def test_idle_connection_stays_open_after_a_response(hasty: str):
    with connect(hasty) as connection:
        assert probe(connection) == 200
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_running_request_may_take_longer_than_its_headers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guards, "HEAD_SECONDS", 0.1)
    service = SlowService()
    with run_http(service=service) as running, connect_busy(running, service) as connection:
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(WAIT_SECONDS)
        service.released.set()
        assert read_answer(connection)[0] == 200


def test_headers_may_have_almost_the_maximum_size(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(b"", b"X: " + b"a" * (MAX_HEAD_BYTES - 500), path="/healthz", method="GET"))
        assert read_answer(connection)[0] == 200


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"GET /"], ids=["header", "path"])
def test_headers_above_the_maximum_size_are_rejected(address: str, begin: bytes):
    with connect(address) as connection:
        with suppress(OSError):
            connection.sendall(begin + b"a" * 2 * MAX_HEAD_BYTES)
        # The response is lost if the system resets the connection, because the server has not read everything.
        assert receive_all(connection).partition(b" Request")[0] in {b"", b"HTTP/1.1 431"}


def test_data_ahead_of_a_response_beyond_the_limit_closes_the_connection():
    service = SlowService()
    with run_http(service=service) as running, connect_busy(running, service) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        with suppress(OSError):
            while True:
                connection.sendall(b"a" * MAX_HEAD_BYTES)
        service.await_stop()
        running.await_free()


def test_bytes_beyond_the_length_of_a_body_are_the_next_request(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(QUERY) + LAST_PROBE)
        first, second = receive_all(connection).split(b"HTTP/1.1 200 OK")[1:]
    assert b"conditionsComplete" in first
    assert b"SERVING" in second


AMBIGUOUS = {
    "length before chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks before length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 38\r\n\r\n",
    "same length twice": b"Content-Length: 0\r\nX: a\r\ncontent-length: 0\r\n\r\n",
    "list of lengths": b"Content-Length: 0, 0\r\n\r\n",
    "sign": b"Content-Length: +0\r\n\r\n",
    "negative length": b"Content-Length: -1\r\n\r\n",
    "space before colon": b"Content-Length : 0\r\n\r\n",
    "tab before colon": b"Content-Length: 0\r\nTransfer-Encoding\t: chunked\r\n\r\n",
    "folded length": b"Content-Length:\r\n 0\r\n\r\n",
    "folded second length": b"Content-Length: 0\r\nX: a\r\n\tContent-Length: 38\r\n\r\n",
    "bare LF in headers": b"X: a\nContent-Length: 0\r\n\r\n",
    "bare LF after headers": b"Content-Length: 0\r\n\n",
    "bare CR": b"X: a\rContent-Length: 38\r\nContent-Length: 0\r\n\r\n",
    "NUL in a header": b"X: a\0\r\nContent-Length: 0\r\n\r\n",
    "two encodings": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "unknown encoding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks twice": b"Transfer-Encoding: chunked\r\n" + CHUNKED + b"0\r\n\r\n",
    "chunk size with junk": CHUNKED + b"0 x\r\n\r\n",
    "no chunk size": CHUNKED + b"no size\r\n",
    "bare LF after chunk size": CHUNKED + b"0\n\r\n",
    "bare LF after extension": CHUNKED + b"0;\n\r\n",
    "bare LF after chunk": CHUNKED + b"1\r\na\n0\r\n\r\n",
    "bare LF after last chunk": CHUNKED + b"0\r\n\n",
    "bare LF in trailer": CHUNKED + b"0\r\nX: a\n\r\n",
    "folded trailer": CHUNKED + b"0\r\nX: a\r\n b\r\n\r\n",
    "negative chunk": CHUNKED + b"-0\r\n\r\n",
    "prefixed chunk": CHUNKED + b"0x0\r\n\r\n",
}


@pytest.mark.parametrize("ambiguous", AMBIGUOUS.values(), ids=AMBIGUOUS)
@pytest.mark.parametrize("begin", [BEGIN, PROBE + BEGIN], ids=["first", "pipelined"])
def test_ambiguous_request_is_not_served(hasty: str, begin: bytes, ambiguous: bytes):
    with connect(hasty) as connection:
        connection.sendall(begin + ambiguous + PROBE)
        answers = receive_all(connection).split(b"HTTP/1.1 ")[1:]
    codes = [answer[:3] for answer in answers]
    assert codes[-1:] in ([], [b"400"])
    assert b"SERVING" not in b"".join(answers[1:])


@pytest.mark.parametrize("ambiguous", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_ambiguous_request_is_not_served_if_it_arrives_byte_by_byte(hasty: str, ambiguous: bytes):
    with connect(hasty) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError):
            for byte in BEGIN + ambiguous + PROBE:
                connection.sendall(bytes([byte]))
        assert b"HTTP/1.1 200" not in receive_all(connection)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    ],
    ids=["TLS", "HTTP/2", "CONNECT", "OPTIONS *", "no slash", "version"],
)
def test_malformed_request_is_rejected_without_a_traceback(hasty: str, sent: bytes, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG), connect(hasty) as connection:
        connection.sendall(sent)
        received = receive_all(connection)
    assert received == b"" or received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 405"))
    logged = [one.message for one in caplog.records if one.name.startswith(("uvicorn", "tensor_reshape"))]
    assert logged in ([], ["rejected"])


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"no HTTP\r\n\r\n", "INVALID_ARGUMENT"),
        (BEGIN + CHUNKED + b"no size\r\n", "INVALID_ARGUMENT"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEAD_BYTES * 2, "RESOURCE_EXHAUSTED"),
    ],
    ids=["not HTTP", "chunk", "long headers"],
)
def test_request_that_the_parser_rejects_has_a_log_line(
    hasty: str, sent: bytes, code: str, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO), connect(hasty) as connection:
        peer = "ipv4:{}:{}".format(*connection.getsockname())
        with suppress(OSError):
            connection.sendall(sent)
        receive_all(connection)
    (line,) = [vars(one) for one in caplog.records if one.message == "rejected"]
    assert (line["code"], line["peer"], "detail" in line) == (code, peer, True)


def test_malformed_chunk_after_the_response_closes_the_connection(hasty: str, caplog: pytest.LogCaptureFixture):
    with connect(hasty) as connection:
        connection.sendall(BEGIN.replace(b"InferShape", b"Nothing") + b"Expect: 100-continue\r\n" + CHUNKED)
        assert read_answer(connection)[0] == 404
        with suppress(OSError):
            connection.sendall(b"no size\r\n")
        assert receive_all(connection) == b""
    assert caplog.records == []


@pytest.mark.parametrize("sent", [b"", b"POST /", write_request(length=5), PROBE, PROBE * 9])
def test_half_closed_connection_is_closed(shared: RunningPort, sent: bytes):
    with connect(shared.address) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = receive_all(connection)
    assert received == b"" or received.endswith(b'{"status":"SERVING"}')
    await_that(lambda: not count(shared))


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_upgrade_header_without_a_body_closes_the_connection(address: str, protocol: bytes):
    with connect(address) as connection:
        lines = (b"Connection: Upgrade", b"Upgrade: " + protocol)
        connection.sendall(write_request(b"", *lines, path="/healthz", method="GET"))
        received = receive_all(connection)
    assert received.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in received


def test_body_of_a_connect_request_is_not_served_as_a_request(address: str):
    with connect(address) as connection:
        connection.sendall(b"CONNECT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(PROBE))
        assert read_answer(connection)[0] == 400
        with suppress(OSError):
            connection.sendall(PROBE)
        assert receive_all(connection) == b""


@pytest.mark.parametrize("line", [b"Content-Length: %d" % len(PROBE), b"Transfer-Encoding: chunked"])
def test_body_after_an_upgrade_header_is_not_served_as_a_request(address: str, line: bytes):
    with connect(address) as connection:
        connection.sendall(BEGIN + line + b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        code, body = read_answer(connection)
        assert (code, b"must not have an Upgrade header" in body) == (400, True)
        with suppress(OSError):
            connection.sendall(PROBE)
        assert receive_all(connection) == b""


def test_body_after_an_upgrade_header_is_not_served_behind_a_running_request():
    service = SlowService()
    with run_http(service=service) as running, connect_busy(running, service) as connection:
        connection.sendall(BEGIN + b"Content-Length: 999\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        connection.sendall(PROBE)
        service.released.set()
        answers = receive_all(connection).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200", b"400"]


def test_grpc_client_on_the_http_port_gets_unavailable(address: str):
    with grpc.insecure_channel(address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/a/b")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=WAIT_SECONDS)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_idle_connections_are_closed_for_new_connections(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guards, "MAX_CONNECTIONS", 4)
    with run_http() as running, ExitStack() as stack:
        silent = [stack.enter_context(connect(running.address)) for _ in range(20)]
        assert request(running.address, "GET", "/healthz").code == 200
        assert [receive_all(connection) for connection in silent[:16]] == [b""] * 16


def test_new_connections_close_no_busy_connection_of_their_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guards, "MAX_CONNECTIONS", 2)
    service = SlowService()
    with (
        run_http(service=service) as running,
        connect_busy(running, service) as one,
        connect_busy(running, service) as two,
    ):
        with connect(running.address) as other:
            assert receive_all(other) == b""
        service.released.set()
        assert [read_answer(connection)[0] for connection in (one, two)] == [200, 200]


def test_connection_limit_closes_connections_of_the_busiest_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guards, "MAX_CONNECTIONS", 3)
    with run_http() as running, ExitStack() as stack:
        first = stack.enter_context(connect_from("127.0.0.2", running.address))
        assert probe(first) == 200
        others = [stack.enter_context(connect(running.address)) for _ in range(10)]
        assert [receive_all(connection) for connection in others[:8]] == [b""] * 8
        assert probe(first) == 200


def test_busy_host_closes_no_idle_connection_of_another_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guards, "MAX_CONNECTIONS", 3)
    service = SlowService()
    with run_http(service=service) as running, connect_from("127.0.0.2", running.address) as idle:
        assert probe(idle) == 200
        with (
            connect_busy(running, service),
            connect_busy(running, service),
            connect(running.address) as more,
        ):
            assert receive_all(more) == b""
            assert probe(idle) == 200


def test_one_host_cannot_keep_all_512_places():
    with run_http() as running, ExitStack() as stack:
        for _ in range(guards.MAX_CONNECTIONS):
            stack.enter_context(connect(running.address))
        await_that(lambda: count(running) == guards.MAX_CONNECTIONS)
        with connect_from("127.0.0.2", running.address) as newcomer:
            assert probe(newcomer) == 200
        assert post(running.address).document == ANSWER


def test_closed_connections_do_not_count(shared: RunningPort):
    for _ in range(3):
        with connect(shared.address) as connection:
            assert probe(connection) == 200
    await_that(lambda: not count(shared))


def test_requests_that_arrive_faster_than_they_are_served_close_the_connection(address: str):
    requests = write_request(b"", path="/healthz", method="GET") * 10_000
    with connect(address) as connection:

        def read() -> None:
            with suppress(OSError):
                receive_all(connection)

        def send() -> None:
            while True:
                connection.sendall(requests)

        reader = threading.Thread(target=read)
        reader.start()
        with pytest.raises(ConnectionError):
            send()
        reader.join()


def test_connection_serves_thousands_of_requests_one_after_the_other(address: str):
    with connect(address) as connection:
        for _ in range(2000):
            connection.sendall(write_request(b"", b"X:  a", path="/healthz", method="GET"))
            assert read_answer(connection)[0] == 200
