"""Calls over HTTP live as those of gRPC do, in a server in this process, whichever way that serves."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import grpc
import pytest

from http_calls import connect, post, read_answer, receive_all, write_request
from in_process import ANY_PORT, WAIT_SECONDS, hurry_stop
from json_bodies import ANSWER, BATCH_PATH, INFER_PATH, QUESTION, write_batch, write_json
from plain_requests import INFER
from tensor_reshape.rules.errors import PermissionDeniedError, Reason
from tensor_reshape.server.calls.gates import Gate
from tensor_reshape.server.calls.heads import CallHead
from tensor_reshape.server.calls.lifecycle import Event, State
from tensor_reshape.server.calls.observers import CallRecord, Observer
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.methods import ReshapeService

CONFIG = Config(listen=(ANY_PORT,), http_listen=ANY_PORT, drain_seconds=0, grace_seconds=0)


class Watcher:
    """An observer that keeps the last record of each call, and how its life went."""

    def __init__(self) -> None:
        self.lives = dict[str, list[tuple[Event, State]]]()
        self.records = dict[str, CallRecord]()
        self._news = threading.Condition()

    def observe(self, record: CallRecord, event: Event) -> None:
        with self._news:
            self.lives.setdefault(record.head.request_id, []).append((event, record.state))
            self.records[record.head.request_id] = record
            self._news.notify_all()

    def await_state(self, request_id: str, state: State) -> CallRecord:
        with self._news:
            assert self._news.wait_for(
                lambda: request_id in self.records and self.records[request_id].state is state, WAIT_SECONDS
            ), self.lives
        return self.records[request_id]


class Turnstile:
    """A gate that keeps the heads that it sees, and lets in whom it is told to."""

    def __init__(self, refusal: PermissionDeniedError | None = None) -> None:
        self.refusal = refusal
        self.heads = list[CallHead]()
        self.left = threading.Semaphore(0)

    def admit(self, head: CallHead) -> None:
        self.heads.append(head)
        if self.refusal is not None:
            raise self.refusal

    def leave(self, head: CallHead) -> None:
        del head
        self.left.release()


@contextmanager
def run(
    config: Config, service: ReshapeService | None = None, *, observer: Observer | None = None, gate: Gate | None = None
) -> Iterator[Runner]:
    runner = Runner(config, service, observers=[observer] if observer else (), gates=[gate] if gate else ())
    runner.start()
    try:
        yield runner
    finally:
        hurry_stop(runner)


def call_grpc(channel: grpc.Channel) -> bytes:
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(INFER_PATH)
    return call(INFER, timeout=WAIT_SECONDS)


def find_address(runner: Runner) -> str:
    assert runner.http_address is not None
    return runner.http_address


class SlowTurns:
    """Turns of the service's threads that wait until they are let go."""

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
def run_slow(config: Config, observer: Observer) -> Iterator[tuple[str, SlowTurns]]:
    """Runs a server whose batches wait."""
    turns = SlowTurns()
    with run(config, ReshapeService(config.limits, make_turns=lambda: turns), observer=observer) as runner:
        try:
            yield find_address(runner), turns
        finally:
            turns.released.set()


def ask_batch(connection: socket.socket, name: bytes) -> None:
    connection.sendall(write_request(write_batch(1), b"X-Request-Id: " + name, path=BATCH_PATH))


@pytest.mark.parametrize("serving", ["inline", "threads"])
def test_a_small_question_lives_as_one_of_grpc_does(serving: str):
    watcher, gate = Watcher(), Turnstile()
    with run(replace(CONFIG, serving=serving), observer=watcher, gate=gate) as runner:
        reply = post(find_address(runner), headers={"x-request-id": "mine", "x-more": "told"})
        record = watcher.await_state("mine", State.DONE)
        assert gate.left.acquire(timeout=WAIT_SECONDS)
    assert (reply.code, reply.document, reply.headers["x-request-id"]) == (200, ANSWER, "mine")
    assert [event for event, _ in watcher.lives["mine"]] == [
        Event.ENTER, Event.ASK, Event.READ, Event.ARRIVE, Event.END, Event.OVER
    ]  # fmt: skip
    assert (record.method, record.request_messages, record.response_messages) == (INFER_PATH, 1, 1)
    assert record.request_bytes == len(write_json(QUESTION))
    assert record.ending is not None
    assert record.ending.code == "OK"
    (head,) = gate.heads
    assert head.peer.startswith("ipv4:127.0.0.1:")
    assert head.find_values("x-more") == ["told"]


def test_a_batch_waits_for_a_thread():
    watcher = Watcher()
    with run(CONFIG, observer=watcher) as runner:
        assert post(find_address(runner), {"items": []}, BATCH_PATH, {"x-request-id": "a"}).code == 200
        watcher.await_state("a", State.DONE)
    assert [event for event, _ in watcher.lives["a"]] == [
        Event.ENTER, Event.ASK, Event.READ, Event.ARRIVE, Event.QUEUE, Event.ROOM, Event.TAKE_UP, Event.END, Event.OVER
    ]  # fmt: skip


def test_a_gate_refuses_before_the_body_is_read():
    gate = Turnstile(PermissionDeniedError.of(Reason.PERMISSION_DENIED, "not you"))
    with run(CONFIG, gate=gate) as runner, connect(find_address(runner)) as connection:
        connection.sendall(write_request(length=1000))
        answer = receive_all(connection)
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"PERMISSION_DENIED" in answer


def test_a_call_that_is_refused_has_its_line(caplog: pytest.LogCaptureFixture):
    with run(CONFIG) as runner, caplog.at_level("INFO"):
        reply = post(find_address(runner), {**QUESTION, "operation": 0}, headers={"x-request-id": "a"})
    assert reply.code == 400
    (line,) = [vars(record) for record in caplog.records if record.message == "refused"]
    assert (line["method"], line["request_id"], line["reason"]) == (INFER_PATH, "a", Reason.OPERATION_UNSPECIFIED)


def test_there_is_no_more_room_than_for_all_calls_together():
    watcher = Watcher()
    with run_slow(replace(CONFIG, max_calls=1), watcher) as (address, turns), connect(address) as first:
        ask_batch(first, b"first")
        assert turns.arrived.acquire(timeout=WAIT_SECONDS)
        reply = post(address)
        assert (reply.code, reply.reason, reply.headers["retry-after"]) == (429, Reason.SERVER_BUSY, "1")
        turns.released.set()
        assert read_answer(first)[0] == 200
        watcher.await_state("first", State.DONE)
        assert post(address).code == 200


def test_a_call_over_http_and_one_over_grpc_share_the_places():
    watcher = Watcher()
    with (
        run_slow(replace(CONFIG, max_calls=1), watcher) as (address, turns),
        connect(address) as first,
    ):
        ask_batch(first, b"first")
        assert turns.arrived.acquire(timeout=WAIT_SECONDS)
        assert post(address).reason == Reason.SERVER_BUSY


def test_who_goes_while_the_server_works_gives_all_back():
    watcher = Watcher()
    with run_slow(CONFIG, watcher) as (address, turns):
        with connect(address) as connection:
            ask_batch(connection, b"gone")
            assert turns.arrived.acquire(timeout=WAIT_SECONDS)
        watcher.await_state("gone", State.ABANDONED)
        turns.released.set()
        record = watcher.await_state("gone", State.DONE)
    assert record.ending is not None
    assert record.ending.code == "CANCELLED"


def test_who_goes_in_the_middle_of_a_body_gives_all_back():
    watcher = Watcher()
    with run(CONFIG, observer=watcher) as runner:
        with connect(find_address(runner)) as connection:
            connection.sendall(write_request(b"{", b"X-Request-Id: a", length=100))
            watcher.await_state("a", State.RECEIVING)
        watcher.await_state("a", State.DONE)


def test_a_body_that_does_not_come_is_given_up():
    with run(replace(CONFIG, stall_seconds=0.2)) as runner, connect(find_address(runner)) as connection:
        connection.sendall(write_request(b"{", length=100))
        answer = receive_all(connection)
    assert answer.startswith(b"HTTP/1.1 429")
    assert b"STALLED" in answer


def test_who_does_not_take_an_answer_is_dropped():
    watcher = Watcher()
    with run(replace(CONFIG, stall_seconds=0.2), observer=watcher) as runner:
        gateway = runner._side_ports._gateway
        assert gateway is not None
        for listener in gateway.port._listeners:  # so that the system takes no more of an answer than a few kilobytes
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with connect(find_address(runner)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(write_request(write_batch(4000), b"X-Request-Id: a", path=BATCH_PATH))
            watcher.await_state("a", State.DONE)
            assert not receive_all(connection).endswith(b"]}")
    assert (Event.GIVE_UP, State.GIVEN_UP) in watcher.lives["a"]


def test_a_batch_that_waits_for_a_thread_for_too_long_is_refused():
    watcher = Watcher()
    with run_slow(replace(CONFIG, stall_seconds=0.3), watcher) as (address, turns):
        connections = [connect(address) for _ in range(9)]
        try:
            for number, connection in enumerate(connections):
                ask_batch(connection, b"%d" % number)
            for _ in range(8):
                assert turns.arrived.acquire(timeout=WAIT_SECONDS)
            given_up = [name for name in map(str, range(9)) if is_given_up(watcher, name)]
            assert len(given_up) == 1
            code, body = read_answer(connections[int(given_up[0])])
            assert (code, Reason.SERVER_BUSY.encode() in body) == (429, True)
            turns.released.set()
        finally:
            for connection in connections:
                connection.close()


def is_given_up(watcher: Watcher, name: str) -> bool:
    """Whether a call waits for a thread until it is given up; it has been worked on otherwise."""
    with watcher._news:
        assert watcher._news.wait_for(
            lambda: {event for event, _ in watcher.lives.get(name, ())} & {Event.TAKE_UP, Event.GIVE_UP}, WAIT_SECONDS
        )
    return Event.GIVE_UP in {event for event, _ in watcher.lives[name]}


def test_a_bug_is_told_without_its_text(caplog: pytest.LogCaptureFixture):
    class BrokenTurns(SlowTurns):
        def __enter__(self) -> None:
            text = "secret"
            raise ValueError(text)

    service = ReshapeService(CONFIG.limits, make_turns=BrokenTurns)
    with run(CONFIG, service) as runner:
        reply = post(find_address(runner), {"items": []}, BATCH_PATH)
    assert (reply.code, reply.document) == (500, {"code": 13, "message": "internal error"})
    assert "bug" in [record.message for record in caplog.records]


def test_grpc_is_served_beside():
    with run(CONFIG) as runner, grpc.insecure_channel(runner.addresses[0]) as channel:
        assert post(find_address(runner)).code == 200
        assert call_grpc(channel)


def test_quotas_count_both():
    config = replace(CONFIG, max_calls_per_caller_per_second=0.01)
    with run(config) as runner, grpc.insecure_channel(runner.addresses[0]) as channel:
        call_grpc(channel)
        reply = post(find_address(runner))
    assert (reply.code, reply.reason) == (429, Reason.QUOTA_EXCEEDED)
    assert 1 <= int(reply.headers["retry-after"]) <= 100
