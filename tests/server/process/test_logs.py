"""Formats of the log, and the logging handler with a queue."""

import json
import logging
import os
import shlex
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from google.protobuf.message import DecodeError

from tensor_reshape.server.process.logs import (
    RECORDS_PER_SECOND,
    QueuedHandler,
    RateFilter,
    _build_formatter,
    demote_garbage,
)
from waits import WAIT_SECONDS

EVIL = "a\nb\rc\x1b[31md\x00\u2028e\x85"


def make_record(message: str, level: int = logging.INFO, **more: object) -> logging.LogRecord:
    level_name = logging.getLevelName(level)
    return logging.makeLogRecord({"msg": message, "levelno": level, "levelname": level_name, "name": "test", **more})


def format_record(log_format: str, message: str, *, broken: bool = False, **extra: object) -> str:
    record = make_record(message, logging.INFO, **extra)
    if broken:
        error = RuntimeError(EVIL)
        record.exc_info = (RuntimeError, error, None)
    return _build_formatter(log_format).format(record)


def is_one_printable_line(line: str) -> bool:
    return len(line.splitlines()) == 1 and line.isprintable()


def test_text_log_escapes_control_characters():
    for log_format in ("text", "json"):
        assert is_one_printable_line(format_record(log_format, EVIL))
        assert is_one_printable_line(format_record(log_format, "rejected", method=EVIL))


def test_json_log_record_with_a_traceback_is_one_line():
    line = format_record("json", "bug", broken=True)
    assert (is_one_printable_line(line), "RuntimeError" in line) == (True, True)


def test_text_log_indents_tracebacks():
    record, *traceback = format_record("text", "bug", broken=True).split("\n")
    assert is_one_printable_line(record)
    assert all(line.startswith("    ") and is_one_printable_line(line) for line in traceback)
    assert "RuntimeError" in "".join(traceback)


def test_text_log_quotes_values_after_the_message():
    assert format_record("text", "listening", address="a:1").endswith(" INFO listening address=a:1")
    for value in ('a code=OK "peer=b', "", "a=b", '"', "\\", "two words"):
        *_, last = shlex.split(format_record("text", "rejected", method=value, code="OK"))
        line = shlex.split(format_record("text", "rejected", method=value))
        assert (last, len(line), line[-1]) == ("code=OK", 4, f"method={value}")


def test_text_log_has_local_times_with_milliseconds():
    created = 1_700_000_000.125
    shown, _, _ = _build_formatter("text").format(make_record("a", created=created)).partition(" ")
    moment = datetime.fromisoformat(shown)
    assert moment == datetime.fromtimestamp(created, UTC)
    assert (moment.utcoffset(), ".125" in shown) == (moment.astimezone().utcoffset(), True)


def test_json_log_has_values_as_fields():
    record = json.loads(format_record("json", EVIL, method=EVIL, index=1))
    assert (record["message"], record["method"], record["index"]) == (EVIL, EVIL, 1)
    assert {"time", "level", "logger", "message"} <= record.keys()


@pytest.mark.parametrize("error", [DecodeError("garbage"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "garbage")])
@pytest.mark.parametrize(("level", "logged"), [("DEBUG", True), ("INFO", False)])
def test_grpc_decoding_errors_are_logged_as_debug_without_traceback(
    error: Exception, level: str, logged: bool, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(level)
    record = make_record("Bearer secret", logging.ERROR, exc_info=(type(error), error, None))
    assert demote_garbage(record) is logged
    assert (record.levelname, record.exc_info) == ("DEBUG", None)
    assert "secret" not in record.getMessage()


def test_exceptions_other_than_decoding_errors_are_logged_as_errors(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    error = ValueError("a bug")
    record = make_record("bug", logging.ERROR, exc_info=(type(error), error, None))
    assert demote_garbage(record)
    assert (record.levelname, record.exc_info is None) == ("ERROR", False)


class Log:
    """A handler that writes to a pipe, which is read only after `read`."""

    def __init__(self, max_lines: int) -> None:
        self.reader, writer = os.pipe()
        self.handler = QueuedHandler(writer, max_lines=max_lines)
        self.handler.setFormatter(_build_formatter("text"))
        self.handler.addFilter(self.handler.limit)
        self.lines: list[str] = []
        self._news = threading.Condition()

    def put(self, message: str, level: int = logging.WARNING, **more: object) -> None:
        self.handler.handle(make_record(message, level, **more))

    def read(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def await_line(self, part: str) -> str:
        def find() -> list[str]:
            return [line for line in self.lines if part in line]

        with self._news:
            assert self._news.wait_for(find, WAIT_SECONDS), self.lines[-5:]
        return find()[0]

    def _read(self) -> None:
        with os.fdopen(self.reader) as file:
            for line in file:
                with self._news:
                    self.lines.append(line)
                    self._news.notify_all()


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log(max_lines=100)
    logger = logging.getLogger("tensor_reshape.server.process.logs")  # the logger of reports
    logger.addHandler(log.handler)
    yield log
    logger.removeHandler(log.handler)


def test_log_queue_drops_and_counts_records_if_its_pipe_blocks(log: Log):
    for number in range(5000):
        log.put(f"{number} {'x' * 4000}", logging.DEBUG)
    log.handler.report()  # does nothing, because the queue is full
    log.read()
    log.handler.flush()
    log.put("last")
    log.await_line("last")
    dropped = sum(int(line.rpartition("dropped=")[2]) for line in log.lines if "records dropped" in line)
    assert dropped + sum("xxx" in line for line in log.lines) == 5000


def test_log_flush_waits_at_most_one_second(log: Log):
    for _ in range(1000):  # the queue stays full
        log.put("x" * 4000, logging.DEBUG)
    began = time.monotonic()
    log.handler.flush()
    assert 0.5 < time.monotonic() - began < 10


def test_log_writes_tracebacks_and_truncates_long_lines(log: Log):
    log.read()
    try:
        _ = 1 // 0
    except ZeroDivisionError as error:
        log.put("bug", exc_info=(type(error), error, error.__traceback__))
    assert log.await_line("ZeroDivisionError").startswith("    ")
    log.put("x" * 10_000_000)
    assert len(log.await_line("xxx")) < 70_000


def test_logging_to_a_full_disk_raises_no_errors():
    handler = QueuedHandler(os.open("/dev/full", os.O_WRONLY))
    handler.handle(make_record("lost"))
    handler.flush()
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.3
    handler.handle(make_record("lost as well"))


def test_log_record_with_a_formatting_error_counts_as_dropped(log: Log):
    log.read()
    log.put("%d", args=("no number",))
    log.handler.report()
    log.await_line("dropped=1")


def test_number_of_suppressed_log_records_is_reported(log: Log):
    log.read()
    for _ in range(RECORDS_PER_SECOND + 3):
        log.put("often", code="INTERNAL")
    log.handler.report()
    assert log.await_line("records suppressed").endswith(
        ' WARNING records suppressed kind="often INTERNAL" suppressed=3\n'
    )


def admit(*records: logging.LogRecord) -> list[bool]:
    limit = RateFilter(lambda: 0.0)
    return [limit(record) for record in records]


def test_log_rate_limit_applies_per_source_line_and_status_code():
    kinds = [
        make_record("a", lineno=1),
        make_record("a", lineno=2),
        make_record("a", code="INVALID_ARGUMENT"),
        make_record("a", code="INTERNAL"),
    ]
    records = [record for record in kinds for _ in range(RECORDS_PER_SECOND + 1)]
    assert admit(*records) == ([True] * RECORDS_PER_SECOND + [False]) * len(kinds)


def test_messages_of_one_source_line_share_a_log_rate_limit():
    assert sum(admit(*(make_record(f"a caller's text {number}") for number in range(100)))) == RECORDS_PER_SECOND


def test_log_rate_limit_is_reset_after_one_second():
    times = iter([*[5.0] * (RECORDS_PER_SECOND + 3), 6.0])
    limit = RateFilter(lambda: next(times))
    assert sum(limit(make_record("a")) for _ in range(RECORDS_PER_SECOND + 3)) == RECORDS_PER_SECOND
    assert limit(make_record("a"))


def test_suppressed_log_records_are_reported_only_once():
    limit = RateFilter()
    for _ in range(RECORDS_PER_SECOND + 3):
        limit(make_record("a", code="INTERNAL"))
    assert limit.take_suppressed() == {(logging.INFO, "a INTERNAL"): 3}
    assert (limit.take_suppressed(), limit.suppressed) == ({}, 3)


def test_debug_records_have_no_rate_limit():
    assert all(admit(*[make_record("a", logging.DEBUG)] * 100))


def test_log_rate_limit_at_debug_level_applies_only_to_warnings():
    logger = logging.getLogger("test")
    logger.setLevel(logging.DEBUG)
    try:
        assert sum(admit(*[make_record("a", logging.INFO)] * 100)) == 100
        assert sum(admit(*[make_record("a", logging.WARNING)] * 100)) == RECORDS_PER_SECOND
    finally:
        logger.setLevel(logging.NOTSET)
