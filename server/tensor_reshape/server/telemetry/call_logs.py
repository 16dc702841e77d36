"""Writes the log lines of rejected and failed calls, and starts the configured logs of calls (access log and tracing).

The server logs a line for each rejected or failed call. If it refuses calls before they begin, it usually logs at most
one line per second for each client address. The access log has a line at the level DEBUG for each call that has ended.

- The log line of a call that has begun contains the client, the status and the request id. A log line contains no part
  of a message. The request id is the only part of a call's metadata in a log line, and the module `call_info` checks
  that it is valid.
- The log line of a rejected or failed call has the text "rejected" or "failed" and the level INFO. The server writes
  this line before it sends the error to the client. However, if a client ends its call without sending a message, the
  server writes the line later, when it is clear that the client has not disconnected.
- If a call ends because the client cancels it, disconnects or reaches its deadline, this is not a failure of the
  server. Only the access log has a line for such a call.
- If a message exceeds the size limit, gRPC's core rejects the call, and the handlers log the rejection.
- If a call fails because of a bug, the server also logs the traceback at level ERROR, with the request id of the call
  (see `statuses`).
- The number of lines per second about rejected and failed calls is limited for each status code (see `process.logs`).
  At the log level DEBUG, it is not limited.
- A call never waits until its log line is written.
- The logs start before the server and end after the server, so the last calls are logged and traced.
- The modules for tracing are only imported if tracing is enabled.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from tensor_reshape.runtime.lazy_imports import describe_missing
from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.observers import CallLog
from tensor_reshape.server.calls.results import GONE, CallResult, EndedCall
from tensor_reshape.server.calls.statuses import INTERNAL
from tensor_reshape.server.config import Config, ConfigError

_LOGGER = logging.getLogger(__name__)
_MAX_METHOD_CHARACTERS = 256
_MICROSECONDS = 6  # decimal places of durations in seconds


def log_failure(info: CallInfo, result: CallResult, began: float, field: str = "", detail: str = "") -> None:
    """Writes the log line of a rejected or failed call. Does nothing if the call already has a log line.

    Any thread may call this function.

    Args:
        info: the method, the client and the metadata of the call.
        result: the status code of the call, and the reason of its error.
        began: the time at which the call began, as `time.monotonic` returned it.
        field: the name of the field at fault, or an empty text if the error concerns no field.
        detail: the message of the error if it is about the load of the server, and otherwise an empty text.
    """
    if not info.is_logged:
        info.is_logged = True
        if _LOGGER.isEnabledFor(logging.INFO):
            values = describe_call(info, result, time.monotonic() - began)
            _log_error(result.code, values | {"field": field, "detail": detail})


def _log_error(code: str, values: dict[str, Any]) -> None:
    present = {name: value for name, value in values.items() if value != ""}
    _LOGGER.info("failed" if code == INTERNAL else "rejected", extra=present)


_REFUSED_AT: dict[str, float] = {}  # for each address that was refused recently, the time of its last log line
_MAX_REFUSED_ADDRESSES = 1024


def log_refusal(address: str) -> None:
    """Logs that a call was refused before it began, usually at most once a second for each address."""
    now = time.monotonic()
    if now < _REFUSED_AT.get(address, 0.0) + 1.0:
        return
    if len(_REFUSED_AT) >= _MAX_REFUSED_ADDRESSES:
        _REFUSED_AT.clear()
    _REFUSED_AT[address] = now
    _LOGGER.info("refused", extra={"address": address, "code": "RESOURCE_EXHAUSTED", "reason": "SERVER_BUSY"})


def log_outside(method: str, code: str = "UNIMPLEMENTED", peer: str = "", detail: str = "") -> None:
    """Writes the log line of a call whose method does not exist, or of an HTTP request that does not begin a call.

    The detail must not contain text from the client.
    """
    if _LOGGER.isEnabledFor(logging.INFO):
        _log_error(code, {"method": method[:_MAX_METHOD_CHARACTERS], "code": code, "peer": peer, "detail": detail})


def describe_call(info: CallInfo, result: CallResult, seconds: float) -> dict[str, Any]:
    """Returns the fields that the access log and the log lines of rejected or failed calls have in common."""
    values = {
        "method": info.method,
        "code": result.code,
        "reason": result.reason,
        "peer": info.peer,
        "identity": info.identity,
        "seconds": round(seconds, _MICROSECONDS),
        "request_id": info.request_id,
    }
    return {name: value for name, value in values.items() if value != ""}


class AccessLog:
    """Writes a log line for each call after its end (see `CallLog`).

    If the access log is enabled, the server returns the request id of each call, even if the call succeeds.
    """

    def chooses(self, metadata: Metadata) -> bool:
        """Chooses every call (see `CallLog`)."""
        del metadata
        return True

    def begin(self, info: CallInfo) -> None:
        """Adds the request id to the trailing metadata (see `CallLog`)."""
        info.return_request_id()

    def write(self, call: EndedCall) -> None:
        """Writes the log line of an ended call (see `CallLog`)."""
        values = describe_call(call.info, call.result or GONE, time.monotonic() - call.began)
        values |= {
            "request_messages": call.request_messages,
            "request_bytes": call.request_bytes,
            "response_messages": call.response_messages,
            "response_bytes": call.response_bytes,
        }
        _LOGGER.debug("call", extra=values)


class CallLogs:
    """The access log and the tracing of one process, as far as they are enabled.

    Attributes:
        logs: the logs that the configuration enables.
        end: a function that sends the remaining spans of the trace.
    """

    def __init__(self, config: Config) -> None:
        """Starts the logs that `config` enables.

        Raises:
            ConfigError: the extra `[tracing]` is not installed, or OpenTelemetry rejects an environment variable.
                OpenTelemetry ignores most invalid values instead of rejecting them.
        """
        self.logs: list[CallLog] = [AccessLog()] if config.log_level == "debug" else []
        self.end: Callable[[], None] = lambda: None
        if not config.tracing:
            return
        try:
            from tensor_reshape.server.telemetry.tracing import Tracing  # noqa: PLC0415 - an optional extra

            tracing = Tracing()
        except ImportError as error:
            raise ConfigError(describe_missing("--tracing", "tracing", error)) from error
        # If one of its environment variables is invalid, even the import of OpenTelemetry may fail.
        except (ValueError, OSError) as error:
            message = f"--tracing cannot start with OpenTelemetry's environment variables: {error}"
            raise ConfigError(message) from error
        self.logs.append(tracing.log)
        self.end = tracing.end
