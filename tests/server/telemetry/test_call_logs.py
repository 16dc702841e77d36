"""Log lines about calls: one for each failed call, and a sample of all calls."""

import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from http2 import HEALTH_CHECK, REFLECTION, Connection, frame, grpc_message
from http2 import Kind as Frame
from in_process import (
    CASES,
    GOOD,
    LONG,
    RESHAPE,
    STALL_SECONDS,
    STREAM,
    WAIT_SECONDS,
    BlockedBackend,
    Case,
    end_call,
    pack,
    serve,
)
from plain_requests import begin, open_stream
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.results import CallResult
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.grpc.services import MAX_SILENT
from tensor_reshape.server.telemetry.call_logs import CallLogs, log_failure
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.status import REQUEST_ID_KEY

LOGGER = "tensor_reshape.server"
OURS = [(REQUEST_ID_KEY, "ours")]
BAD_CASES = {name: case for name, case in CASES.items() if case.code != "OK"} | {
    "another service's health": Case(HEALTH_CHECK, pack(b"\x0a\x07another"), "", "NOT_FOUND"),
    "garbage for reflection": Case(REFLECTION, pack(b"\xff\xff"), "", "INVALID_ARGUMENT", Reason.MESSAGE_MALFORMED),
}
BAD = pack(b"\xff")


class Lines(logging.Handler):
    """Keeps the log lines about calls."""

    def __init__(self) -> None:
        super().__init__()
        self.news = threading.Condition()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self.news:
            self.records.append(record)
            self.news.notify_all()

    def await_line(self, *messages: str) -> dict[str, Any]:
        """Waits for the first line with one of these messages, and returns its fields."""
        with self.news:
            assert self.news.wait_for(lambda: self.find(*messages), WAIT_SECONDS), self.records
        return self.find(*messages)[0]

    def find(self, *messages: str) -> list[dict[str, Any]]:
        return [vars(record) for record in self.records if record.msg in messages]


@pytest.fixture
def lines() -> Iterator[Lines]:
    logger, handler = logging.getLogger(LOGGER), Lines()
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(before)
    logger.removeHandler(handler)


@pytest.fixture
def address() -> Iterator[str]:
    with serve(stall_timeout_seconds=STALL_SECONDS) as runner:
        yield runner.addresses[0]


@pytest.mark.parametrize("name", BAD_CASES)
def test_rejected_call_is_logged_once_with_the_returned_request_id(address: str, lines: Lines, name: str):
    case = BAD_CASES[name]
    told = end_call(address, case.path, case.data, ends=case.ends, headers=OURS)
    line = lines.await_line("rejected")
    assert (line["method"], line["code"], line.get("reason", "")) == (case.path, case.code, case.reason)
    assert line.get("field", "") == case.field
    assert (line["request_id"], told[REQUEST_ID_KEY]) == ("ours", "ours")
    assert line["peer"].startswith("ipv4:127.0.0.1:")
    # The messages of other errors contain values of the request.
    assert line.get("detail", "").startswith("the call has made no progress for ") == (case.reason == Reason.STALLED)
    # The call may be aborted earlier if others wait.
    assert (0 if case.ends else STALL_SECONDS / 2) <= line["seconds"] < WAIT_SECONDS
    assert len(lines.records) == 1


def find_a_bug(*_: object) -> None:
    message = "a secret"
    raise RuntimeError(message)


@pytest.mark.parametrize("request_bytes", [GOOD, LONG], ids=["small", "large"])
def test_unexpected_exception_is_logged_with_traceback_and_request_id(
    lines: Lines, caplog: pytest.LogCaptureFixture, request_bytes: bytes
):
    with serve(find_a_bug) as runner:  # type: ignore[arg-type]
        told = end_call(runner.addresses[0], RESHAPE, pack(request_bytes), headers=OURS)
        line = lines.await_line("failed")
    (bug,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (line["code"], line["reason"]) == ("INTERNAL", Reason.INTERNAL_ERROR)
    assert (bug.msg, vars(bug)["request_id"], told[REQUEST_ID_KEY], line["request_id"]) == ("bug", *["ours"] * 3)
    assert bug.exc_info


def test_call_above_max_calls_is_logged(lines: Lines):
    with (
        serve(max_calls=1) as runner,
        grpc.insecure_channel(runner.addresses[0]) as channel,
        open_stream(channel, begin()) as stream,
    ):
        stream.accept()
        for _ in range(2):
            end_call(runner.addresses[0], RESHAPE, pack(GOOD))
        line = lines.await_line("refused")
    assert (line["address"], line["reason"]) == ("ipv4:127.0.0.1", Reason.SERVER_BUSY)


def test_call_with_unread_response_is_logged(address: str, lines: Lines):
    with Connection(address, initial_window=0) as connection:
        stream = connection.open(RESHAPE, headers=OURS)
        connection.send_data(stream, grpc_message(LONG))
        line = lines.await_line("rejected")
    assert (line["code"], line["reason"], line["request_id"]) == ("RESOURCE_EXHAUSTED", Reason.STALLED, "ours")


def test_aborted_health_check_call_is_logged(address: str, lines: Lines):
    with Connection(address) as connection:
        for _ in range(MAX_SILENT + 1):
            connection.open(HEALTH_CHECK)
        assert lines.await_line("rejected")["reason"] == Reason.SERVER_BUSY


def test_successful_call_is_not_logged_and_returns_no_id(address: str, lines: Lines):
    told = end_call(address, RESHAPE, pack(GOOD), headers=OURS)
    end_call(address, RESHAPE, BAD)
    lines.await_line("rejected")
    assert (len(lines.records), REQUEST_ID_KEY in told) == (1, False)


def test_client_disconnect_is_not_logged_as_a_failure(lines: Lines):
    backend = BlockedBackend()
    with serve(backend) as runner:
        with Connection(runner.addresses[0]) as connection:
            stream = connection.open(RESHAPE)
            connection.send_data(stream, grpc_message(LONG))
            assert backend.entered.wait(WAIT_SECONDS)
            connection.send(frame(Frame.RST_STREAM, 0, stream, bytes(3) + b"\x08"))
            assert connection.ping()
        backend.released.set()
        end_call(runner.addresses[0], RESHAPE, BAD)
        lines.await_line("rejected")
    assert len(lines.records) == 1


def test_unknown_method_with_any_name_is_logged_safely(address: str, lines: Lines):
    end_call(address, "/a.Service/Me\tthod" + "x" * 1000, pack(b""))
    line = lines.await_line("rejected")
    assert (line["code"], line["method"][:18], len(line["method"])) == ("UNIMPLEMENTED", "/a.Service/Me\tthod", 256)


def test_log_lines_contain_no_credentials_or_payload(address: str, lines: Lines):
    headers = [("authorization", "Bearer hunter2"), ("cookie", "hunter2")]
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_U8, dims=[7], data=b"hunter2")
    shape = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[1], data=b"\x06")
    request = reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=data).SerializeToString()
    end_call(address, RESHAPE, pack(request), headers=headers)
    assert "hunter2" not in str(lines.await_line("rejected"))


def test_rejected_then_cancelled_call_is_logged_once(lines: Lines):
    info = CallInfo(RESHAPE, ())
    for code in ("RESOURCE_EXHAUSTED", "CANCELLED"):
        log_failure(info, CallResult(code, "STALLED"), 0.0)
    assert [line["code"] for line in lines.find("rejected")] == ["RESOURCE_EXHAUSTED"]


@pytest.mark.parametrize(
    ("path", "data", "result", "messages"),
    [
        (RESHAPE, pack(GOOD), ("OK", ""), (1, 1)),
        (STREAM, CASES["a stream"].data, ("OK", ""), (2, 2)),
        (RESHAPE, BAD, ("INVALID_ARGUMENT", Reason.MESSAGE_MALFORMED), (1, 0)),
    ],
    ids=["good", "stream", "rejected"],
)
def test_debug_level_logs_every_call_when_it_ends(
    lines: Lines, path: str, data: bytes, result: tuple[str, str], messages: tuple[int, int]
):
    logging.getLogger(LOGGER).setLevel(logging.DEBUG)
    with serve(log_level="debug") as runner:
        told = end_call(runner.addresses[0], path, data, headers=OURS)
        line = lines.await_line("call")
    assert (line["method"], line["code"], line.get("reason", "")) == (path, *result)
    assert (line["request_id"], told[REQUEST_ID_KEY]) == ("ours", "ours")
    assert (line["request_messages"], line["response_messages"]) == messages
    assert line["request_bytes"] == len(data) - len(pack(*[b""] * messages[0]))
    assert (line["response_bytes"] > 0, 0 < line["seconds"] < WAIT_SECONDS) == (messages[1] > 0, True)
    assert len(lines.find("rejected")) == (result[0] != "OK")


def test_missing_tracing_extra_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensor_reshape.server.telemetry.tracing", None)
    with pytest.raises(ConfigError, match=r"--tracing needs the extra tracing, because .* is missing: pip install"):
        CallLogs(Config(tracing=True))
