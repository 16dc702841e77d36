"""Both ways of serving, over a real socket: observers see the same events in the same order, whatever calls come to.

Left out is SENT: when the transport has taken an answer, and when the next message has come, is up to the transport.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
import pytest

from http2 import HEALTH_CHECK, SERVICE_PATH, Connection, frame, grpc_message
from http2 import Kind as Frame
from in_process import ANY_PORT, BlockedBackend, hurry_stop
from plain_requests import build_reshape
from raw_streams import SIX, begin, chunk, open_stream
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls.fair_locks import FairLock
from tensor_reshape.server.calls.lifecycle import Event, State
from tensor_reshape.server.calls.observers import CallRecord
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.backend import reshape
from tensor_reshape.server.service.methods import LIGHT_BYTES, Backend, ReshapeService

SECONDS = 60.0
STALL_SECONDS = 0.5
RESHAPE, STREAM = f"{SERVICE_PATH}Reshape", f"{SERVICE_PATH}StreamReshape"
BEGINS = "ENTER ASK READ ARRIVE"
QUEUES = "QUEUE ROOM TAKE_UP"
ACCEPTS = f"{BEGINS} ANSWER ASK READ"


@dataclass(eq=False)
class Recorder:
    """An observer that awaits the ends of calls."""

    news: threading.Condition = field(default_factory=threading.Condition)
    events: dict[int, list[Event]] = field(default_factory=dict)
    done: list[tuple[CallRecord, str]] = field(default_factory=list)

    def observe(self, record: CallRecord, event: Event) -> None:
        with self.news:
            events = self.events.setdefault(id(record), [])
            if event is not Event.SENT:
                events.append(event)
            if record.state is State.DONE:
                del self.events[id(record)]
                self.done.append((record, " ".join(one.name for one in events)))
            self.news.notify_all()

    def await_event(self, event: Event) -> None:
        """Awaits that the one call there is has come so far."""
        with self.news:
            assert self.news.wait_for(lambda: any(event in events for events in self.events.values()), SECONDS)

    def await_end(self) -> tuple[CallRecord, str]:
        """Awaits the end of the one call there is, and returns what was seen of it."""
        with self.news:
            assert self.news.wait_for(lambda: self.done, SECONDS), self.events
            return self.done.pop()


@dataclass
class Served:
    """A server, and what watches it."""

    address: str
    recorder: Recorder
    runner: Runner


@contextmanager
def serve(serving: str, backend: Backend = reshape, **settings: float) -> Iterator[Served]:
    config = Config(listen=(ANY_PORT,), serving=serving, drain_seconds=0, grace_seconds=0, **settings)  # type: ignore[arg-type]
    recorder = Recorder()
    service = ReshapeService(config.limits, backend=backend, make_turns=FairLock)
    runner = Runner(config, service, observers=[recorder])
    runner.start()
    try:
        yield Served(runner.addresses[0], recorder, runner)
    finally:
        hurry_stop(runner)


@pytest.fixture(scope="module", params=["inline", "threads"])
def way(request: pytest.FixtureRequest) -> str:
    """How calls are served."""
    return str(request.param)


@pytest.fixture(scope="module")
def served(way: str) -> Iterator[Served]:
    with serve(way, stall_seconds=STALL_SECONDS) as served:
        yield served


LONG = build_reshape(2 * LIGHT_BYTES)


def call(address: str, request: bytes) -> None:
    with Connection(address) as connection:
        connection.call(RESHAPE, request)


def send_no_message(address: str) -> None:
    with Connection(address) as connection:
        connection.await_end(connection.open(RESHAPE, end=True))


def send_half_a_message(address: str) -> None:
    with Connection(address) as connection:
        stream = connection.open(RESHAPE)
        connection.send_data(stream, grpc_message(bytes(100))[:50], end=True)
        connection.await_end(stream)


def send_nothing(address: str) -> None:
    with Connection(address) as connection:
        connection.await_end(connection.open(RESHAPE))


def stream_well(address: str) -> None:
    with grpc.insecure_channel(address) as channel, open_stream(channel, begin()) as stream:
        stream.accept()
        stream.send(chunk(0, SIX))
        stream.receive(6)
        stream.finish()


def stream_badly(address: str) -> None:
    with grpc.insecure_channel(address) as channel, open_stream(channel, begin()) as stream:
        stream.accept()
        stream.send(chunk(3, SIX))
        stream.refuse()


def stream_half_a_tensor(address: str) -> None:
    with grpc.insecure_channel(address) as channel, open_stream(channel, begin()) as stream:
        stream.accept()
        stream.close()
        stream.refuse()


def stream_strides(address: str) -> None:
    with grpc.insecure_channel(address) as channel, open_stream(channel, begin((3, 2), (6,), (1, 3))) as stream:
        stream.accept()
        stream.send(chunk(0, SIX))
        stream.receive(6)
        stream.finish()


def stream_and_stand_still(address: str) -> None:
    with grpc.insecure_channel(address) as channel, open_stream(channel, begin()) as stream:
        stream.accept()
        stream.refuse()


CASES: dict[str, tuple[Callable[[str], None], str, str, str]] = {
    "a small call": (lambda address: call(address, build_reshape(24)), f"{BEGINS} END OVER", "OK", ""),
    "a large call": (lambda address: call(address, LONG), f"{BEGINS} {QUEUES} END OVER", "OK", ""),
    "a refusal": (
        lambda address: call(address, build_reshape(24, 7)),
        f"{BEGINS} END OVER",
        "INVALID_ARGUMENT",
        Reason.VOLUME_MISMATCH,
    ),
    "a large refusal": (
        lambda address: call(address, build_reshape(2 * LIGHT_BYTES, 7)),
        f"{BEGINS} {QUEUES} END OVER",
        "INVALID_ARGUMENT",
        Reason.VOLUME_MISMATCH,
    ),
    "no message": (
        send_no_message,
        "ENTER ASK READ HALF_CLOSE END OVER",
        "INVALID_ARGUMENT",
        Reason.MESSAGE_MALFORMED,
    ),
    "half a message": (
        send_half_a_message,
        "ENTER ASK READ HALF_CLOSE END OVER",
        "INVALID_ARGUMENT",
        Reason.MESSAGE_MALFORMED,
    ),
    "a silent call": (send_nothing, "ENTER ASK READ GIVE_UP OVER", "RESOURCE_EXHAUSTED", Reason.STALLED),
    "a stream": (stream_well, f"{ACCEPTS} ARRIVE ANSWER ASK READ HALF_CLOSE END OVER", "OK", ""),
    "a stream of strides": (
        stream_strides,
        f"{ACCEPTS} ARRIVE QUEUE TAKE_UP ANSWER ASK READ HALF_CLOSE END OVER",
        "OK",
        "",
    ),
    "a refused stream": (
        stream_badly,
        f"{ACCEPTS} ARRIVE END OVER",
        "INVALID_ARGUMENT",
        Reason.CHUNK_OUT_OF_ORDER,
    ),
    "half a tensor": (
        stream_half_a_tensor,
        f"{ACCEPTS} HALF_CLOSE END OVER",
        "INVALID_ARGUMENT",
        Reason.DATA_SIZE_MISMATCH,
    ),
    "a stream that stands still": (
        stream_and_stand_still,
        f"{ACCEPTS} GIVE_UP OVER",
        "RESOURCE_EXHAUSTED",
        Reason.STALLED,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_both_ways_show_the_same_events(served: Served, case: str):
    make_call, events, code, reason = CASES[case]
    make_call(served.address)
    record, seen = served.recorder.await_end()
    assert seen == events
    assert record.ending == (code, reason)
    assert served.runner._admission.used_bytes == 0


def test_a_calls_record_tells_whose_it_was_and_what_went_to_and_fro(served: Served):
    request = build_reshape(24)
    call(served.address, request)
    record, _ = served.recorder.await_end()
    assert (record.method, record.peer.startswith("ipv4:127.0.0.1:")) == (RESHAPE, True)
    assert (record.request_messages, record.request_bytes, record.response_messages) == (1, len(request), 1)
    assert 24 < record.response_bytes < len(request)


def test_a_streams_record_counts_every_message(served: Served):
    stream_well(served.address)
    record, _ = served.recorder.await_end()
    assert (record.method, record.request_messages, record.response_messages) == (STREAM, 2, 2)


def test_foreign_methods_are_not_seen(served: Served):
    with Connection(served.address) as connection:
        assert connection.call(HEALTH_CHECK, b"").is_ok
    call(served.address, build_reshape(24))
    assert served.recorder.await_end()[0].method == RESHAPE


def find_a_bug(*_: object) -> None:
    message = "a secret"
    raise RuntimeError(message)


def test_a_bug_ends_a_call(way: str, caplog: pytest.LogCaptureFixture):
    with serve(way, find_a_bug) as served:  # type: ignore[arg-type]
        call(served.address, build_reshape(24))
        record, seen = served.recorder.await_end()
    assert (seen, record.ending) == (f"{BEGINS} END OVER", ("INTERNAL", Reason.INTERNAL_ERROR))
    assert "bug" in [one.message for one in caplog.records]


@contextmanager
def work(way: str) -> Iterator[tuple[Served, BlockedBackend, Connection, int]]:
    """Has a thread work on a call."""
    backend = BlockedBackend()
    with serve(way, backend) as served, Connection(served.address) as connection:
        stream = connection.open(RESHAPE)
        connection.send_data(stream, grpc_message(LONG))
        try:
            assert backend.entered.wait(SECONDS)
            yield served, backend, connection, stream
        finally:
            backend.released.set()


def test_a_call_that_is_cancelled_while_it_is_worked_on_is_over_when_that_is_done(way: str):
    with work(way) as (served, backend, connection, stream):
        connection.send(frame(Frame.RST_STREAM, 0, stream, bytes(3) + b"\x08"))
        served.recorder.await_event(Event.OVER)
        assert served.runner._admission.used_bytes > 0
        backend.released.set()
        record, seen = served.recorder.await_end()
        assert (seen, record.ending) == (f"{BEGINS} {QUEUES} OVER END", ("CANCELLED", ""))
        assert served.runner._admission.used_bytes == 0


def test_a_deadline_ends_a_call_as_its_caller_would(way: str):
    backend = BlockedBackend()
    with serve(way, backend) as served, Connection(served.address) as connection:
        stream = connection.open(RESHAPE, headers=[("grpc-timeout", "1500m")])
        connection.send_data(stream, grpc_message(LONG))
        assert backend.entered.wait(SECONDS)
        served.recorder.await_event(Event.OVER)
        backend.released.set()
        record, seen = served.recorder.await_end()
    assert (seen, record.ending) == (f"{BEGINS} {QUEUES} OVER END", ("CANCELLED", ""))


def test_a_call_above_the_number_of_calls_is_refused(way: str):
    with (
        serve(way, max_calls=1) as served,
        grpc.insecure_channel(served.address) as channel,
        open_stream(channel, begin()) as stream,
    ):
        stream.accept()
        call(served.address, build_reshape(24))
        record, seen = served.recorder.await_end()
        assert (seen, record.ending) == ("ENTER END OVER", ("RESOURCE_EXHAUSTED", Reason.SERVER_BUSY))


def test_a_call_whose_answer_is_not_taken_is_cancelled(way: str):
    with (
        serve(way, stall_seconds=STALL_SECONDS) as served,
        Connection(served.address, initial_window=0) as connection,
    ):
        stream = connection.open(RESHAPE)
        connection.send_data(stream, grpc_message(LONG))
        record, seen = served.recorder.await_end()
    assert seen == f"{BEGINS} {QUEUES} END GIVE_UP OVER"
    assert record.seconds[State.ENDING] >= STALL_SECONDS
