"""Logs on stderr: text for people, JSON for machines. One line a record; in text a traceback has lines of its own.

Nothing that logs waits for stderr (`log_queue`), and nothing else of this process writes there while it serves.
"""

import logging
import sys
import threading
from typing import Any

from google.protobuf.message import DecodeError
from pythonjsonlogger.json import JsonFormatter

from tensor_reshape.server.process.log_queue import STANDARD_ATTRIBUTES, QueuedHandler

_LOGGER = logging.getLogger(__name__)
_STDERR = 2
_STANDARD = STANDARD_ATTRIBUTES | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """Writes `key=value` behind the message for what was logged with it.

    Control characters are escaped, and a value with blanks or quotes is quoted: it cannot pass for several.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Returns the line without a traceback."""
        extras = [f"{key}={_quote(str(value))}" for key, value in vars(record).items() if key not in _STANDARD]
        return " ".join([_escape(super().formatMessage(record)), *extras])

    def formatException(self, ei: Any) -> str:  # noqa: N802, ANN401 - the name and the type are logging's
        """Returns the traceback, indented: what a caller put into an exception's text cannot pass for a record."""
        return "\n".join(f"    {_escape(line)}" for line in super().formatException(ei).split("\n"))


def configure_logs(log_format: str, level: str) -> None:
    """Sends the records of this process to stderr, and with them what Python would write there by itself.

    Args:
        log_format: "text" or "json".
        level: a name of `logging`, in any case.
    """
    # Not sys.stderr: a thread that waits for it would hold its lock, also at exit.
    handler = QueuedHandler(_STDERR, [demote_garbage])
    handler.setFormatter(_build_formatter(log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # or a failure to format would be written to stderr
    sys.excepthook = lambda kind, error, trace: _log_exception(error.with_traceback(trace) if error else kind())
    sys.unraisablehook = lambda unraisable: _log_exception(unraisable.exc_value)
    threading.excepthook = lambda ended: _log_exception(ended.exc_value)


def demote_garbage(record: logging.LogRecord) -> bool:
    """Returns whether to log a record; what a caller sent that cannot be decoded is no bug, but as refusals are.

    grpcio says so of requests and of metadata, as errors with a traceback. Of metadata it shows the values, a token
    among them.
    """
    if record.exc_info and isinstance(record.exc_info[1], DecodeError | UnicodeDecodeError):
        record.levelno, record.levelname, record.exc_info = logging.DEBUG, "DEBUG", None
        record.msg, record.args = "a caller sent what cannot be decoded", ()
        return logging.getLogger().isEnabledFor(logging.DEBUG)
    return True


def flush_logs() -> None:
    """Awaits that the last lines are written, for a second at most."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def count_lost_records() -> tuple[int, int]:
    """Returns how many records of this process were not written: see `QueuedHandler.lost_records`."""
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, QueuedHandler)]
    return handlers[0].lost_records if handlers else (0, 0)  # a process that logs in another way loses none here


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
        names = {"levelname": "level", "name": "logger"}
        return JsonFormatter("{levelname}{name}{message}", style="{", rename_fields=names, timestamp="time")
    return TextFormatter("%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z")
