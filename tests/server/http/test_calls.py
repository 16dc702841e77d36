"""The life of a call over HTTP: its place and memory, its body, its work, its end, and its records."""

import asyncio
import gc
import logging
import socket
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from http_calls import (
    ANSWER,
    BATCH_PATH,
    INFER_PATH,
    QUESTION,
    Reply,
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
from http_servers import CONFIG, RunningPort, SlowService, run_http
from in_process import WAIT_SECONDS, RecordingGate
from tensor_reshape.rules.errors import LimitError, PermissionDeniedError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.http import asgi, calls, transcoder
from tensor_reshape.server.http.calls import Admission, Place
from tensor_reshape.server.http.transcoder import MAX_QUERY_BODY_BYTES
from tensor_reshape.server.service.method_tables import QUERY_THREADS, IsOver, Work
from waits import await_that

JSON = {"content-type": "application/json"}
QUERY = write_json(QUESTION)
BATCH = write_request(write_batch(1), path=BATCH_PATH)
LINES = ("Host: localhost", "Content-Type: application/json", "Transfer-Encoding: chunked")
CHUNKED = "\r\n".join([f"POST {INFER_PATH} HTTP/1.1", *LINES, "", ""]).encode()


class BrokenService(SlowService):
    """A service with a bug."""

    def infer_batch(self, request: bytes, is_over: IsOver = lambda: False) -> bytes:
        del request, is_over
        text = "secret"
        raise ValueError(text)


def refuse() -> RecordingGate:
    return RecordingGate(PermissionDeniedError.of(Reason.PERMISSION_DENIED, "not you"))


def write_chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def await_used(running: RunningPort) -> None:
    await_that(lambda: running.admission.used_bytes > 0)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Discards the body of a rejected request for a short time only."""
    monkeypatch.setattr(asgi, "_DISCARD_SECONDS", 0.05)


@contextmanager
def run_slow(*, obeys: bool = True) -> Iterator[tuple[RunningPort, SlowService]]:
    service = SlowService(DEFAULT_LIMITS, obeys=obeys)
    with run_http(service=service) as running:
        yield running, service


def test_gates_see_the_call_as_over_grpc():
    gate = RecordingGate()
    with run_http(gates=[gate]) as running:
        assert post(running.address, headers={"x-more": "told", "x-name": "größe", "x-bin": "a"}).document == ANSWER
        assert gate.left.acquire(timeout=WAIT_SECONDS)
    (info,) = gate.infos
    assert info.method == INFER_PATH
    assert info.peer.startswith("ipv4:127.0.0.1:")
    assert info.address == "ipv4:127.0.0.1"
    assert info.find_values("x-more") == ["told"]
    assert not {"x-name", "x-bin"} & {name for name, _ in info.metadata}


def test_call_of_a_trusted_proxy_has_the_address_of_its_client():
    gate = RecordingGate()
    with run_http(replace(CONFIG, trusted_proxy=("127.0.0.1",)), gates=[gate]) as running:
        post(running.address, headers={"x-forwarded-for": "192.0.2.7"})
    assert [info.address for info in gate.infos] == ["ipv4:192.0.2.7"]


@pytest.mark.usefixtures("hasty")
def test_rejected_call_is_answered_before_its_body_arrives():
    with run_http(gates=[refuse()]) as running, connect(running.address) as connection:
        connection.sendall(write_request(length=1000))
        answer = receive_all(connection)
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"connection: close\r\n" in answer
    assert b"PERMISSION_DENIED" in answer


def test_rejected_call_is_answered_after_its_body_and_keeps_the_connection():
    with run_http(gates=[refuse()]) as running, connect(running.address) as connection:
        for _ in range(2):
            connection.sendall(write_request(b"a" * 100_000))
            assert read_answer(connection)[0] == 403


def test_unknown_path_is_answered_after_the_body_was_read(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(b"a" * (1 << 20), path="/nothing"))
        assert read_answer(connection)[0] == 404
        connection.sendall(write_request(QUERY))
        assert read_answer(connection)[0] == 200


def test_accepted_body_is_requested_with_100_continue(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(b"", b"Expect: 100-continue", length=len(QUERY)))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        connection.sendall(QUERY)
        assert read_answer(connection)[0] == 200


@pytest.mark.parametrize("length", [MAX_QUERY_BODY_BYTES + 1, 10**10 - 1, 10**11], ids=str)
def test_body_above_the_limit_is_not_requested(address: str, length: int):
    with connect(address) as connection:
        connection.sendall(write_request(b"", b"Expect: 100-continue", length=length))
        answer = receive_all(connection)
    assert answer.startswith(b"HTTP/1.1 413")
    assert Reason.MESSAGE_TOO_LARGE.encode() in answer


@pytest.mark.usefixtures("hasty")
def test_body_above_the_limit_is_rejected_before_it_arrives(address: str):
    with connect(address) as connection:
        connection.sendall(write_request(length=MAX_QUERY_BODY_BYTES + 1))
        answer = receive_all(connection)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close\r\n" in answer
    assert f"at least {MAX_QUERY_BODY_BYTES + 1} bytes, but the limit is {MAX_QUERY_BODY_BYTES}".encode() in answer


def test_chunked_body_is_answered(address: str):
    with connect(address) as connection:
        connection.sendall(CHUNKED + b"".join(write_chunk(b"%c" % byte) for byte in QUERY) + b"0\r\n\r\n")
        assert read_answer(connection)[0] == 200


@pytest.mark.usefixtures("hasty")
def test_chunks_above_the_limit_are_rejected_before_the_last_one(address: str):
    with connect(address) as connection:
        connection.sendall(CHUNKED + write_chunk(bytes(0x4000)) * 5)
        answer = receive_all(connection)
    assert answer.startswith(b"HTTP/1.1 413")
    assert Reason.MESSAGE_TOO_LARGE.encode() in answer


def test_chunked_body_reserves_memory_as_it_grows():
    with run_http() as running, connect(running.address) as connection:
        connection.sendall(CHUNKED)
        await_used(running)
        sizes = [running.admission.used_bytes]
        for count in (8_000, 16_000):
            connection.sendall(write_chunk(b" " * count))
            await_that(lambda: running.admission.used_bytes > sizes[-1])
            sizes.append(running.admission.used_bytes)
        assert sizes[0] < 8_000 * calls.JSON_MEMORY_FACTOR <= sizes[1] < 24_000 * calls.JSON_MEMORY_FACTOR <= sizes[2]


@pytest.mark.usefixtures("hasty")
def test_chunked_body_without_memory_is_rejected():
    with run_http() as running, connect(running.address) as connection:
        running.admission.max_bytes = 20_000 * calls.JSON_MEMORY_FACTOR
        other = running.admission.enter("another host", running.admission.max_bytes // 2)
        connection.sendall(CHUNKED + write_chunk(b" " * 20_000))
        code, body = read_answer(connection)
        assert (code, Reason.SERVER_BUSY.encode() in body) == (429, True)
        running.admission.leave(other)
        running.await_free()


def test_body_may_have_the_whole_memory_of_a_small_budget():
    with run_http() as running:
        running.admission.max_bytes = 1
        assert post(running.address).code == 200


def test_body_without_memory_is_rejected_with_a_delay():
    with run_http() as running:
        running.admission.max_bytes = 4
        others = [running.admission.enter(host, size) for host, size in (("a", 2), ("b", 2))]
        reply = post(running.address)
        for other in others:
            running.admission.leave(other)
    assert (reply.code, reply.reason, reply.headers["retry-after"]) == (429, Reason.SERVER_BUSY, "1")


def test_call_without_a_place_is_rejected_with_a_delay():
    with run_slow() as (running, service), connect(running.address) as busy:
        running.admission.max_requests = 1
        busy.sendall(BATCH)
        service.await_arrival()
        reply = post(running.address)
        assert (reply.code, reply.reason, reply.headers["retry-after"]) == (429, Reason.SERVER_BUSY, "1")
        assert reply.document["message"] == "the server serves too many requests"


def test_host_has_half_of_the_places():
    with run_slow() as (running, service), connect(running.address) as busy:
        running.admission.max_requests = 2
        busy.sendall(BATCH)
        service.await_arrival()
        assert post(running.address).code == 429
        with connect_from("127.0.0.2", running.address) as other:
            other.sendall(write_request(QUERY))
            assert read_answer(other)[0] == 200


@pytest.mark.usefixtures("hasty")
def test_body_that_stops_gets_408_and_a_log_line(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calls, "LEAST_BYTES_PER_SECOND", 10)
    config = replace(CONFIG, stall_timeout_seconds=0.1)
    with caplog.at_level(logging.INFO), run_http(config) as running, connect(running.address) as connection:
        connection.sendall(write_request(b"{", length=60_000))  # only bytes that have arrived give more time
        answer = receive_all(connection)
        assert answer.startswith(b"HTTP/1.1 408")
        assert Reason.STALLED.encode() in answer
        running.await_free()
    (line,) = find_records(caplog, "rejected")
    assert (line["code"], line["reason"]) == ("RESOURCE_EXHAUSTED", Reason.STALLED)


def test_body_that_has_mostly_arrived_has_more_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calls, "LEAST_BYTES_PER_SECOND", 1)
    with run_http(replace(CONFIG, stall_timeout_seconds=0.1)) as running, connect(running.address) as connection:
        connection.sendall(write_request(QUERY[:-1], length=len(QUERY)))
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.sendall(QUERY[-1:])
        connection.settimeout(WAIT_SECONDS)
        assert read_answer(connection)[0] == 200


def test_call_beyond_its_deadline_gets_504_and_stops(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transcoder, "CALL_SECONDS", 0.05)
    with run_slow() as (running, service):
        reply = request(running.address, "POST", BATCH_PATH, write_batch(1), JSON)
        assert (reply.code, reply.document["code"]) == (504, 4)
        assert reply.document["message"] == "the call took longer than 0.05 seconds"
        service.await_stop()
        running.await_free()


def test_call_that_no_thread_has_begun_at_its_deadline_is_not_begun(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calls, "WORK_THREADS", dict.fromkeys(Work, 1))
    with run_slow() as (running, service), connect(running.address) as busy:
        busy.sendall(BATCH)
        service.await_arrival()
        late = {**JSON, "connect-protocol-version": "1", "connect-timeout-ms": "1"}
        assert request(running.address, "POST", BATCH_PATH, write_batch(1), late).code == 504
        service.released.set()
        assert read_answer(busy)[0] == 200
        running.await_free()
        assert not service.arrived.acquire(blocking=False)


@pytest.mark.parametrize("requests", [1, 3])
def test_work_stops_when_its_client_disconnects(requests: int):
    with run_slow() as (running, service):
        with connect(running.address) as connection:
            connection.sendall(BATCH * requests)
            service.await_arrival()
        service.await_stop()
        running.await_free()


def test_work_stops_when_its_client_disconnects_after_a_later_request():
    with run_slow() as (running, service):
        with connect(running.address) as connection:
            connection.sendall(BATCH)
            service.await_arrival()
            (guard,) = running.port._connections._open
            left = guard._left
            connection.sendall(BATCH)
            await_that(lambda: guard._left < left)
        service.await_stop()
        running.await_free()


def test_place_of_a_disconnected_client_is_free_after_the_work():
    with run_slow(obeys=False) as (running, service):
        with connect(running.address) as connection:
            connection.sendall(BATCH)
            service.await_arrival()
            used = running.admission.used_bytes
        await_that(lambda: not len(running.port._connections))
        assert (len(running.admission), running.admission.used_bytes) == (1, used)
        service.released.set()
        running.await_free()


def test_place_is_free_when_a_client_disconnects_while_it_sends():
    with run_http() as running:
        for sent in (write_request(b"{", length=100), CHUNKED + write_chunk(b"{")):
            with connect(running.address) as connection:
                connection.sendall(sent)
                await_used(running)
            running.await_free()


@pytest.mark.parametrize(
    ("body", "code"), [(QUERY, 200), (b"{", 400), (QUERY.ljust(5_000), 200), (b"{".ljust(5_000), 400)], ids=range(4)
)
def test_place_is_free_after_a_response(shared: RunningPort, body: bytes, code: int):
    assert request(shared.address, "POST", INFER_PATH, body, JSON).code == code
    shared.await_free()


@contextmanager
def connect_narrow(running: RunningPort) -> Iterator[socket.socket]:
    """Opens a connection on which the system accepts only a few kilobytes of a response, and sends a large batch."""
    for listener in running.port._listeners:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    host, _, port = running.address.rpartition(":")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(WAIT_SECONDS)
        connection.connect((host, int(port)))
        connection.sendall(write_request(write_batch(500), b"Connection: close", path=BATCH_PATH))
        assert connection.recv(1)
        yield connection


def test_client_that_does_not_read_is_disconnected_and_its_place_is_free():
    with (
        run_http(replace(CONFIG, stall_timeout_seconds=0.1)) as running,
        connect_narrow(running) as connection,
    ):
        running.await_free()
        assert not receive_all(connection).endswith(b"}}]}")


def test_slow_client_keeps_its_place_until_it_has_read():
    with run_http() as running, connect_narrow(running) as connection:
        assert len(running.admission) == 1
        assert receive_all(connection).endswith(b"}}]}")
        running.await_free()


def test_bug_gets_500_without_its_text(caplog: pytest.LogCaptureFixture):
    with run_http(service=BrokenService()) as running:
        reply = request(running.address, "POST", BATCH_PATH, write_batch(1), JSON)
        running.await_free()
    assert (reply.code, reply.document["code"], reply.document["message"]) == (500, 13, "internal error")
    assert b"secret" not in reply.content
    assert "bug" in [record.message for record in caplog.records]


class Document:
    """A parsed body."""


class RejectingService(SlowService):
    """A service that rejects batches, and keeps weak references to their parsed bodies."""

    def __init__(self) -> None:
        super().__init__()
        self.documents = list[weakref.ref[Document]]()

    def infer_batch(self, request: bytes, is_over: IsOver = lambda: False) -> bytes:
        del request, is_over
        document = Document()
        self.documents.append(weakref.ref(document))
        try:
            int(repr(document))
        except ValueError:
            raise PermissionDeniedError.of(Reason.PERMISSION_DENIED, "no") from None
        return b""


def test_rejected_call_keeps_nothing_until_the_garbage_collection():
    service = RejectingService()
    gc.disable()
    try:
        with run_http(service=service) as running:
            assert request(running.address, "POST", BATCH_PATH, write_batch(1), JSON).code == 403
            await_that(lambda: service.documents[0]() is None)
    finally:
        gc.enable()


def test_successful_call_returns_its_request_id(address: str):
    assert post(address, headers={"x-request-id": "mine"}).headers["x-request-id"] == "mine"
    assert post(address).headers["x-request-id"]


def test_batches_of_one_host_leave_threads_to_other_hosts():
    with run_slow() as (running, service), ExitStack() as stack:
        for _ in range(QUERY_THREADS):
            stack.enter_context(connect_from("127.0.0.2", running.address)).sendall(BATCH)
        for _ in range(QUERY_THREADS // 2):
            service.await_arrival()
        stack.enter_context(connect_from("127.0.0.3", running.address)).sendall(BATCH)
        service.await_arrival()
        assert not service.arrived.acquire(blocking=False)
        service.released.set()


def test_call_that_the_end_of_the_server_cuts_off_gets_503():
    with run_slow() as (running, service), connect(running.address) as busy:
        busy.sendall(BATCH)
        service.await_arrival()
        hurry = threading.Event()
        hurry.set()
        running.port.stop(hurry)
        assert receive_all(busy).startswith(b"HTTP/1.1 503")
        service.await_stop()


def find_records(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, object]]:
    return [vars(record) for record in caplog.records if record.message == message]


def test_rejection_has_a_log_line(address: str, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        post(address, {**QUESTION, "shape": {"items": [-2]}}, headers={"x-request-id": "mine"})
        await_that(lambda: bool(find_records(caplog, "rejected")))
    (line,) = find_records(caplog, "rejected")
    wanted = {"method": INFER_PATH, "code": "INVALID_ARGUMENT", "reason": Reason.INVALID_TARGET_VALUE}
    assert line.items() >= {**wanted, "request_id": "mine", "field": "shape[0]"}.items()


def test_disconnected_client_has_no_log_line_of_a_rejection(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO), run_http() as running:
        with connect(running.address) as connection:
            connection.sendall(write_request(b"{", length=100))
            await_used(running)
        running.await_free()
    assert find_records(caplog, "rejected") == []


def test_access_log_has_the_sizes_of_the_bodies(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG), run_http(replace(CONFIG, log_level="debug")) as running:
        reply = post(running.address, headers={"x-request-id": "mine"})
        await_that(lambda: bool(find_records(caplog, "call")))
    (line,) = find_records(caplog, "call")
    assert line.items() >= {"method": INFER_PATH, "code": "OK", "request_id": "mine"}.items()
    sizes = {"request_messages": 1, "request_bytes": len(QUERY), "response_messages": 1}
    assert line.items() >= {**sizes, "response_bytes": len(reply.content)}.items()


def test_access_log_reports_a_disconnected_client_as_cancelled(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG), run_http(replace(CONFIG, log_level="debug")) as running:
        with connect(running.address) as connection:
            connection.sendall(write_request(b"{", length=100))
            await_used(running)
        await_that(lambda: bool(find_records(caplog, "call")))
    (line,) = find_records(caplog, "call")
    assert (line["code"], line["request_messages"], line["response_messages"]) == ("CANCELLED", 0, 0)


TOKEN = "0123456789abcdef" * 2


def ask_with_token(address: str, token: str = TOKEN, path: str = INFER_PATH) -> Reply:
    return post(address, QUESTION, path, {"authorization": f"Bearer {token}"})


def test_call_needs_a_token_if_the_server_has_tokens(tmp_path: Path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"me:{TOKEN}\n")
    with run_http(replace(CONFIG, token_file=tokens)) as running:
        reply = post(running.address)
        assert (reply.code, reply.reason) == (401, Reason.UNAUTHENTICATED)
        assert reply.headers["www-authenticate"] == "Bearer"
        assert ask_with_token(running.address, "0" * 32).code == 401
        assert ask_with_token(running.address).document == ANSWER


def test_call_needs_permission_for_its_method(tmp_path: Path):
    tokens, permissions = tmp_path / "tokens", tmp_path / "permissions"
    tokens.write_text(f"me:{TOKEN}\n")
    permissions.write_text(f'[callers]\n"token:me" = ["{INFER_PATH}"]\n')
    with run_http(replace(CONFIG, token_file=tokens, authorization_file=permissions)) as running:
        assert ask_with_token(running.address).code == 200
        reply = ask_with_token(running.address, path=BATCH_PATH)
        assert (reply.code, reply.reason) == (403, Reason.PERMISSION_DENIED)


def test_call_above_the_quota_is_rejected_with_a_delay():
    with run_http(replace(CONFIG, max_calls_per_caller_per_second=0.01)) as running:
        assert post(running.address).code == 200
        reply = post(running.address)
    assert (reply.code, reply.reason) == (429, Reason.QUOTA_EXCEEDED)
    assert 1 <= int(reply.headers["retry-after"]) <= 100


def test_rejected_gate_leaves_no_place():
    with run_http(gates=[refuse()]) as running:
        assert post(running.address).code == 403
        assert (len(running.admission), running.admission.used_bytes) == (0, 0)


def reject(admission: Admission, host: str, size: int) -> LimitError:
    with pytest.raises(LimitError) as caught:
        admission.enter(host, size)
    return caught.value


def test_request_takes_a_place_and_memory_until_it_leaves():
    admission = Admission(4, 100)
    place = admission.enter("a", 30)
    assert (len(admission), admission.used_bytes) == (1, 30)
    admission.leave(place)
    assert (len(admission), admission.used_bytes) == (0, 0)


def test_single_place_is_for_any_host():
    admission = Admission(1, 100)
    admission.leave(admission.enter("a", 1))
    assert admission.enter("b", 1)


def test_request_without_memory_is_rejected():
    admission = Admission(8, 100)
    admission.enter("a", 50)
    admission.enter("b", 40)
    assert reject(admission, "c", 11).message == "the server has no free memory"
    assert admission.enter("c", 10)


def test_host_has_half_of_the_memory():
    admission = Admission(8, 100)
    admission.enter("a", 40)
    assert reject(admission, "a", 11).reason is Reason.SERVER_BUSY
    assert admission.enter("a", 10)


def test_only_request_of_a_host_may_have_most_of_the_memory():
    admission = Admission(8, 100)
    place = admission.enter("a", 60)
    admission.grow(place, 75)
    with pytest.raises(LimitError):
        admission.grow(place, 76)
    assert admission.used_bytes == 75


def test_growth_beyond_the_memory_keeps_the_size():
    admission = Admission(8, 100)
    place, _ = admission.enter("a", 10), admission.enter("b", 50)
    with pytest.raises(LimitError):
        admission.grow(place, 51)
    assert (place.size, admission.used_bytes) == (10, 60)


def test_rejected_request_keeps_nothing():
    admission = Admission(8, 100)
    for _ in range(20):
        reject(admission, "a", 76)
    assert (len(admission), admission.used_bytes) == (0, 0)
    assert admission.enter("a", 75)


async def test_place_is_free_only_after_its_work():
    admission = Admission(8, 100)
    place = admission.enter("a", 10)
    place.work = work = asyncio.get_running_loop().create_future()
    admission.leave(place)
    assert (len(admission), admission.used_bytes) == (1, 10)
    work.set_result(None)
    await asyncio.sleep(0)
    assert (len(admission), admission.used_bytes) == (0, 0)


def test_hosts_that_left_are_forgotten():
    admission = Admission(8, 100)
    places: list[Place] = [admission.enter(f"host {number}", 1) for number in range(8)]
    for place in places:
        admission.leave(place)
    assert (admission._requests, admission._bytes) == ({}, {})
