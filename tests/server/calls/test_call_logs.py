"""The lines of the log on calls, in both ways of serving: one for each that ends badly, and a sample of all."""

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from http2 import HEALTH_CHECK, REFLECTION, SERVICE_PATH, Connection, frame, grpc_message
from http2 import Kind as Frame
from in_process import ANY_PORT, BlockedBackend, hurry_stop
from plain_requests import build_reshape
from raw_streams import SIX, begin, chunk, open_stream
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.auxiliary.bounded_calls import MAX_SILENT
from tensor_reshape.server.calls import core_calls
from tensor_reshape.server.calls.call_logs import AccessLog, log_bad_end
from tensor_reshape.server.calls.fair_locks import FairLock
from tensor_reshape.server.calls.heads import CallHead
from tensor_reshape.server.calls.lifecycle import Ending, Event, State
from tensor_reshape.server.calls.observers import CallRecord
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.backend import reshape
from tensor_reshape.server.service.methods import LIGHT_BYTES, Backend, ReshapeService
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.request_ids import REQUEST_ID_KEY

SECONDS = 60.0
STALL_SECONDS = 0.5
RESHAPE, STREAM = f"{SERVICE_PATH}Reshape", f"{SERVICE_PATH}StreamReshape"
LOGGER = "tensor_reshape.server.calls.call_logs"
HEALTH_OF_ANOTHER = b"\x0a\x07another"
OURS = [(REQUEST_ID_KEY, "ours")]


class Lines(logging.Handler):
    """Keeps the lines on calls."""

    def __init__(self) -> None:
        super().__init__()
        self.news = threading.Condition()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self.news:
            self.records.append(record)
            self.news.notify_all()

    def await_line(self, *messages: str) -> dict[str, Any]:
        """Awaits the first line with one of these messages, and returns what it says."""
        with self.news:
            assert self.news.wait_for(lambda: self.find(*messages), SECONDS), self.records
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


@pytest.fixture(params=["inline", "threads", "unknown grpcio"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How calls are served."""
    if request.param == "unknown grpcio":
        monkeypatch.setattr(core_calls, "is_supported", lambda: False)
    return "inline" if request.param == "inline" else "threads"


@contextmanager
def serve(way: str, backend: Backend = reshape, **settings: float) -> Iterator[str]:
    config = Config(listen=(ANY_PORT,), serving=way, drain_seconds=0, grace_seconds=0, **settings)  # type: ignore[arg-type]
    runner = Runner(config, ReshapeService(config.limits, backend=backend, make_turns=FairLock))
    runner.start()
    try:
        yield runner.addresses[0]
    finally:
        hurry_stop(runner)


@pytest.fixture
def address(way: str) -> Iterator[str]:
    with serve(way, stall_seconds=STALL_SECONDS) as address:
        yield address


GOOD, LONG = build_reshape(24), build_reshape(2 * LIGHT_BYTES)


def call(
    address: str, path: str, *messages: bytes, ends: bool = True, headers: Sequence[tuple[str, str]] = OURS
) -> dict[str, str]:
    """Makes a call, and returns its headers and trailers when it has ended."""
    with Connection(address) as connection:
        stream = connection.open(path, end=ends and not messages, headers=headers)
        for number, message in enumerate(messages, 1):
            connection.send_data(stream, grpc_message(message), end=ends and number == len(messages))
        connection.await_end(stream)
        return connection.headers[stream]


CASES: dict[str, tuple[Callable[[str], dict[str, str]], str, str, str, str]] = {
    "a refusal": (
        lambda address: call(address, RESHAPE, build_reshape(24, 7)),
        RESHAPE,
        "INVALID_ARGUMENT",
        Reason.VOLUME_MISMATCH,
        "shape",
    ),
    "a large refusal": (
        lambda address: call(address, RESHAPE, build_reshape(2 * LIGHT_BYTES, 7)),
        RESHAPE,
        "INVALID_ARGUMENT",
        Reason.VOLUME_MISMATCH,
        "shape",
    ),
    "no message": (
        lambda address: call(address, RESHAPE),
        RESHAPE,
        "INVALID_ARGUMENT",
        Reason.MESSAGE_MALFORMED,
        "",
    ),
    "a refused stream": (
        lambda address: call(address, STREAM, begin(), chunk(3, SIX)),
        STREAM,
        "INVALID_ARGUMENT",
        Reason.CHUNK_OUT_OF_ORDER,
        "offset",
    ),
    "half a tensor": (
        lambda address: call(address, STREAM, begin()),
        STREAM,
        "INVALID_ARGUMENT",
        Reason.DATA_SIZE_MISMATCH,
        "data.data",
    ),
    "a stream that stands still": (
        lambda address: call(address, STREAM, begin(), ends=False),
        STREAM,
        "RESOURCE_EXHAUSTED",
        Reason.STALLED,
        "",
    ),
    "another service's health": (
        lambda address: call(address, HEALTH_CHECK, HEALTH_OF_ANOTHER),
        HEALTH_CHECK,
        "NOT_FOUND",
        "",
        "",
    ),
    "garbage for reflection": (
        lambda address: call(address, REFLECTION, b"\xff\xff"),
        REFLECTION,
        "INVALID_ARGUMENT",
        Reason.MESSAGE_MALFORMED,
        "",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refused_call_has_one_line_and_the_id_in_it_is_told_to_its_caller(address: str, lines: Lines, case: str):
    make_call, method, code, reason, field = CASES[case]
    told = make_call(address)
    line = lines.await_line("refused")
    assert (line["method"], line["code"], line.get("reason", "")) == (method, code, reason)
    assert line.get("field", "") == field
    assert (line["request_id"], told[REQUEST_ID_KEY]) == ("ours", "ours")
    assert line["peer"].startswith("ipv4:127.0.0.1:")
    assert 0 <= line["seconds"] < SECONDS
    assert len(lines.records) == 1


def test_the_seconds_are_those_of_the_call(address: str, lines: Lines):
    call(address, STREAM, begin(), ends=False)
    assert lines.await_line("refused")["seconds"] >= STALL_SECONDS / 2  # it may be given up sooner while others wait


def test_a_unary_call_that_stands_still_has_one_line(address: str, lines: Lines):
    call(address, RESHAPE, ends=False)
    assert lines.await_line("refused")["reason"] == Reason.STALLED
    assert len(lines.records) == 1


@pytest.mark.parametrize("sent", [None, "two words", "x" * 129], ids=["none", "blank", "long"])
def test_a_request_without_a_usable_id_is_given_one(address: str, lines: Lines, sent: str | None):
    headers = [] if sent is None else [(REQUEST_ID_KEY, sent)]
    told = call(address, RESHAPE, b"\xff", headers=headers)
    assert told[REQUEST_ID_KEY] == lines.await_line("refused")["request_id"]
    assert (len(told[REQUEST_ID_KEY]), told[REQUEST_ID_KEY].isalnum()) == (16, True)


def find_a_bug(*_: object) -> None:
    message = "a secret"
    raise RuntimeError(message)


@pytest.mark.parametrize("request_bytes", [GOOD, LONG], ids=["small", "large"])
def test_a_bug_has_a_line_and_a_traceback_with_one_id(
    way: str, lines: Lines, caplog: pytest.LogCaptureFixture, request_bytes: bytes
):
    with serve(way, find_a_bug) as address:  # type: ignore[arg-type]
        told = call(address, RESHAPE, request_bytes)
        line = lines.await_line("failed")
    (bug,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (line["code"], line["reason"]) == ("INTERNAL", Reason.INTERNAL_ERROR)
    assert (bug.msg, vars(bug)["request_id"], told[REQUEST_ID_KEY], line["request_id"]) == ("bug", *["ours"] * 3)
    assert bug.exc_info


def test_a_call_for_which_there_is_no_place_has_a_line(way: str, lines: Lines):
    with (
        serve(way, max_calls=1) as address,
        grpc.insecure_channel(address) as channel,
        open_stream(channel, begin()) as stream,
    ):
        stream.accept()
        assert call(address, RESHAPE, GOOD)[REQUEST_ID_KEY] == "ours"
        line = lines.await_line("refused")
    assert (line["reason"], line["request_id"]) == (Reason.SERVER_BUSY, "ours")
    assert line["peer"].startswith("ipv4:127.0.0.1:")


def test_a_call_whose_answer_is_not_taken_has_a_line(way: str, lines: Lines):
    with serve(way, stall_seconds=STALL_SECONDS) as address, Connection(address, initial_window=0) as connection:
        stream = connection.open(RESHAPE, headers=OURS)
        connection.send_data(stream, grpc_message(LONG))
        line = lines.await_line("refused")
    assert (line["code"], line["reason"], line["request_id"]) == ("CANCELLED", Reason.STALLED, "ours")


def test_a_silent_health_check_that_has_to_go_has_a_line(address: str, lines: Lines):
    with Connection(address) as connection:
        for _ in range(MAX_SILENT + 1):
            connection.open(HEALTH_CHECK)
        assert lines.await_line("refused")["reason"] == Reason.SERVER_BUSY


def test_a_good_call_has_no_line_and_tells_no_id(address: str, lines: Lines):
    told = call(address, RESHAPE, GOOD)
    call(address, RESHAPE, b"\xff")
    lines.await_line("refused")
    assert (len(lines.records), REQUEST_ID_KEY in told) == (1, False)


def test_a_caller_that_goes_is_no_failure(way: str, lines: Lines):
    backend = BlockedBackend()
    with serve(way, backend) as address:
        with Connection(address) as connection:
            stream = connection.open(RESHAPE)
            connection.send_data(stream, grpc_message(LONG))
            assert backend.entered.wait(SECONDS)
            connection.send(frame(Frame.RST_STREAM, 0, stream, bytes(3) + b"\x08"))
            assert connection.ping()
        backend.released.set()
        call(address, RESHAPE, b"\xff")
        lines.await_line("refused")
    assert len(lines.records) == 1


def test_an_unknown_method_has_a_line_whatever_its_name_is(address: str, lines: Lines):
    call(address, "/a.Service/Me\tthod" + "x" * 1000, b"")
    line = lines.await_line("refused")
    assert (line["code"], line["method"][:18], len(line["method"])) == ("UNIMPLEMENTED", "/a.Service/Me\tthod", 256)


def test_nothing_of_credentials_or_payloads_is_in_a_line(address: str, lines: Lines):
    headers = [("authorization", "Bearer hunter2"), ("cookie", "hunter2")]
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_U8, dims=[7], data=b"hunter2")
    shape = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[1], data=b"\x06")
    request = reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=data).SerializeToString()
    call(address, RESHAPE, request, headers=headers)
    assert "hunter2" not in str(lines.await_line("refused"))


def test_a_call_that_is_refused_and_then_dropped_has_one_line(lines: Lines):
    head = CallHead(RESHAPE, ())
    for code in ("RESOURCE_EXHAUSTED", "CANCELLED"):
        log_bad_end(head, Ending(code, "STALLED"), 0.0)
    assert [line["code"] for line in lines.find("refused")] == ["RESOURCE_EXHAUSTED"]


def test_the_access_log_has_a_line_for_every_call_with_what_went_to_and_fro(way: str, lines: Lines):
    with serve(way, access_log=1.0) as address:
        told = call(address, RESHAPE, GOOD)
        line = lines.await_line("call")
    assert (line["method"], line["code"], line["request_id"], told[REQUEST_ID_KEY]) == (RESHAPE, "OK", "ours", "ours")
    assert (line["request_messages"], line["request_bytes"], line["response_messages"]) == (1, len(GOOD), 1)
    assert (line["response_bytes"] > 24, line["sampled"]) == (True, 1.0)
    assert 0 < line["seconds"] < SECONDS


def test_the_access_log_has_a_stream_as_one_call(way: str, lines: Lines):
    with serve(way, access_log=1.0) as address:
        told = call(address, STREAM, begin(), chunk(0, SIX))
        line = lines.await_line("call")
    assert (line["request_messages"], line["response_messages"], told[REQUEST_ID_KEY]) == (2, 2, "ours")


def test_the_access_log_has_a_refused_call_besides_its_own_line(way: str, lines: Lines):
    with serve(way, access_log=1.0) as address:
        call(address, RESHAPE, b"\xff")
        line = lines.await_line("call")
    assert (line["code"], line["reason"]) == ("INVALID_ARGUMENT", Reason.MESSAGE_MALFORMED)
    assert len(lines.find("refused")) == 1


def observe(log: AccessLog, state: State) -> None:
    log.observe(CallRecord(CallHead(RESHAPE, ()), RESHAPE, "", 0.0, state, 0.0), Event.OVER)


def test_a_sample_is_of_about_so_many_calls(lines: Lines):
    random.seed(7)
    log = AccessLog(0.25)
    for _ in range(1000):
        observe(log, State.DONE)
    assert 200 < len(lines.records) < 300


def test_a_call_that_is_not_over_has_no_line(lines: Lines):
    observe(AccessLog(1.0), State.ENDING)
    assert lines.records == []
