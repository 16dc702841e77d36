"""Calls over HTTP have the life cycle of gRPC calls, in a server in this process."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import grpc
import pytest

from http_calls import connect, post, read_answer, receive_all, write_request
from in_process import ANY_PORT, WAIT_SECONDS, run_runner
from json_bodies import ANSWER, BATCH_PATH, INFER_PATH, QUESTION, write_batch, write_json
from plain_requests import INFER
from tensor_reshape.rules.errors import PermissionDeniedError, Reason
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.gates import Gate
from tensor_reshape.server.calls.results import GONE, OK
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.lifecycle import Event, State
from tensor_reshape.server.engine.observers import CallRecord, Observer
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.methods import ReshapeService

CONFIG = Config(listen=(ANY_PORT,), http_listen=ANY_PORT, drain_seconds=0, shutdown_grace_seconds=0)


class Watcher(Observer):
    """An observer that keeps the last record of each call, and its events with the resulting states."""

    def __init__(self) -> None:
        self.lives = dict[str, list[tuple[Event, State]]]()
        self.records = dict[str, CallRecord]()
        self._news = threading.Condition()

    def observe(self, record: CallRecord, event: Event) -> None:
        with self._news:
            self.lives.setdefault(record.info.request_id, []).append((event, record.state))
            self.records[record.info.request_id] = record
            self._news.notify_all()

    def await_any(self, request_id: str, *wanted: Event | State) -> CallRecord:
        """Waits for one of some events or states of a call."""

        def has_come() -> bool:
            return any({*moment} & {*wanted} for moment in self.lives.get(request_id, ()))

        with self._news:
            assert self._news.wait_for(has_come, WAIT_SECONDS), self.lives
        return self.records[request_id]


class Turnstile:
    """A gate that keeps the infos of calls, and admits them unless it has a rejection."""

    def __init__(self, rejection: PermissionDeniedError | None = None) -> None:
        self.rejection = rejection
        self.infos = list[CallInfo]()
        self.left = threading.Semaphore(0)

    def admit(self, info: CallInfo) -> None:
        self.infos.append(info)
        if self.rejection is not None:
            raise self.rejection

    def leave(self, info: CallInfo) -> None:
        del info
        self.left.release()


@contextmanager
def run(
    config: Config, service: ReshapeService | None = None, *, watcher: Watcher | None = None, gate: Gate | None = None
) -> Iterator[tuple[Runner, str]]:
    """Runs a server; yields it with its address for HTTP."""
    observers, gates = [watcher] if watcher else (), [gate] if gate else ()
    with run_runner(config, service=service, observers=observers, gates=gates) as runner:
        assert runner.http_address is not None
        yield runner, runner.http_address


class SlowTurns:
    """Turns of the service's threads that wait until they are released."""

    def __init__(self) -> None:
        self.arrived = threading.Semaphore(0)
        self.released = threading.Event()

    def __enter__(self) -> None:
        self.arrived.release()
        self.released.wait(WAIT_SECONDS)

    def __exit__(self, *_: object) -> None:
        pass

    def give_way(self) -> None:
        pass


@contextmanager
def run_slow(config: Config, watcher: Watcher) -> Iterator[tuple[str, SlowTurns]]:
    """Runs a server whose batches wait."""
    turns = SlowTurns()
    with run(config, ReshapeService(config.limits, make_turns=lambda: turns), watcher=watcher) as (_, address):
        try:
            yield address, turns
        finally:
            turns.released.set()


def ask_batch(connection: socket.socket, name: bytes, count: int = 1) -> None:
    connection.sendall(write_request(write_batch(count), b"X-Request-Id: " + name, path=BATCH_PATH))


def test_small_http_query_has_the_events_of_a_grpc_call():
    watcher, gate = Watcher(), Turnstile()
    with run(CONFIG, watcher=watcher, gate=gate) as (_, address):
        reply = post(address, headers={"x-request-id": "mine", "x-more": "told"})
        record = watcher.await_any("mine", State.DONE)
        assert gate.left.acquire(timeout=WAIT_SECONDS)
    assert (reply.code, reply.document, reply.headers["x-request-id"]) == (200, ANSWER, "mine")
    assert [event for event, _ in watcher.lives["mine"]] == [
        Event.ENTER, Event.REQUEST, Event.READ, Event.ARRIVE, Event.END, Event.OVER
    ]  # fmt: skip
    assert (record.method, record.request_messages, record.response_messages) == (INFER_PATH, 1, 1)
    assert record.request_bytes == len(write_json(QUESTION))
    assert record.result == OK
    (info,) = gate.infos
    assert info.peer.startswith("ipv4:127.0.0.1:")
    assert info.find_values("x-more") == ["told"]


def test_http_batch_call_runs_in_a_thread():
    watcher = Watcher()
    with run(CONFIG, watcher=watcher) as (_, address):
        assert post(address, {"items": []}, BATCH_PATH, {"x-request-id": "a"}).code == 200
        watcher.await_any("a", State.DONE)
    assert [event for event, _ in watcher.lives["a"]] == [
        Event.ENTER, Event.REQUEST, Event.READ, Event.ARRIVE, Event.QUEUE, Event.GRANT, Event.BEGIN_WORK, Event.END,
        Event.OVER,
    ]  # fmt: skip


def test_admission_check_rejects_http_calls_before_reading_the_body():
    gate = Turnstile(PermissionDeniedError.of(Reason.PERMISSION_DENIED, "not you"))
    with run(CONFIG, gate=gate) as (_, address), connect(address) as connection:
        connection.sendall(write_request(length=1000))
        code, answer = read_answer(connection)
    assert code == 403
    assert b"PERMISSION_DENIED" in answer


def test_http_call_is_cancelled_when_its_client_disconnects():
    watcher = Watcher()
    with run_slow(CONFIG, watcher) as (address, turns):
        with connect(address) as connection:
            ask_batch(connection, b"gone")
            assert turns.arrived.acquire(timeout=WAIT_SECONDS)
        watcher.await_any("gone", State.ABANDONED)
        turns.released.set()
        assert watcher.await_any("gone", State.DONE).result == GONE
        with connect(address) as connection:
            connection.sendall(write_request(b"{", b"X-Request-Id: half", length=100))
            watcher.await_any("half", State.RECEIVING)
        watcher.await_any("half", State.DONE)


def test_stalled_request_body_aborts_the_http_call():
    with run(replace(CONFIG, stall_timeout_seconds=0.2)) as (_, address), connect(address) as connection:
        connection.sendall(write_request(b"{", length=100))
        answer = receive_all(connection)
    assert answer.startswith(b"HTTP/1.1 429")
    assert b"STALLED" in answer


def test_unread_http_response_closes_the_connection():
    watcher = Watcher()
    with run(replace(CONFIG, stall_timeout_seconds=0.2), watcher=watcher) as (runner, address):
        gateway = runner._extra_listeners._gateway
        assert gateway is not None
        for listener in gateway.port._listeners:  # so that the system accepts only a few kilobytes of a response
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with connect(address) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            ask_batch(connection, b"a", 1000)
            watcher.await_any("a", State.DONE)
            assert not receive_all(connection).endswith(b"]}")
    assert (Event.ABORT, State.ABORTED) in watcher.lives["a"]


def test_http_batch_that_waits_too_long_for_threads_is_rejected():
    watcher = Watcher()
    config = replace(
        CONFIG, stall_timeout_seconds=1.0, max_message_bytes=2**20
    )  # so more calls have memory than threads
    with run_slow(config, watcher) as (address, turns), ExitStack() as stack:
        connections = {f"{number}": stack.enter_context(connect(address)) for number in range(9)}
        for name, connection in connections.items():
            ask_batch(connection, name.encode())
        for _ in range(8):
            assert turns.arrived.acquire(timeout=WAIT_SECONDS)
        for name in connections:
            watcher.await_any(name, Event.BEGIN_WORK, Event.ABORT)
        (aborted,) = [name for name, life in watcher.lives.items() if Event.ABORT in dict(life)]
        code, body = read_answer(connections[aborted])
        assert (code, Reason.SERVER_BUSY.encode() in body) == (429, True)
        turns.released.set()


def test_http_call_exception_is_logged_without_sending_its_text(caplog: pytest.LogCaptureFixture):
    class BrokenTurns(SlowTurns):
        def __enter__(self) -> None:
            text = "secret"
            raise ValueError(text)

    with run(CONFIG, ReshapeService(CONFIG.limits, make_turns=BrokenTurns)) as (_, address):
        reply = post(address, {"items": []}, BATCH_PATH)
    assert (reply.code, reply.document) == (500, {"code": 13, "message": "internal error"})
    assert "bug" in [record.message for record in caplog.records]


def test_grpc_and_http_calls_share_a_quota():
    config = replace(CONFIG, max_calls_per_caller_per_second=0.01)
    with run(config) as (runner, address), grpc.insecure_channel(runner.addresses[0]) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(INFER_PATH)
        assert call(INFER, timeout=WAIT_SECONDS)
        reply = post(address)
    assert (reply.code, reply.reason) == (429, Reason.QUOTA_EXCEEDED)
    assert 1 <= int(reply.headers["retry-after"]) <= 100


def test_chunked_connect_request_is_answered():
    with run_runner(CONFIG) as runner, connect(str(runner.http_address)) as connection:
        body = write_json(QUESTION)
        connection.sendall(write_connect_head() + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        code, answer = read_answer(connection)
    assert (code, json.loads(answer)) == (200, ANSWER)


def test_endless_chunked_connect_request_is_rejected_at_the_limit():
    with run_runner(CONFIG) as runner, connect(str(runner.http_address)) as connection:
        connection.sendall(write_connect_head() + b"4000\r\n%b\r\n" % bytes(0x4000) * 5)
        code, answer = read_answer(connection)
        assert (code, json.loads(answer)["code"]) == (429, "resource_exhausted")
        assert receive_all(connection) == b""


def test_connect_deadline_ends_a_call_that_a_thread_works_on():
    watcher = Watcher()
    with run_slow(CONFIG, watcher) as (address, turns):
        with connect(address) as connection:
            lines = (b"X-Request-Id: late", b"Connect-Protocol-Version: 1", b"Connect-Timeout-Ms: 100")
            connection.sendall(write_request(write_batch(1), *lines, path=BATCH_PATH))
            code, answer = read_answer(connection)
        assert (code, json.loads(answer)["code"]) == (504, "deadline_exceeded")
        watcher.await_any("late", State.ABANDONED)
        turns.released.set()
        assert watcher.await_any("late", State.DONE).result == GONE


def test_chunks_after_the_announced_length_do_not_reach_an_inference():
    with run_runner(CONFIG) as runner, connect(str(runner.http_address)) as connection:
        lines = (b"Connect-Protocol-Version: 1", b"Transfer-Encoding: chunked")
        connection.sendall(write_request(b"2\r\n{}\r\n0\r\n\r\n", *lines, path="/v2/models/reshape/infer", length=2))
        code, _ = read_answer(connection)
    assert code == 400


def write_connect_head() -> bytes:
    """Returns the headers of a Connect request whose body is chunked."""
    lines = ("Host: localhost", "Content-Type: application/json", "Connect-Protocol-Version: 1")
    return "\r\n".join([f"POST {INFER_PATH} HTTP/1.1", *lines, "Transfer-Encoding: chunked", "", ""]).encode()
