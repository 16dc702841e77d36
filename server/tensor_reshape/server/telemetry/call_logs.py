"""The log lines of calls.

The server logs a line for each rejected or failed call. For calls that were refused before they began, it logs at most
one line a second for each address. The access log is in the module `access_logs`.

- The log line of a call that has begun contains the client, the status and the request id. A log line contains no part
  of a message. The request id is the only part of a call's metadata in a log line, and the module `call_info` checks
  it.
- The log line of a rejected or failed call has the text "rejected" or "failed" and the level INFO. The server writes
  the log line of a rejected or failed call before it sends the error to the client. If a call ends without a message,
  the server writes the line later, when it is known that the client has not disconnected.
- If a client cancels, disconnects or reaches its deadline, the server has not failed. If a call ends for one of these
  reasons, only the access log has a line for it.
- If a message exceeds the size limit, gRPC's core rejects the call, and the handlers log the rejection.
- For a bug, the server also logs the traceback at level ERROR, with the request id of the call (see `statuses`).
- For each status code, the number of lines of rejected and failed calls per second is limited (see
  `process.logs`). At the level DEBUG, the number is not limited, and the access log has a line for each call.
- A call never waits until its log line is written.
"""

import logging
import time
from typing import Any

from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.results import CallResult
from tensor_reshape.server.calls.statuses import INTERNAL

_LOGGER = logging.getLogger(__name__)
_MAX_METHOD_CHARACTERS = 256
_MICROSECONDS = 6  # the number of decimal places of a duration in seconds


def log_failure(info: CallInfo, result: CallResult, began: float, field: str = "", detail: str = "") -> None:
    """Writes the log line of a rejected or failed call. Does nothing if the call already has a log line.

    Any thread may call this function.

    Args:
        info: the facts about the call.
        result: the result of the call.
        began: the time at which the call was entered, as returned by `time.monotonic`.
        field: the name of the field at fault, or an empty text if the error concerns no field.
        detail: the message of an error about the load of the server, or an empty text for any other error.
    """
    if info.is_logged:
        return
    info.is_logged = True
    if _LOGGER.isEnabledFor(logging.INFO):
        seconds = time.monotonic() - began
        more = {name: value for name, value in (("field", field), ("detail", detail)) if value}
        values = describe_call(info, result, seconds) | more
        _LOGGER.info("failed" if result.code == INTERNAL else "rejected", extra=values)


_REFUSED_AT: dict[str, float] = {}  # the time of the last log line of each address that was refused recently
_MAX_REFUSED_ADDRESSES = 1024


def log_refusal(address: str) -> None:
    """Writes a line for a call that was refused before it began, usually at most once a second for each address."""
    now = time.monotonic()
    if now < _REFUSED_AT.get(address, 0.0) + 1.0:
        return
    if len(_REFUSED_AT) >= _MAX_REFUSED_ADDRESSES:
        _REFUSED_AT.clear()
    _REFUSED_AT[address] = now
    _LOGGER.info("refused", extra={"address": address, "code": "RESOURCE_EXHAUSTED", "reason": "SERVER_BUSY"})


def log_unknown_method(method: str) -> None:
    """Writes the log line of a call whose method does not exist."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info("rejected", extra={"method": method[:_MAX_METHOD_CHARACTERS], "code": "UNIMPLEMENTED"})


def describe_call(info: CallInfo, result: CallResult, seconds: float) -> dict[str, Any]:
    """Returns the known fields of a log line.

    The access log and the lines of rejected or failed calls have these fields.
    """
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
