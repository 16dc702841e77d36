"""One call of gRPC's core: what its caller receives, and the events that the server receives."""

import logging
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import Empty

import pytest

from grpc_servers import METHOD, SECONDS, CoreServer, ManualCall, run_core
from http2 import Connection, frame, grpc_message
from http2 import Kind as Frame
from tensor_reshape.wire.status import Status

CANCEL = struct.pack("!I", 8)
OK, CANCELLED, RESOURCE_EXHAUSTED, NOT_FOUND = "0", {"1", "RST"}, "8", "5"
MAX_BYTES = 1024


@pytest.fixture
def served() -> Iterator[CoreServer]:
    with run_core(options=[("grpc.max_receive_message_length", MAX_BYTES)]) as served:
        yield served


@pytest.fixture
def connection(served: CoreServer) -> Iterator[Connection]:
    with Connection(served.address) as connection:
        yield connection


def begin(served: CoreServer, connection: Connection, **headers: str) -> tuple[ManualCall, int]:
    """Begins a call; returns it and its stream."""
    stream = connection.open(METHOD, headers=[(name.replace("_", "-"), value) for name, value in headers.items()])
    call = served.calls.get(timeout=SECONDS)
    assert isinstance(call, ManualCall)
    return call, stream


def raise_window(connection: Connection, stream: int, size: int) -> None:
    connection.send(frame(Frame.WINDOW_UPDATE, 0, stream, struct.pack("!I", size)))


def test_core_call_receives_one_message_per_request(served: CoreServer, connection: Connection):
    call, stream = begin(served, connection)
    connection.send_data(stream, grpc_message(b"first") + grpc_message(b""), end=True)
    for message in (b"first", b"", None):
        call.receive()
        assert call.messages.get(timeout=SECONDS) == message
    call.finish()
    assert connection.await_end(stream).is_ok


def test_core_call_sends_one_message_at_a_time(served: CoreServer, connection: Connection):
    call, stream = begin(served, connection)
    for message in (b"first", b"", b"third"):
        call.send_now(message)
        assert call.sizes.get(timeout=SECONDS) == len(message)
        assert not call.is_sending
    call.finish()
    assert connection.await_end(stream).is_ok
    assert connection.bodies[stream] == grpc_message(b"first") + grpc_message(b"") + grpc_message(b"third")


def test_message_counts_as_sending_until_the_flow_control_window_opens(served: CoreServer):
    with Connection(served.address, initial_window=0) as connection:
        call, stream = begin(served, connection)
        call.send_now(b"message")
        assert connection.ping()
        assert call.is_sending
        raise_window(connection, stream, MAX_BYTES)
        assert call.sizes.get(timeout=SECONDS) == len(b"message")


def test_core_call_sends_a_unary_response_with_its_status(served: CoreServer, connection: Connection):
    call, stream = begin(served, connection)
    call.finish(response=b"answer")
    assert connection.await_end(stream).is_ok
    assert connection.bodies[stream] == grpc_message(b"answer")
    assert not call.overs.get(timeout=SECONDS)


def test_core_call_error_status_has_code_text_and_metadata(served: CoreServer, connection: Connection):
    call, stream = begin(served, connection)
    call.finish(Status("NOT_FOUND", "n\u00f6 such \u2202", (("name", "value"), ("name-bin", b"\xff"))))
    assert connection.await_end(stream) == (NOT_FOUND, "n%C3%B6 such %E2%88%82")
    assert (connection.headers[stream]["name"], connection.headers[stream]["name-bin"]) == ("value", "/w")


def test_core_call_ignores_a_second_finish(served: CoreServer, connection: Connection):
    call, stream = begin(served, connection)
    call.finish(Status("NOT_FOUND", "the first", ()))
    call.finish(response=b"the second")
    call.receive()
    assert connection.await_end(stream) == (NOT_FOUND, "the first")
    assert not call.overs.get(timeout=SECONDS)
    assert not call.is_active
    assert call.overs.empty()


def test_core_call_is_over_when_no_operation_is_pending(served: CoreServer, connection: Connection):
    call, _ = begin(served, connection)
    call.receive()
    call.finish()
    assert call.overs.get(timeout=SECONDS) is False
    assert call.messages.get_nowait() is None


def test_cancelled_core_call_ends_immediately(served: CoreServer, connection: Connection):
    call, stream = begin(served, connection)
    call.cancel()
    assert connection.await_end(stream).status in CANCELLED
    assert call.overs.get(timeout=SECONDS) is True
    call.cancel()
    call.receive()
    call.finish()
    with pytest.raises(Empty):
        call.overs.get(timeout=0.1)


def test_cancelled_core_call_sends_a_status_before_unread_messages(served: CoreServer):
    with Connection(served.address, initial_window=0) as connection:
        call, stream = begin(served, connection)
        call.send_now(b"message")
        call.cancel(Status("RESOURCE_EXHAUSTED", "too slow", ()))
        assert connection.await_end(stream) == (RESOURCE_EXHAUSTED, "too slow")
        assert call.overs.get(timeout=SECONDS) is True
        assert connection.bodies.get(stream, b"") == b""


STATES: dict[str, Callable[[ManualCall], None]] = {
    "idle": ManualCall.detect_disconnect,
    "receiving": ManualCall.receive,
    "sending": lambda call: call.send_now(b"message"),
    "ending": lambda call: call.finish(response=b"answer"),
}
LEAVES: dict[str, Callable[[Connection, int], None]] = {
    "cancels": lambda connection, stream: connection.send(frame(Frame.RST_STREAM, 0, stream, CANCEL)),
    "closes": lambda connection, _: connection.close(),
}


@pytest.mark.parametrize("leave", LEAVES.values(), ids=LEAVES)
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_client_disconnect_is_detected_in_every_call_state(
    served: CoreServer, state: Callable[[ManualCall], None], leave: Callable[[Connection, int], None]
):
    with Connection(served.address, initial_window=0) as connection:
        call, stream = begin(served, connection)
        state(call)
        if state is not STATES["ending"]:
            call.detect_disconnect()
        assert connection.ping()
        leave(connection, stream)
        assert call.overs.get(timeout=SECONDS) is True
    assert not call.is_active


def test_core_call_is_over_after_its_deadline(served: CoreServer, connection: Connection):
    call, stream = begin(served, connection, grpc_timeout="200m")
    call.detect_disconnect()
    assert call.overs.get(timeout=SECONDS) is True
    assert connection.await_end(stream).status in {"4", *CANCELLED}


def test_grpc_core_rejects_a_message_above_the_size_limit(served: CoreServer, connection: Connection):
    call, stream = begin(served, connection)
    call.receive()
    connection.send_data(stream, grpc_message(bytes(MAX_BYTES + 1)), end=True)
    assert call.messages.get(timeout=SECONDS) is None
    assert call.is_rejected
    call.finish(Status("UNKNOWN", "too late", ()))
    assert connection.await_end(stream).status == RESOURCE_EXHAUSTED


def test_cancelled_call_is_not_reported_as_an_oversized_message(served: CoreServer, connection: Connection):
    call, stream = begin(served, connection)
    call.receive()
    LEAVES["cancels"](connection, stream)
    assert call.messages.get(timeout=SECONDS) is None
    assert not call.is_rejected


def test_call_info_is_created_once_per_call(served: CoreServer, connection: Connection):
    call, _ = begin(served, connection, name="value")
    host, port = connection.socket.getsockname()
    assert call.info is call.info
    assert (call.info.method, call.info.peer) == (METHOD, f"ipv4:{host}:{port}")
    assert call.info.find_values("name") == ["value"]


class FailingCall(ManualCall):
    """A call with some methods that fail; it echoes a message and ends."""

    failing: frozenset[str] = frozenset()

    def on_message(self, raw: bytes | None) -> None:
        self._fail("on_message")
        self.send_now(raw or b"")

    def on_sent(self, size: int) -> None:
        del size
        self._fail("on_sent")
        self.finish()

    def on_over(self) -> None:
        super().on_over()
        self._fail("on_over")

    def cancel(self, status: Status | None = None) -> None:
        super().cancel(status)
        self._fail("cancel")

    def _fail(self, name: str) -> None:
        if name in self.failing:
            message = "a secret"
            raise ValueError(message)


@pytest.mark.parametrize(
    ("failing", "statuses", "bugs"),
    [
        ({"on_message"}, CANCELLED, 1),
        ({"on_sent"}, CANCELLED, 1),
        ({"on_over"}, {OK}, 1),
        ({"on_message", "cancel"}, CANCELLED, 2),
        ({"on_message", "cancel", "on_over"}, CANCELLED, 3),
    ],
)
def test_exception_in_a_core_callback_ends_only_its_call(
    failing: set[str], statuses: set[str], bugs: int, caplog: pytest.LogCaptureFixture
):
    with ExitStack() as stack:
        served = stack.enter_context(run_core(FailingCall))
        connection = stack.enter_context(Connection(served.address))
        call, stream = begin(served, connection, x_request_id="mine")
        assert isinstance(call, FailingCall)
        call.failing = frozenset(failing)
        call.receive()
        connection.send_data(stream, grpc_message(b"message"))
        end = connection.await_end(stream)
        call.overs.get(timeout=SECONDS)
        other, stream = begin(served, connection)
        other.receive()
        connection.send_data(stream, grpc_message(b"message"))
        assert connection.await_end(stream).is_ok
    assert end.status in statuses
    assert "secret" not in end.message
    records = [vars(record) for record in caplog.records if record.levelno == logging.ERROR]
    assert [(one["message"], one["method"], one["request_id"]) for one in records] == [("bug", METHOD, "mine")] * bugs
    assert all(isinstance(one["exc_info"][1], ValueError) for one in records)
