"""How records reach a descriptor without anybody waiting for it.

- Whoever logs puts a formatted line into a queue of bounded length and goes on; one thread writes. When nobody reads
  the log, the queue fills up, and what comes then is dropped and counted.
- Of one kind of records, RECORDS_PER_SECOND are written in a second. The others are counted, and summed up in one.
- Records of a logger at the level DEBUG are not limited by kind, unless they are warnings or worse: who asks for them
  wants all. Neither are those that say how they are `sampled`.
- No failure to write ends anything: what cannot be written counts as dropped.
"""

import copy
import logging
import math
import os
import select
import threading
import time
from collections import deque
from typing import NamedTuple, TypeAlias

MAX_LINES = 1000
"""How many lines wait to be written; those that come then are dropped."""

RECORDS_PER_SECOND = 10
"""How many records of one kind are written in a second."""

FLUSH_SECONDS = 1.0
"""How long the end of the process waits for its last lines."""

_MAX_KINDS = 256  # kinds that come when there are so many share one: a message may have a caller's words in it
_MAX_KIND_CHARACTERS = 64
_MAX_TEXT_CHARACTERS = 8192  # of a message, of a traceback, and of each value: 1,000 lines must not take gigabytes
_STANDARD = frozenset(vars(logging.makeLogRecord({})))


Kind: TypeAlias = tuple[str, str, str]
"""What records have in common that are limited together: the logger, the beginning of the message, and the code."""


class _Window:
    """What has been logged of one kind in one second."""

    __slots__ = ("began", "level", "suppressed", "written")

    def __init__(self, began: float, level: int) -> None:
        self.began = began
        self.level = level
        self.written = self.suppressed = 0


class RateLimit:
    """Counts the records of each kind in windows of a second; not safe to use from several threads at once.

    Attributes:
        suppressed: how many records were not admitted, of all kinds, since the start.
    """

    def __init__(self) -> None:
        """Starts without any window."""
        self.suppressed = 0
        self._windows: dict[Kind, _Window] = {}

    @property
    def is_counting(self) -> bool:
        """Whether there are windows to collect."""
        return bool(self._windows)

    def admit(self, record: logging.LogRecord, now: float) -> bool:
        """Returns whether the record is to be written; otherwise it is counted.

        A window that is over goes on counting until it is collected, so that no count is lost.
        """
        if hasattr(record, "sampled") or _wants_all(record):
            return True
        code = str(getattr(record, "code", ""))[:_MAX_KIND_CHARACTERS]
        kind: Kind = (record.name, str(record.msg)[:_MAX_KIND_CHARACTERS], code)
        if kind not in self._windows and len(self._windows) >= _MAX_KINDS:
            kind = ("", "of many kinds", "")
        window = self._windows.setdefault(kind, _Window(now, record.levelno))
        if window.written >= RECORDS_PER_SECOND:
            window.suppressed += 1
            self.suppressed += 1
            return False
        window.written += 1
        return True

    def collect(self, before: float) -> list[logging.LogRecord]:
        """Ends the windows that began before a time, and returns a record for each kind that was suppressed there."""
        ended = {kind: window for kind, window in self._windows.items() if window.began <= before}
        for kind in ended:
            del self._windows[kind]
        return [
            _make_record(
                "records suppressed", window.level, kind=" ".join(kind[1:]).rstrip(), suppressed=window.suppressed
            )
            for kind, window in ended.items()
            if window.suppressed
        ]


class _Line(NamedTuple):
    """What is written at once.

    Attributes:
        content: the bytes.
        told: how many dropped records it tells of; 0: it is a record of its own.
    """

    content: bytes
    told: int


class QueuedHandler(logging.Handler):
    """Writes records to a descriptor in a thread of its own."""

    def __init__(self, descriptor: int, *, max_lines: int = MAX_LINES) -> None:
        """Starts the thread; `descriptor` stays the caller's."""
        super().__init__()
        self._descriptor = descriptor
        self._max_lines = max_lines
        # Guards all that follows. The thread that writes never takes the handler's own lock: at exit, logging holds
        # that one while it waits in `flush`.
        self._news = threading.Condition()
        self._limit = RateLimit()
        self._lines: deque[_Line] = deque()
        self._writing = False
        self._dropped = 0  # and not told yet
        self._lost = 0  # dropped since the start
        self._told_at = -math.inf
        threading.Thread(target=self._write_all, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queues the record, or counts it."""
        with self._news:
            admitted = self._limit.admit(record, time.monotonic())
        try:
            if admitted:
                self._put(record)
        except Exception:  # noqa: BLE001 - whoever logs is not who has to hear that it cannot be formatted
            with self._news:
                self._drop(0)

    @property
    def lost_records(self) -> tuple[int, int]:
        """How many records were not written since the start: those that found no room, and those above the rate."""
        with self._news:
            return self._lost, self._limit.suppressed

    def flush(self) -> None:
        """Awaits that all is written: for a second, since perhaps nobody reads it. Called at exit by logging."""
        self._sum_up(math.inf)
        with self._news:
            self._news.wait_for(lambda: not self._lines and not self._writing, FLUSH_SECONDS)

    def _drop(self, told: int) -> None:
        """Counts a line that is not written; with the lock."""
        self._dropped += told or 1
        self._lost += not told

    def _put(self, record: logging.LogRecord, told: int = 0) -> None:
        with self._news:
            if len(self._lines) >= self._max_lines:
                self._drop(told)
                return
        content = f"{self.format(self._shorten(record))}\n".encode(errors="backslashreplace")
        with self._news:
            self._lines.append(_Line(content, told))
            self._news.notify_all()

    def _shorten(self, record: logging.LogRecord) -> logging.LogRecord:
        """Returns a copy that holds nothing but text of bounded length."""
        short = copy.copy(record)
        short.msg, short.args = record.getMessage()[:_MAX_TEXT_CHARACTERS], None
        if record.exc_info:
            text = (self.formatter or logging.Formatter()).formatException(record.exc_info)
            short.exc_text = text if len(text) <= _MAX_TEXT_CHARACTERS else f"    ...{text[-_MAX_TEXT_CHARACTERS:]}"
        short.exc_info = None
        for key, value in vars(short).items():
            if key not in _STANDARD and isinstance(value, str):
                setattr(short, key, value[:_MAX_TEXT_CHARACTERS])
        return short

    def _write_all(self) -> None:
        while True:
            line = self._take()
            if line and not write_whole(self._descriptor, line.content):
                with self._news:
                    self._drop(line.told)
            self._sum_up(time.monotonic())

    def _take(self) -> _Line | None:
        """Awaits the next line; None when there may be something to sum up."""
        with self._news:
            self._writing = False
            self._news.notify_all()
            self._news.wait_for(lambda: self._lines, 1.0 if self._dropped or self._limit.is_counting else None)
            self._writing = bool(self._lines)
            return self._lines.popleft() if self._lines else None

    def _sum_up(self, now: float) -> None:
        """Queues what was counted instead of written: a window when its second is over, drops once a second.

        Not more often: where nothing can be written, the line that tells so is dropped as well.
        """
        with self._news:
            suppressed = self._limit.collect(now - 1.0)
            tells = now >= self._told_at + 1.0 and len(self._lines) < self._max_lines // 2
            dropped = self._dropped if tells else 0
            self._dropped -= dropped
            self._told_at = time.monotonic() if dropped else self._told_at
        for record in suppressed:
            self._put(record)
        if dropped:
            self._put(_make_record("records dropped", logging.WARNING, dropped=dropped), dropped)


def write_whole(descriptor: int, line: bytes) -> bool:
    """Writes all of `line`, and returns whether it could: waits for a reader, but not for room on a disk."""
    while line:
        try:
            line = line[os.write(descriptor, line) :]
        except BlockingIOError:  # whoever shares the descriptor has made it non-blocking
            select.select([], [descriptor], [])
        except (OSError, ValueError):
            return False
    return True


def _wants_all(record: logging.LogRecord) -> bool:
    if record.levelno <= logging.DEBUG:
        return True
    return record.levelno <= logging.INFO and logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def _make_record(message: str, level: int, **values: object) -> logging.LogRecord:
    record = logging.getLogRecordFactory()(__name__, level, "", 0, message, (), None)
    vars(record).update(values)
    return record
