"""A logging handler with a queue and a writer thread, so no thread that logs waits for the reader of the log.

- The queue is bounded. If it is full, records are dropped.
- At most RECORDS_PER_SECOND records of one kind are written. The others are suppressed.
- `report` logs the numbers of dropped and suppressed records.
- An error while writing has no effect except that the record counts as dropped.
"""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from logging.handlers import QueueHandler, QueueListener
from queue import Queue

MAX_LINES = 1000
"""Size of the queue in records."""

RECORDS_PER_SECOND = 10
"""Limit of written records of one kind."""

FLUSH_SECONDS = 1.0
"""Time that `flush` waits for lines to be written, because the log may have no reader."""

_MAX_NAME_CHARACTERS = 64
_MAX_LINE_CHARACTERS = 65_536  # limits the memory of a full queue to 64 MiB
_LOGGER = logging.getLogger(__name__)


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
        self._unreported: Counter[tuple[int, str]] = Counter()  # by level, and message with code

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
            self._unreported[record.levelno, name] += 1
            self.suppressed += 1
            return False

    def take_suppressed(self) -> Counter[tuple[int, str]]:
        """Returns the number of suppressed records since the last call, by level and by message with code."""
        with self._lock:
            taken, self._unreported = self._unreported, Counter()
        return taken


class QueuedHandler(QueueHandler):
    """Writes formatted records to a file descriptor on its own thread.

    Attributes:
        limit: the rate limit.
    """

    def __init__(self, descriptor: int, *, max_lines: int = MAX_LINES) -> None:
        """Starts the thread. The handler does not close `descriptor`."""
        self._lines: Queue[logging.LogRecord] = Queue(max_lines)
        super().__init__(self._lines)
        self.limit = RateFilter()
        self._dropped = self._reported = 0  # `_dropped` is protected by the handler's lock
        self._writer = _Writer(self._lines, descriptor)
        self._writer.start()

    @property
    def dropped(self) -> int:
        """The number of records that were not written, except suppressed ones."""
        return self._dropped + self._writer.failed

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Returns a record whose message is the line, which is cut if it is very long."""
        line: logging.LogRecord = super().prepare(record)
        line.msg = line.message = line.message[:_MAX_LINE_CHARACTERS]
        return line

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002 - the names are logging's
        """Counts a record that did not fit into the queue or cannot be formatted."""
        self._dropped += 1

    def report(self) -> None:
        """Logs the numbers of records that were suppressed or dropped since the last call."""
        for (level, name), count in self.limit.take_suppressed().items():
            _LOGGER.log(level, "records suppressed", extra={"kind": name, "suppressed": count})
        dropped = self.dropped
        if dropped > self._reported and not self._lines.full():
            _LOGGER.warning("records dropped", extra={"dropped": dropped - self._reported})
            self._reported = dropped

    def flush(self) -> None:
        """Waits until all records are written, and then until a report is. Each wait is at most `FLUSH_SECONDS`."""
        self._await_writer()
        self.report()
        self._await_writer()

    def _await_writer(self) -> None:
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, FLUSH_SECONDS)


class _Writer(QueueListener):
    """Writes the lines. It never takes the handler's lock, which `logging` holds at exit while it waits in `flush`."""

    def __init__(self, lines: "Queue[logging.LogRecord]", descriptor: int) -> None:
        super().__init__(lines)
        self.failed = 0  # records that could not be written
        self._descriptor = descriptor

    def handle(self, record: logging.LogRecord) -> None:
        line = f"{record.getMessage()}\n".encode(errors="backslashreplace")
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except (OSError, ValueError):
            self.failed += 1
