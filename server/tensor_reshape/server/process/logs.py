"""Writes log records to stderr as text or JSON. Each log record has one line.

In the text format, a traceback adds further lines. A thread that logs never waits for the process that reads stderr,
because the handler has a queue and a writer thread. While the process serves calls, no other code writes to stderr.

- The queue of log records is bounded. If the queue is full, further records are dropped.
- Within one second, at most RECORDS_PER_SECOND log records of one kind are written. Further records of this kind are
  suppressed. At the log level DEBUG, only warnings and errors are limited.
- The method `report` logs the numbers of dropped and suppressed records.
- A log record that cannot be written counts as dropped. The error has no other effect.
"""

import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from queue import Queue
from typing import Any

from google.protobuf.message import DecodeError

MAX_LINES = 1000
"""Maximum number of log records in the queue."""

RECORDS_PER_SECOND = 10
"""Maximum number of records of one kind that are written per second."""

FLUSH_SECONDS = 1.0
"""Maximum duration of each wait in `flush`, in seconds.

The wait is limited, because perhaps no process reads the log.
"""

_MAX_NAME_CHARACTERS = 64
_MAX_LINE_CHARACTERS = 65_536  # this length limits the memory of a full queue to 64 MiB
_LOGGER = logging.getLogger(__name__)
_STDERR = 2
# This set contains the standard attributes of a log record. Any other attribute of a record was passed as `extra`.
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class RateFilter:
    """Admits at most RECORDS_PER_SECOND log records of each kind per second, and suppresses and counts further records.

    Log records of one kind come from the same line of source code and have the same status code. The number of kinds is
    therefore small, even if log messages contain texts of clients.

    If a logger has the level DEBUG, all its records below WARNING are admitted, because an operator who sets this level
    wants all records.

    Attributes:
        suppressed: the number of records that this filter has suppressed so far.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Creates a filter that has not counted any records yet."""
        self.suppressed = 0
        self._clock = clock
        # this lock is needed, because `logging` calls filters without holding the handler's lock
        self._lock = threading.Lock()
        self._ends_at = 0.0  # the end of the current second, for which `_seen` counts the records of each kind
        self._seen: Counter[object] = Counter()
        # This counter contains the suppressed records that have not been reported yet. Each key is a pair of the level
        # and a name, which consists of the record's message and its status code.
        self._unreported: Counter[tuple[int, str]] = Counter()

    def __call__(self, record: logging.LogRecord) -> bool:
        """Returns whether the record may be written."""
        least = logging.WARNING if logging.getLogger(record.name).isEnabledFor(logging.DEBUG) else logging.INFO
        if record.levelno < least:
            return True
        code = str(getattr(record, "code", ""))
        kind = (record.pathname, record.lineno, code)
        with self._lock:
            if (now := self._clock()) >= self._ends_at:
                self._ends_at, self._seen = now + 1.0, Counter()
            self._seen[kind] += 1
            if self._seen[kind] <= RECORDS_PER_SECOND:
                return True
            name = f"{str(record.msg)[:_MAX_NAME_CHARACTERS]} {code}".rstrip()
            self._unreported[record.levelno, name] += 1
            self.suppressed += 1
            return False

    def take_suppressed(self) -> Counter[tuple[int, str]]:
        """Returns how many records were suppressed since the last call of this method, for each level and name."""
        with self._lock:
            taken, self._unreported = self._unreported, Counter()
        return taken


class QueuedHandler(QueueHandler):
    """Formats log records, and writes them to a file descriptor on a separate thread.

    Attributes:
        limit: the filter that limits the number of records per second.
    """

    def __init__(self, descriptor: int, *, max_lines: int = MAX_LINES) -> None:
        """Starts the writer thread. The handler never closes the file descriptor."""
        self._lines: Queue[logging.LogRecord] = Queue(max_lines)
        super().__init__(self._lines)
        self.limit = RateFilter()
        self._dropped = self._reported = 0  # `_dropped` only changes while the handler's lock is held
        self._writer = _Writer(self._lines, descriptor)
        self._writer.start()

    @property
    def dropped(self) -> int:
        """The number of log records that were dropped. Suppressed records are not included."""
        return self._dropped + self._writer.failed

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Returns a log record whose message is the formatted line. A very long line is cut off."""
        line: logging.LogRecord = super().prepare(record)
        line.msg = line.message = line.message[:_MAX_LINE_CHARACTERS]
        return line

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002 - the names are logging's
        """Counts a log record that does not fit into the queue or cannot be formatted."""
        self._dropped += 1

    def report(self) -> None:
        """Logs how many records were suppressed or dropped since the last call of this method."""
        for (level, name), count in self.limit.take_suppressed().items():
            _LOGGER.log(level, "records suppressed", extra={"kind": name, "suppressed": count})
        dropped = self.dropped
        if dropped > self._reported and not self._lines.full():
            _LOGGER.warning("records dropped", extra={"dropped": dropped - self._reported})
            self._reported = dropped

    def flush(self) -> None:
        """Waits until all records are written, then logs a report and waits until the report is written.

        Each of the two waits takes at most `FLUSH_SECONDS`.
        """
        self._await_writer()
        self.report()
        self._await_writer()

    def _await_writer(self) -> None:
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, FLUSH_SECONDS)


class _Writer(QueueListener):
    """The thread that writes log lines to the file descriptor.

    This thread never takes the handler's lock. At exit, `logging` holds this lock while it waits in `flush`, so the two
    threads would wait for each other.
    """

    def __init__(self, lines: "Queue[logging.LogRecord]", descriptor: int) -> None:
        super().__init__(lines)
        self.failed = 0  # the number of log records that could not be written
        self._descriptor = descriptor

    def handle(self, record: logging.LogRecord) -> None:
        line = f"{record.getMessage()}\n".encode(errors="backslashreplace")
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except (OSError, ValueError):
            self.failed += 1


class TextFormatter(logging.Formatter):
    """Formats a log record as its time, its level and its message, followed by `key=value` for each entry of `extra`.

    Control characters are escaped. A value with spaces or quotes is quoted, so that it cannot look like several values.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Returns the log line, which begins with the local time and does not contain the traceback."""
        local_time = datetime.fromtimestamp(record.created, UTC).astimezone().isoformat(timespec="milliseconds")
        extras = [f"{key}={_quote(str(value))}" for key, value in vars(record).items() if key not in _STANDARD]
        return " ".join([local_time, record.levelname, _escape(record.message), *extras])

    def formatException(self, ei: Any) -> str:  # noqa: N802, ANN401 - the name and the type are logging's
        """Returns the indented traceback.

        Without the indentation, a text from a client could look like a log record.
        """
        return "\n".join(f"    {_escape(line)}" for line in super().formatException(ei).split("\n"))


def configure_logs(log_format: str, level: str) -> None:
    """Writes the log records of this process to stderr, including Python's own warnings and uncaught exceptions.

    Args:
        log_format: "text" or "json".
        level: the name of a level of `logging`, in upper or lower case.
    """
    # The log handler writes to the file descriptor instead of sys.stderr. A thread that waits to write to sys.stderr
    # holds the lock of sys.stderr, even at exit.
    handler = QueuedHandler(_STDERR)
    handler.addFilter(demote_garbage)
    handler.addFilter(handler.limit)
    handler.setFormatter(_build_formatter(log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # `logging` must not write its own formatting errors to stderr
    sys.excepthook = lambda kind, error, trace: _log_exception(error.with_traceback(trace) if error else kind())
    sys.unraisablehook = lambda unraisable: _log_exception(unraisable.exc_value)
    threading.excepthook = lambda ended: _log_exception(ended.exc_value)


def demote_garbage(record: logging.LogRecord) -> bool:
    """Lowers the level of grpcio's log records about undecodable data to DEBUG. Returns whether to log the record.

    Undecodable requests and metadata are errors of the client. grpcio logs such an error with a traceback that contains
    the values of the metadata, including tokens.
    """
    if record.exc_info and isinstance(record.exc_info[1], DecodeError | UnicodeDecodeError):
        record.levelno, record.levelname, record.exc_info = logging.DEBUG, "DEBUG", None
        record.msg, record.args = "undecodable request or metadata", ()
        return logging.getLogger().isEnabledFor(logging.DEBUG)
    return True


def flush_logs() -> None:
    """Waits until all log lines are written, but at most two seconds, because perhaps no process reads them."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def report_lost_records() -> None:
    """Logs how many log records of this process were dropped and suppressed since the last call of this function."""
    for handler in _list_handlers():
        handler.report()


def count_lost_records() -> tuple[int, int]:
    """Returns how many log records of this process were dropped and suppressed since its start."""
    handlers = _list_handlers()
    return sum(one.dropped for one in handlers), sum(one.limit.suppressed for one in handlers)


def _list_handlers() -> list[QueuedHandler]:
    """Returns the log handler that `configure_logs` has added, in a list.

    If a program configures logging itself, the list is empty.
    """
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, QueuedHandler)]


def _log_exception(error: BaseException | None) -> None:
    _LOGGER.error("bug", exc_info=error)


def _quote(value: str) -> str:
    escaped = _escape(value)
    if escaped and set(' "=').isdisjoint(escaped):
        return escaped
    return '"' + escaped.replace('"', '\\"') + '"'


def _escape(line: str) -> str:
    return line.encode("unicode_escape").decode("ascii")


def _build_formatter(log_format: str) -> logging.Formatter:
    if log_format == "json":
        from pythonjsonlogger.json import JsonFormatter  # noqa: PLC0415 - saves memory with the format text

        names = {"levelname": "level", "name": "logger"}
        return JsonFormatter("{levelname}{name}{message}", style="{", rename_fields=names, timestamp="time")
    return TextFormatter()
