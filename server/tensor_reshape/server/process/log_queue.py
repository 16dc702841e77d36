"""A logging handler with a queue and a writer thread.

A thread that logs therefore never waits for the process that reads the log.

- The queue of log records is bounded. If the queue is full, further records are dropped.
- At most RECORDS_PER_SECOND log records of one kind are written per second. Further records of this kind are
  suppressed.
- The method `report` logs the numbers of dropped and suppressed records.
- A log record that cannot be written counts as dropped. An error of writing a log record has no other effect.
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


class RateFilter:
    """Admits RECORDS_PER_SECOND records of each kind per second, and counts further records as suppressed.

    Log records of one kind come from the same line of source code and have the same status code. The number of kinds is
    therefore small, even if log messages contain texts of clients.

    If a logger has the level DEBUG, all its records below WARNING are admitted, because an operator who sets this level
    wants all records.

    Attributes:
        suppressed: the number of records that were not admitted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts without records."""
        self.suppressed = 0
        self._clock = clock
        self._lock = threading.Lock()  # `logging` calls filters without holding the handler's lock
        self._ends_at = 0.0  # `_seen` counts the log records of one second, which ends at this time
        self._seen: Counter[object] = Counter()
        # The keys of this dict are pairs of the level and the name of suppressed log records. The name of a log record
        # is its message with the status code.
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
    """Writes formatted records to a file descriptor on its own thread.

    Attributes:
        limit: the filter that limits the rate of records.
    """

    def __init__(self, descriptor: int, *, max_lines: int = MAX_LINES) -> None:
        """Starts the writer thread. The handler never closes the file descriptor."""
        self._lines: Queue[logging.LogRecord] = Queue(max_lines)
        super().__init__(self._lines)
        self.limit = RateFilter()
        self._dropped = self._reported = 0  # the counter `_dropped` is guarded by the handler's lock
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
    """The thread that writes the lines.

    The writer thread never takes the handler's lock, because at exit, `logging` holds this lock while it waits in
    `flush`.
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
