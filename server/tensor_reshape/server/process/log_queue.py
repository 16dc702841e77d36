"""A logging handler with a queue and a writer thread, so no thread that logs waits for the reader of the log.

- The queue is bounded. If it is full, records are dropped, and the log has a line with their number.
- At most RECORDS_PER_SECOND records of one kind are written. The log has a line with the number of suppressed records.
- An error while writing has no effect except that the record counts as dropped.
"""

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

MAX_LINES = 1000
"""Size of the queue in records."""

RECORDS_PER_SECOND = 10
"""Limit of written records of one kind."""

FLUSH_SECONDS = 1.0
"""Time that `flush` waits for space in the queue, and then for the last lines to be written."""

_REPORT_SECONDS = 1.0
_MAX_NAME_CHARACTERS = 64
_MAX_LINE_CHARACTERS = 65_536  # limits the memory of a full queue to 64 MiB
_FLUSH = logging.makeLogRecord({})  # makes the writer report lost records
STANDARD_ATTRIBUTES = frozenset(vars(_FLUSH))
"""The attributes of every record. All others were passed as `extra`."""

Filter = Callable[[logging.LogRecord], bool]


class RateFilter:
    """Admits RECORDS_PER_SECOND records of each kind and counts the others.

    Records of one kind have the same code and come from the same line of source code. So there are few kinds, even if
    messages contain texts of clients. There is no limit for records with the attribute `sampled`, and none below
    WARNING for a logger with the level DEBUG, because an operator who sets that level wants all records.

    Attributes:
        suppressed: the number of records that were not admitted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts without records."""
        self.suppressed = 0
        self._clock = clock
        self._lock = threading.Lock()  # `logging` calls filters without the handler's lock
        self._ends_at = 0.0  # end of the second in which `_seen` counts
        self._seen: Counter[object] = Counter()
        self._unreported: dict[object, tuple[int, str, int]] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        """Returns whether the record may be written."""
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
            level, name, count = self._unreported.get(kind, (record.levelno, name, 0))
            self._unreported[kind] = level, name, count + 1
            self.suppressed += 1
            return False

    def take_suppressed(self) -> list[tuple[int, str, int]]:
        """Returns the level, the message with its code, and the number of suppressed records since the last call."""
        with self._lock:
            taken, self._unreported = self._unreported, {}
        return list(taken.values())


class QueuedHandler(QueueHandler):
    """Writes formatted records to a file descriptor on its own thread."""

    def __init__(self, descriptor: int, filters: Sequence[Filter] = (), *, max_lines: int = MAX_LINES) -> None:
        """Starts the thread. `filters` come before the rate limit. The handler does not close `descriptor`."""
        self._lines: Queue[logging.LogRecord] = Queue(max_lines)
        super().__init__(self._lines)
        self.limit = RateFilter()
        every: Sequence[Filter] = (*filters, self.limit)
        for one in every:
            self.addFilter(one)
        self.dropped = 0  # protected by the handler's lock
        self._writer = _Writer(self, self._lines, descriptor)
        self._writer.start()

    @property
    def lost_records(self) -> tuple[int, int]:
        """The numbers of dropped and of suppressed records since the start."""
        return self.dropped + self._writer.failed, self.limit.suppressed

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Returns a record whose message is the line. Raises Full before formatting, so dropped records cost little."""
        if self._lines.full():
            raise Full
        line: logging.LogRecord = super().prepare(record)
        line.msg = line.message = line.message[:_MAX_LINE_CHARACTERS]
        return line

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002 - the names are logging's
        """Counts a record that did not fit into the queue or cannot be formatted."""
        self.dropped += 1

    def flush(self) -> None:
        """Waits until all records are written, but not long, because the log may have no reader."""
        with suppress(Full):
            self._lines.put(_FLUSH, timeout=FLUSH_SECONDS)
            with self._lines.all_tasks_done:
                self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, FLUSH_SECONDS)


class _Writer(QueueListener):
    """Writes the lines, and at most once per second a report of lost records.

    It never takes the handler's lock, because `logging` holds that lock at exit while it waits in `flush`.
    """

    def __init__(self, handler: QueuedHandler, lines: "Queue[logging.LogRecord]", descriptor: int) -> None:
        super().__init__(lines)
        self.failed = 0  # records that could not be written
        self._handler = handler
        self._lines = lines
        self._descriptor = descriptor
        self._reported = 0  # dropped records that a report has counted
        self._report_at = 0.0

    def dequeue(self, block: bool) -> logging.LogRecord:  # noqa: FBT001 - logging calls it
        try:
            return self._lines.get(block, _REPORT_SECONDS)
        except Empty:
            self._report()
            return self._lines.get(block)  # no record can be lost before the next one

    def handle(self, record: logging.LogRecord) -> None:
        if record is not _FLUSH:
            self.failed += not self._write(record.getMessage())
        if record is _FLUSH or time.monotonic() >= self._report_at:
            self._report()

    def _report(self) -> None:
        self._report_at = time.monotonic() + _REPORT_SECONDS
        for level, name, records in self._handler.limit.take_suppressed():
            self.failed += not self._write_report("records suppressed", level, kind=name, suppressed=records)
        dropped = self._handler.dropped + self.failed - self._reported
        if dropped and self._write_report("records dropped", logging.WARNING, dropped=dropped):
            self._reported += dropped

    def _write_report(self, message: str, level: int, **values: object) -> bool:
        record = logging.getLogRecordFactory()(__name__, level, "", 0, message, (), None)
        vars(record).update(values)
        return self._write(self._handler.format(record))

    def _write(self, line: str) -> bool:
        return write_whole(self._descriptor, f"{line}\n".encode(errors="backslashreplace"))


def write_whole(descriptor: int, line: bytes) -> bool:
    """Writes `line` and returns whether that succeeded. Waits for the reader of a pipe, but not for space on a disk."""
    while line:
        try:
            line = line[os.write(descriptor, line) :]
        except BlockingIOError:  # another process that shares the descriptor has made it non-blocking
            select.select([], [descriptor], [])
        except (OSError, ValueError):
            return False
    return True
