"""Who logs never waits; what is not written is counted."""

import logging
import os
import threading
import time
from collections.abc import Callable

import pytest

from tensor_reshape.server.process.log_queue import RECORDS_PER_SECOND, QueuedHandler, RateLimit, write_whole
from tensor_reshape.server.process.logs import _build_formatter

WAIT_SECONDS = 60.0


class Log:
    """A handler that writes to a pipe, which is read when the test likes."""

    def __init__(self, max_lines: int) -> None:
        self.reader, writer = os.pipe()
        self.handler = QueuedHandler(writer, max_lines=max_lines)
        self.handler.setFormatter(_build_formatter("text"))
        self.lines: list[str] = []
        self._news = threading.Condition()

    def put(self, message: str, *, level: int = logging.WARNING, error: BaseException | None = None) -> None:
        found = (type(error), error, error.__traceback__) if error else None
        record = logging.makeLogRecord({"msg": message, "levelno": level, "name": "test", "exc_info": found})
        self.handler.handle(record)

    def read(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def await_line(self, condition: Callable[[str], bool]) -> str:
        with self._news:
            assert self._news.wait_for(lambda: any(map(condition, self.lines)), WAIT_SECONDS), self.lines[-5:]
        return next(filter(condition, self.lines))

    def _read(self) -> None:
        with os.fdopen(self.reader) as file:
            for line in file:
                with self._news:
                    self.lines.append(line)
                    self._news.notify_all()


@pytest.fixture
def log() -> Log:
    return Log(max_lines=100)


def test_a_record_is_written(log: Log):
    log.read()
    log.put("hello")
    assert "hello" in log.await_line(lambda line: "hello" in line)


def test_a_pipe_that_nobody_reads_keeps_nobody_waiting_and_what_it_lost_is_counted(log: Log):
    for number in range(5000):
        log.put(f"{number} {'x' * 4000}", level=logging.DEBUG)
    log.read()
    log.await_line(lambda line: "records dropped" in line)
    log.handler.flush()
    log.put("last")
    log.await_line(lambda line: "last" in line)
    dropped = sum(int(line.rpartition("dropped=")[2]) for line in log.lines if "records dropped" in line)
    assert dropped + sum("xxx" in line for line in log.lines) == 5000


def test_the_end_of_the_process_waits_a_second_at_most_for_a_reader(log: Log):
    for _ in range(100):
        log.put("x" * 4000, level=logging.DEBUG)
    began = time.monotonic()
    log.handler.flush()
    assert 0.5 < time.monotonic() - began < 10


def test_what_comes_too_often_is_counted_and_summed_up(log: Log):
    log.read()
    for _ in range(1000):
        log.put("again")
    line = log.await_line(lambda line: "records suppressed" in line)
    written = sum("again" in line and "suppressed" not in line for line in log.lines)
    assert (written, f"suppressed={1000 - written}" in line) == (RECORDS_PER_SECOND, True)


def test_a_bug_is_logged_with_its_traceback_and_keeps_no_frame_alive(log: Log):
    log.read()
    try:
        _ = 1 // 0
    except ZeroDivisionError as error:
        log.put("bug", error=error)
    assert log.await_line(lambda line: "ZeroDivisionError" in line).startswith("    ")


def test_a_text_of_any_length_takes_little(log: Log):
    log.read()
    log.put("x" * 10_000_000)
    assert len(log.await_line(lambda line: "xxx" in line)) < 10_000


def test_a_full_disk_ends_nothing():
    handler = QueuedHandler(os.open("/dev/full", os.O_WRONLY))
    handler.handle(make_record("lost"))
    handler.flush()
    handler.handle(make_record("lost as well"))


def test_where_nothing_can_be_written_nothing_is_busy():
    handler = QueuedHandler(os.open("/dev/full", os.O_WRONLY))
    handler.handle(make_record("lost"))
    handler.flush()
    before = time.process_time()
    time.sleep(1.5)
    assert time.process_time() - before < 1.0


def test_a_record_that_cannot_be_formatted_is_counted(log: Log):
    log.read()
    log.handler.handle(logging.makeLogRecord({"msg": "%d", "args": ("no number",), "levelno": logging.INFO}))
    log.put("next")
    log.await_line(lambda line: "dropped=1" in line)


@pytest.mark.parametrize("path", ["/dev/full", None], ids=["full", "closed"])
def test_what_cannot_be_written_is_no_error(path: str | None):
    descriptor = os.open(path or "/dev/null", os.O_WRONLY)
    if path is None:
        os.close(descriptor)
    assert not write_whole(descriptor, b"line\n")


def test_a_pipe_that_does_not_block_is_waited_for():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    line = b"x" * 1_000_000
    thread = threading.Thread(target=write_whole, args=(writer, line))
    thread.start()
    with os.fdopen(reader, "rb") as file:
        assert len(file.read(len(line))) == len(line)
    thread.join(WAIT_SECONDS)


def make_record(message: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelno": level, "name": "test"})


def test_each_kind_of_record_has_a_limit_of_its_own():
    limit = RateLimit()
    admitted = [limit.admit(make_record(name), 0.0) for name in ("a", "b") for _ in range(RECORDS_PER_SECOND + 1)]
    assert admitted == ([True] * RECORDS_PER_SECOND + [False]) * 2


def test_a_kind_is_admitted_again_when_its_second_has_been_summed_up():
    limit = RateLimit()
    for _ in range(RECORDS_PER_SECOND + 3):
        limit.admit(make_record("a"), 0.0)
    assert limit.collect(before=-0.1) == []
    (record,) = limit.collect(before=0.0)
    assert vars(record)["suppressed"] == 3
    assert limit.admit(make_record("a"), 1.0)


def test_kinds_without_number_are_limited_together():
    limit = RateLimit()
    admitted = sum(limit.admit(make_record(f"kind {number}"), 0.0) for number in range(10_000))
    assert admitted < 300


def test_a_code_is_a_kind_of_its_own():
    limit = RateLimit()
    records = [make_record("refused") for _ in range(RECORDS_PER_SECOND + 2)]
    for record in records:
        record.code = "INVALID_ARGUMENT"
    records[-1].code = "INTERNAL"
    assert [limit.admit(record, 0.0) for record in records] == [*[True] * RECORDS_PER_SECOND, False, True]
    (suppressed,) = limit.collect(0.0)
    assert vars(suppressed)["kind"] == "refused INVALID_ARGUMENT"


def test_records_of_a_sample_are_not_limited():
    limit = RateLimit()
    record = make_record("call")
    record.sampled = 0.5
    assert all(limit.admit(record, 0.0) for _ in range(100))


@pytest.mark.parametrize(("level", "admitted"), [(logging.INFO, 100), (logging.WARNING, RECORDS_PER_SECOND)])
def test_who_debugs_a_module_wants_all_that_it_tells_but_not_all_warnings(level: int, admitted: int):
    limit, logger = RateLimit(), logging.getLogger("test")
    logger.setLevel(logging.DEBUG)
    try:
        assert sum(limit.admit(make_record("a", level), 0.0) for _ in range(100)) == admitted
    finally:
        logger.setLevel(logging.NOTSET)


def test_records_for_debugging_are_not_limited():
    limit = RateLimit()
    assert all(limit.admit(make_record("a", logging.DEBUG), 0.0) for _ in range(100))
