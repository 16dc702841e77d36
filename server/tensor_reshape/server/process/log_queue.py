"""Log records are queued and written by another thread, so no thread that logs waits for the reader of the log.

- The queue is bounded. A record that finds it full is dropped. The log says how many records were dropped.
- A filter admits RECORDS_PER_SECOND records of one kind. The log says how many records of each kind were suppressed.
- A failure to write ends nothing. The record counts as dropped.
"""

import copy
import logging
import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from logging.handlers import QueueHandler, QueueListener
from queue import Empty, Full, Queue
from typing import NamedTuple, TypeAlias

MAX_LINES = 1000
"""How many lines the queue holds."""

RECORDS_PER_SECOND = 10
"""How many records of one kind are written in a second."""

FLUSH_SECONDS = 1.0
"""How long the end of the process waits for room in the queue, and then for its last lines to be written."""

_REPORT_SECONDS = 1.0
_MAX_NAME_CHARACTERS = 64
_MAX_TEXT_CHARACTERS = 8192  # of a message, of a traceback, and of each value: 1,000 lines must not take gigabytes
_FLUSH = logging.makeLogRecord({})  # in the queue, it asks the writer to report
STANDARD_ATTRIBUTES = frozenset(vars(_FLUSH))
"""What every record has. Everything else is a value that was logged with it."""

Lines: TypeAlias = "Queue[logging.LogRecord]"
Filter: TypeAlias = Callable[[logging.LogRecord], bool]


class Suppressed(NamedTuple):
    """The records of one kind that were not admitted: their level, message and code, and how many they are."""

    level: int
    name: str
    records: int


class RateFilter:
    """Admits RECORDS_PER_SECOND records of each kind, and counts the others.

    Records of one kind have the same code and come from the same line of a program, so there are few kinds, whatever
    texts of callers the messages contain. Records of a logger at the level DEBUG are not limited unless they are
    warnings or worse, because an operator who sets that level wants all of them. Neither are `sampled` records.

    Attributes:
        suppressed: how many records were not admitted since the start.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts without records."""
        self.suppressed = 0
        self._clock = clock
        self._lock = threading.Lock()  # logging calls a filter without the handler's lock
        self._ends_at = 0.0  # of the second in which records are counted
        self._seen: Counter[object] = Counter()
        self._unreported: dict[object, Suppressed] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        """Returns whether the record is to be written."""
        least = logging.WARNING if logging.getLogger(record.name).isEnabledFor(logging.DEBUG) else logging.INFO
        if record.levelno < least or hasattr(record, "sampled"):
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
            before = self._unreported.get(kind) or Suppressed(record.levelno, name, 0)
            self._unreported[kind] = before._replace(records=before.records + 1)
            self.suppressed += 1
            return False

    def take_suppressed(self) -> list[Suppressed]:
        """Returns what was not admitted since the last call."""
        with self._lock:
            taken, self._unreported = self._unreported, {}
        return list(taken.values())


class QueuedHandler(QueueHandler):
    """Writes records to a descriptor in a thread of its own."""

    def __init__(self, descriptor: int, filters: Sequence[Filter] = (), *, max_lines: int = MAX_LINES) -> None:
        """Starts the thread; `descriptor` is not closed. The `filters` see a record before it counts for its kind."""
        self._lines: Lines = Queue(max_lines)
        super().__init__(self._lines)
        self.limit = RateFilter()
        every: Sequence[Filter] = (*filters, self.limit)
        for one in every:
            self.addFilter(one)
        self.dropped = 0  # changed with the handler's lock
        self._writer = _Writer(self, self._lines, descriptor)
        self._writer.start()

    @property
    def lost_records(self) -> tuple[int, int]:
        """How many records were not written since the start: those that were dropped, and those above the rate."""
        return self.dropped + self._writer.failed, self.limit.suppressed

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Returns a record whose message is the line; raises Full before it formats one, so a flood costs little."""
        if self._lines.full():
            raise Full
        line: logging.LogRecord = super().prepare(self._shorten(record))
        return line

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002 - the names are logging's
        """Counts a record that found no room, or cannot be formatted."""
        self.dropped += 1

    def flush(self) -> None:
        """Waits until everything is written, but not for long: perhaps nobody reads. At exit, logging calls it."""
        with suppress(Full):
            self._lines.put(_FLUSH, timeout=FLUSH_SECONDS)
            with self._lines.all_tasks_done:
                self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, FLUSH_SECONDS)

    def _shorten(self, record: logging.LogRecord) -> logging.LogRecord:
        """Returns a copy whose texts are of bounded length."""
        short = copy.copy(record)
        short.msg, short.args = record.getMessage()[:_MAX_TEXT_CHARACTERS], None
        if record.exc_info:
            text = (self.formatter or logging.Formatter()).formatException(record.exc_info)
            short.exc_text = text if len(text) <= _MAX_TEXT_CHARACTERS else f"    ...{text[-_MAX_TEXT_CHARACTERS:]}"
        short.exc_info = None
        for key, value in vars(short).items():
            if key not in STANDARD_ATTRIBUTES and isinstance(value, str):
                setattr(short, key, value[:_MAX_TEXT_CHARACTERS])
        return short


class _Writer(QueueListener):
    """Writes the lines. Reports lost records at most once a second, and when no line has come for a second.

    Never takes the handler's lock, because logging holds it at exit while it waits in `flush`.
    """

    def __init__(self, handler: QueuedHandler, lines: Lines, descriptor: int) -> None:
        super().__init__(lines)
        self.failed = 0  # records that could not be written
        self._handler = handler
        self._lines = lines
        self._descriptor = descriptor
        self._reported = 0  # of the records that were dropped
        self._report_at = 0.0

    def dequeue(self, block: bool) -> logging.LogRecord:  # noqa: FBT001 - logging calls it
        try:
            return self._lines.get(block, _REPORT_SECONDS)
        except Empty:
            self._report()
            return self._lines.get(block)  # without a line, no record is lost either

    def handle(self, record: logging.LogRecord) -> None:
        if record is not _FLUSH:
            self.failed += not self._write(record.getMessage())
        if record is _FLUSH or time.monotonic() >= self._report_at:
            self._report()

    def _report(self) -> None:
        self._report_at = time.monotonic() + _REPORT_SECONDS
        for level, name, records in self._handler.limit.take_suppressed():
            self.failed += not self._write_record("records suppressed", level, kind=name, suppressed=records)
        dropped = self._handler.dropped + self.failed - self._reported
        if dropped and self._write_record("records dropped", logging.WARNING, dropped=dropped):
            self._reported += dropped

    def _write_record(self, message: str, level: int, **values: object) -> bool:
        record = logging.getLogRecordFactory()(__name__, level, "", 0, message, (), None)
        vars(record).update(values)
        return self._write(self._handler.format(record))

    def _write(self, line: str) -> bool:
        return write_whole(self._descriptor, f"{line}\n".encode(errors="backslashreplace"))


def write_whole(descriptor: int, line: bytes) -> bool:
    """Writes all of `line`, and returns whether it could: waits for a reader, but not for room on a disk."""
    while line:
        try:
            line = line[os.write(descriptor, line) :]
        except BlockingIOError:  # another process that has the descriptor has made it non-blocking
            select.select([], [descriptor], [])
        except (OSError, ValueError):
            return False
    return True
