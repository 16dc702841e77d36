"""Calls of the service on gRPC's core: disconnected callers, bugs in the engine, and work on threads."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest
from grpc import StatusCode

from grpc_servers import (
    BROKEN,
    HUGE,
    LONG,
    METHODS,
    REJECTED,
    STREAM,
    UNARY,
    UNFINISHED,
    EngineServer,
    answer,
    serve_engine,
)
from http2 import SECONDS, Connection, frame, grpc_message
from http2 import Kind as Frame
from tensor_reshape.server.calls.results import GONE, OK, CallResult, EndedCall
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.lifecycle import Event, IllegalEventError, State
from tensor_reshape.server.grpc.handlers import ServiceCall, StreamCall, UnaryCall
from tensor_reshape.server.service.method_tables import UnaryMethod, WatchMethod, Work
from tensor_reshape.server.telemetry.call_logs import AccessLog
from tensor_reshape.wire.status import REQUEST_ID_KEY

CANCEL, CANCELLED = bytes(3) + b"\x08", {"1", "RST"}
MIB = 1024 * 1024
NARROW = Config(max_message_bytes=MIB, memory_budget_bytes=8 * MIB)
"""Memory for two messages of a connection at the same time, so its third call waits."""


def cancel(connection: Connection, stream: int) -> None:
    connection.send(frame(Frame.RST_STREAM, 0, stream, CANCEL))


@pytest.mark.parametrize("path", [UNARY, STREAM])
@pytest.mark.parametrize("sent", [0, 3, 50], ids=["nothing", "half a prefix", "half a message"])
def test_cancellation_is_detected_while_awaiting_the_request_message(
    served: EngineServer, connection: Connection, path: str, sent: int
):
    stream = connection.open(path)
    connection.send_data(stream, grpc_message(bytes(100))[:sent])
    served.watcher.await_event(Event.READ)
    cancel(connection, stream)
    served.check_nothing_is_held()


def test_unary_response_is_sent_before_the_client_half_closes(connection: Connection):
    stream = connection.open(UNARY)
    connection.send_data(stream, grpc_message(b"message"))
    assert connection.await_end(stream).is_ok


@contextmanager
def fill() -> Iterator[tuple[EngineServer, Connection, list[int]]]:
    """Opens three calls, the last of which waits for memory."""
    with serve_engine(NARROW) as served, Connection(served.address) as connection:
        streams = [connection.open(UNARY) for _ in range(3)]
        served.watcher.await_event(Event.REQUEST, 3)
        assert [event for event, _ in served.watcher.seen].count(Event.READ) == 2
        yield served, connection, streams


def test_cancellation_is_detected_while_waiting_for_memory():
    with fill() as (served, connection, streams):
        cancel(connection, streams[-1])
        served.watcher.await_event(Event.OVER)
        assert served.watcher.seen[-1] == (Event.OVER, State.DONE)


def test_call_that_waited_for_memory_is_served():
    with fill() as (served, connection, streams):
        cancel(connection, streams[0])
        served.watcher.await_event(Event.READ, 3)
        connection.send_data(streams[-1], grpc_message(b"message"), end=True)
        assert connection.await_end(streams[-1]).is_ok


def fail(*_: object, **__: object) -> None:
    message = "a secret"
    raise IllegalEventError(message)


@pytest.mark.parametrize(
    ("path", "method", "message"),
    [
        (UNARY, "enter", b"short"),
        (UNARY, "end", b"short"),
        (UNARY, "message_received", REJECTED),
        (UNARY, "end", REJECTED),
        (UNARY, "message_received", LONG),
        (UNARY, "request_work", LONG),
        (UNARY, "begin_work", LONG),
        (UNARY, "end", LONG),
        (STREAM, "enter", b"short"),
        (STREAM, "message_received", b"short"),
        (STREAM, "respond", b"short"),
        (STREAM, "sent", b"short"),
        (STREAM, "end", BROKEN),
        (STREAM, "request_work", LONG),
        (STREAM, "respond", LONG),
    ],
)
def test_exception_in_the_engine_ends_only_its_call(
    connection: Connection,
    path: str,
    method: str,
    message: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(Engine, method, fail)
        end = connection.call(path, message)
    assert end.status in CANCELLED
    assert "secret" not in end.message
    assert {record.message for record in caplog.records} == {"bug"}
    assert connection.call(path, b"message").is_ok


@pytest.mark.parametrize("path", [UNARY, STREAM])
def test_exception_at_the_end_of_a_call_affects_no_other(
    connection: Connection, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    failed = threading.Event()

    def fail_noted(*_: object, **__: object) -> None:
        failed.set()
        fail()

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "release", fail_noted)
        assert connection.call(path, b"message").is_ok
        assert failed.wait(SECONDS)
    assert connection.call(path, b"message").is_ok
    assert {record.message for record in caplog.records} == {"bug"}


@pytest.mark.parametrize(("path", "kind"), [(UNARY, UnaryCall), (STREAM, StreamCall)])
def test_memory_error_ends_only_its_own_call(
    connection: Connection, path: str, kind: type, monkeypatch: pytest.MonkeyPatch
):
    def fail_for_want(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(kind, "__init__", fail_for_want)
        assert connection.call(path, b"message").status in CANCELLED
    assert connection.call(path, b"message").is_ok


def test_call_gets_a_brief_error_if_sending_its_rejection_fails(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    with serve_engine(clock=lambda: now[0]) as served, Connection(served.address) as connection:
        with monkeypatch.context() as patch:
            patch.setattr(UnaryCall, "finish", fail)
            stream = connection.open(UNARY)
            served.watcher.await_event(Event.READ)
            for now[0] in (1e6, 2e6):
                served.engine.perform(served.engine.sweep())
            assert connection.await_end(stream).message.startswith("STALLED: the call has made no progress for ")
        served.check_nothing_is_held()


class HeldPool(ThreadPoolExecutor):
    """Keeps submitted work until the test runs it, or has no free threads."""

    def __init__(self, *, has_threads: bool = True) -> None:
        super().__init__(1)
        self.has_threads = has_threads
        self.kept: list[Callable[[], Any]] = []
        self.lives: list[Any] = []

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
        if not self.has_threads:
            message = "can't start new thread"
            raise RuntimeError(message)
        self.lives += arguments
        self.kept.append(partial(work, *arguments, **keywords))


def build_pools(pool: HeldPool) -> Mapping[Work, ThreadPoolExecutor]:
    return dict.fromkeys(Work, pool)


@pytest.mark.parametrize("path", [UNARY, STREAM])
def test_call_is_ended_if_no_thread_can_start(path: str, caplog: pytest.LogCaptureFixture):
    pools = build_pools(HeldPool(has_threads=False))
    with serve_engine(pools=pools) as served, Connection(served.address) as connection:
        assert connection.call(path, LONG).status in CANCELLED
        served.check_nothing_is_held()
        assert connection.call(path, b"message").is_ok
        assert served.watcher.results[0][1] == "CANCELLED"
    assert [record.message for record in caplog.records] == ["bug"]


@pytest.mark.parametrize("path", [UNARY, STREAM])
def test_cancelled_call_is_freed_before_its_queued_work_runs(path: str):
    pool = HeldPool()
    with serve_engine(pools=build_pools(pool)) as served, Connection(served.address) as connection:
        stream = connection.open(path)
        connection.send_data(stream, grpc_message(LONG))
        served.watcher.await_event(Event.GRANT)
        cancel(connection, stream)
        served.check_nothing_is_held()
        assert connection.call(path, b"message").is_ok  # the thread that receives calls has continued
        (life,) = pool.lives
        assert not isinstance(life.handler, ServiceCall)
        pool.kept.pop()()  # the kept work does nothing


def test_client_disconnect_during_work_frees_all_memory_and_calls():
    saw = list[bool]()
    working, gone = threading.Event(), threading.Event()

    def answer(raw: bytes, is_over: Callable[[], bool]) -> bytes:
        working.set()
        assert gone.wait(SECONDS)
        saw.append(is_over())
        return raw

    methods = METHODS._replace(unary=(UnaryMethod(UNARY, answer, lambda _: None),))
    with serve_engine(methods=methods) as served, Connection(served.address) as connection:
        stream = connection.open(UNARY)
        connection.send_data(stream, grpc_message(b"message"))
        assert working.wait(SECONDS)
        cancel(connection, stream)
        served.watcher.await_event(Event.OVER)
        gone.set()
        served.check_nothing_is_held()
    assert saw == [True]


def test_long_work_runs_in_the_thread_pool_of_its_kind():
    names = list[str]()

    def answer(raw: bytes, _: Callable[[], bool]) -> bytes:
        names.append(threading.current_thread().name)
        return raw

    methods = METHODS._replace(unary=(UnaryMethod(UNARY, answer, lambda _: None, lambda _: Work.BATCHES),))
    with serve_engine(methods=methods) as served, Connection(served.address) as connection:
        assert connection.call(UNARY, b"message").is_ok
    assert names[0].startswith("BATCHES")


class Recorder(AccessLog):
    """Records the calls that are over. The server returns the request id of each of them."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[EndedCall] = SimpleQueue()

    def write(self, call: EndedCall) -> None:
        self.calls.put(call)


class OneUpdate:
    """A watch that sends one update and then ends."""

    is_over = True

    def __init__(self, raw: bytes) -> None:
        self.updates = [answer(raw)]

    def find_update(self) -> bytes | None:
        return self.updates.pop() if self.updates else None

    def close(self) -> None:
        pass


WATCH, LARGE = "/a.Service/Watch", bytes(4097)
WATCHES = METHODS._replace(watches=(WatchMethod(WATCH, lambda raw, _notify, _source: OneUpdate(raw)),))
INVALID = CallResult("INVALID_ARGUMENT", "MESSAGE_MALFORMED")
INTERNAL = CallResult("INTERNAL", "INTERNAL_ERROR")
BUSY = CallResult("RESOURCE_EXHAUSTED", "SERVER_BUSY")
TOO_LARGE = CallResult("RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE")
A_FIELD, FULL = {"field": "a.field"}, {"detail": "the server is out of memory"}

# The path, the messages, the result, the numbers and bytes of received and sent messages, the first response, and the
# field or detail in the log line; None if the call has no log line.
CALLS: dict[str, tuple[str, list[bytes], CallResult, tuple[int, int, int, int], bytes, dict[str, str] | None]] = {
    "unary": (UNARY, [b"short"], OK, (1, 5, 1, 5), b"SHORT", None),
    "long unary": (UNARY, [LONG], OK, (1, 4, 1, 4), b"LONG", None),
    "rejected unary": (UNARY, [REJECTED], INVALID, (1, 8, 0, 0), b"", A_FIELD),
    "rejected long unary": (UNARY, [LONG + REJECTED], INVALID, (1, 12, 0, 0), b"", A_FIELD),
    "broken unary": (UNARY, [BROKEN], INTERNAL, (1, 6, 0, 0), b"", {}),
    "broken long unary": (UNARY, [LONG + BROKEN], INTERNAL, (1, 10, 0, 0), b"", {}),
    "unary without memory": (UNARY, [HUGE], BUSY, (1, 4, 0, 0), b"", FULL),
    "unary without a message": (UNARY, [], INVALID, (0, 0, 0, 0), b"", {}),
    "large unary": (UNARY, [LARGE], TOO_LARGE, (0, 0, 0, 0), b"", {}),
    "stream": (STREAM, [b"a", LONG, b"", b"b"], OK, (4, 6, 3, 6), b"A", None),
    "empty stream": (STREAM, [], OK, (0, 0, 0, 0), b"", None),
    "rejected stream": (STREAM, [b"a", REJECTED], INVALID, (2, 9, 1, 1), b"A", A_FIELD),
    "rejected long stream": (STREAM, [LONG + REJECTED], INVALID, (1, 12, 0, 0), b"", A_FIELD),
    "broken stream": (STREAM, [BROKEN], INTERNAL, (1, 6, 0, 0), b"", {}),
    "unfinished stream": (STREAM, [UNFINISHED], INVALID, (1, 10, 1, 10), b"UNFINISHED", A_FIELD),
    "large stream": (STREAM, [LARGE], TOO_LARGE, (0, 0, 0, 0), b"", {}),
    "watch": (WATCH, [b"update"], OK, (1, 0, 0, 0), b"", None),
    "rejected watch": (WATCH, [REJECTED], INVALID, (1, 0, 0, 0), b"", A_FIELD),
    "watch without a message": (WATCH, [], INVALID, (0, 0, 0, 0), b"", {}),
    "large watch": (WATCH, [LARGE], TOO_LARGE, (0, 0, 0, 0), b"", {}),
}


@pytest.mark.parametrize(("path", "messages", "result", "sizes", "first", "logged"), CALLS.values(), ids=CALLS)
def test_call_has_its_record_its_log_line_and_its_request_id(
    path: str,
    messages: list[bytes],
    result: CallResult,
    sizes: tuple[int, int, int, int],
    first: bytes,
    logged: dict[str, str] | None,
    caplog: pytest.LogCaptureFixture,
):
    recorder, options = Recorder(), [("grpc.max_receive_message_length", len(LARGE) - 1)]
    with (
        caplog.at_level(logging.INFO),
        serve_engine(methods=WATCHES, observers=[recorder], options=options) as served,
        Connection(served.address) as connection,
    ):
        stream = connection.open(path, headers=[(REQUEST_ID_KEY, "mine")])
        connection.send_data(stream, b"".join(map(grpc_message, messages)), end=True)
        assert connection.await_end(stream).status == str(StatusCode[result.code].value[0])
        call = recorder.calls.get(timeout=SECONDS)
        assert connection.headers[stream].get(REQUEST_ID_KEY) == (None if LARGE in messages else "mine")
        served.check_nothing_is_held()
    assert (call.result, call.info.response) == (result, first)
    assert (call.request_messages, call.request_bytes, call.response_messages, call.response_bytes) == sizes
    lines = [vars(record) for record in caplog.records if "code" in vars(record)]
    about = [{name: line[name] for name in ("field", "detail") if name in line} for line in lines]
    assert about == ([] if logged is None else [logged])
    assert {(line["message"], line["code"], line["reason"]) for line in lines} <= {
        ("failed" if result is INTERNAL else "rejected", *result)
    }


def open_silently(connection: Connection) -> int:
    return connection.open(UNARY)


def open_halfway(connection: Connection) -> int:
    stream = connection.open(STREAM)
    connection.send_data(stream, grpc_message(UNFINISHED))
    return stream


@pytest.mark.parametrize("begin", [open_silently, open_halfway])
def test_cancelled_call_has_no_log_line(begin: Callable[[Connection], int], caplog: pytest.LogCaptureFixture):
    recorder = Recorder()
    with (
        caplog.at_level(logging.INFO),
        serve_engine(observers=[recorder]) as served,
        Connection(served.address) as connection,
    ):
        stream = begin(connection)
        served.watcher.await_event(Event.READ, 1 if begin is open_silently else 2)
        cancel(connection, stream)
        assert (recorder.calls.get(timeout=SECONDS).result or GONE).code == "CANCELLED"
        served.check_nothing_is_held()
    assert [record.message for record in caplog.records if "code" in vars(record)] == []


@contextmanager
def open_unread(clock: Callable[[], float] = time.monotonic) -> Iterator[tuple[EngineServer, Connection, list[int]]]:
    """Opens a call that sends no message, and one that does not read its response."""
    with serve_engine(clock=clock) as served, Connection(served.address, initial_window=0) as connection:
        streams = [connection.open(UNARY), connection.open(STREAM)]
        connection.send_data(streams[1], grpc_message(b"a"))
        served.watcher.await_event(Event.RESPOND)
        served.watcher.await_event(Event.READ, 3)
        yield served, connection, streams
        served.check_nothing_is_held()


def test_stop_ends_calls_that_wait_for_their_clients():
    with open_unread() as (served, connection, streams):
        served.engine.perform(served.engine.close())
        assert [connection.await_end(stream) for stream in streams] == [("14", "the server stops")] * 2


def test_stalled_calls_are_logged_with_the_load_of_the_server(caplog: pytest.LogCaptureFixture):
    now, text = [0.0], "the call has made no progress for "
    with caplog.at_level(logging.INFO), open_unread(lambda: now[0]) as (served, connection, streams):
        now[0] = 1e6
        served.engine.perform(served.engine.sweep())
        ends = [connection.await_end(stream) for stream in streams]
    assert [end.status for end in ends] == ["8", "8"]
    assert [end.message.partition(text)[0] for end in ends] == ["", "STALLED: "]
    lines = [line for line in map(vars, caplog.records) if "code" in line]
    about = {
        (line["message"], line["method"], line["code"], line["reason"], line["detail"][: len(text)]) for line in lines
    }
    assert about == {("rejected", path, "RESOURCE_EXHAUSTED", "STALLED", text) for path in (UNARY, STREAM)}


def test_small_call_has_two_events_after_its_arrival(served: EngineServer, connection: Connection):
    """The server paces queued calls by this number, so each further event would begin more calls at once."""
    assert connection.call(UNARY, b"short").status == "0"
    served.check_nothing_is_held()
    before = served.server.turns
    for _ in range(100):
        assert connection.call(UNARY, b"short").status == "0"
    served.check_nothing_is_held()
    assert round((served.server.turns - before) / 100) == 3  # a turn without an event follows a second of silence
