"""The logging handler with a queue."""

import logging
import os
import threading
import time
from collections.abc import Iterator

import pytest

from tensor_reshape.server.process.logs import RECORDS_PER_SECOND, QueuedHandler, RateFilter, _build_formatter

WAIT_SECONDS = 60.0


def make_record(message: str, level: int = logging.INFO, **more: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelno": level, "name": "test", **more})


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
