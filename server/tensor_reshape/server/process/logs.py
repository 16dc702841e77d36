"""Logging to stderr as text or JSON. Each log record has one line. In the text format, a traceback adds further lines.

A thread that logs never waits for stderr (see `log_queue`). While the process serves, only this logging writes to
stderr.
"""

import logging
import sys
import threading
from typing import Any

from google.protobuf.message import DecodeError

from tensor_reshape.server.process.log_queue import QueuedHandler

_LOGGER = logging.getLogger(__name__)
_STDERR = 2
# This set contains the standard attributes of a log record. All other attributes were passed as `extra`.
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """Formats a log record as its message, followed by `key=value` for each entry of `extra`.

    Control characters are escaped. A value with spaces or quotes is quoted, so that it cannot look like several values.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Returns the log line without the traceback."""
        extras = [f"{key}={_quote(str(value))}" for key, value in vars(record).items() if key not in _STANDARD]
        return " ".join([_escape(super().formatMessage(record)), *extras])

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
    # The log handler writes to the file descriptor, because a thread that waits for sys.stderr holds a lock, even at
    # exit.
    handler = QueuedHandler(_STDERR)
    handler.addFilter(demote_garbage)
    handler.addFilter(handler.limit)
    handler.setFormatter(_build_formatter(log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # this setting prevents `logging` from writing its own formatting errors to stderr
    sys.excepthook = lambda kind, error, trace: _log_exception(error.with_traceback(trace) if error else kind())
    sys.unraisablehook = lambda unraisable: _log_exception(unraisable.exc_value)
    threading.excepthook = lambda ended: _log_exception(ended.exc_value)


def demote_garbage(record: logging.LogRecord) -> bool:
    """Changes a log record of grpcio about undecodable data to the level DEBUG. Returns whether to log the record.

    Undecodable requests and metadata are errors of the client. grpcio logs such an error with a traceback that contains
    the values of the metadata, including tokens.
    """
    if record.exc_info and isinstance(record.exc_info[1], DecodeError | UnicodeDecodeError):
        record.levelno, record.levelname, record.exc_info = logging.DEBUG, "DEBUG", None
        record.msg, record.args = "undecodable request or metadata", ()
        return logging.getLogger().isEnabledFor(logging.DEBUG)
    return True


def flush_logs() -> None:
    """Waits until all log lines are written, but at most two seconds."""
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
    """Returns a list with the handler that `configure_logs` has added.

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
    return TextFormatter("%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z")
