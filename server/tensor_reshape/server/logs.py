"""Logs on stderr: text for people, JSON for machines. One line a record; in text a traceback has lines of its own."""

import logging
import sys
from typing import Any

from pythonjsonlogger.json import JsonFormatter

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """Writes `key=value` behind the message for what was logged with it. Control characters are escaped."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Returns the line without a traceback."""
        extras = [f"{key}={value}" for key, value in vars(record).items() if key not in _STANDARD]
        line = " ".join([super().formatMessage(record), *extras])
        return _escape(line)

    def formatException(self, ei: Any) -> str:  # noqa: N802, ANN401 - the name and the type are logging's
        """Returns the traceback, indented: what a caller put into an exception's text cannot pass for a record."""
        return "\n".join(f"    {_escape(line)}" for line in super().formatException(ei).split("\n"))


def configure_logs(log_format: str, level: str) -> None:
    """Sends the records of this process to stderr.

    Args:
        log_format: "text" or "json".
        level: a name of `logging`, in any case.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_build_formatter(log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _escape(line: str) -> str:
    return line.encode("unicode_escape").decode("ascii")


def _build_formatter(log_format: str) -> logging.Formatter:
    if log_format == "json":
        names = {"levelname": "level", "name": "logger"}
        return JsonFormatter("{levelname}{name}{message}", style="{", rename_fields=names, timestamp="time")
    return TextFormatter("%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z")
