"""Log lines of calls: one for each rejected or failed call, and a sample of all calls if the access log is on.

- A line contains the client, the status and the request id, which the client also receives. It contains nothing of a
  message, and of the metadata only the request id, which is checked: see `call_info`.
- A call that is rejected or fails has one line, "rejected" or "failed", at level INFO. It is written when the end is
  decided, before it is sent. If a client cancels, disconnects or reaches its deadline, the server has not failed, so
  only the access log has a line. If gRPC's core rejects a message above the limit, there is a line with `grpc_core`,
  but not with the fallback server.
- A bug also has a line with its traceback, at level ERROR, with the same request id: see `statuses`.
- Lines of rejected and failed calls are limited in rate for each code. Lines of the access log are not limited, because
  they are sampled: see `process.log_queue`. A call never waits until its line is written.
"""

import logging
import random
import time
from typing import Any

from tensor_reshape.server.engine.call_info import CallInfo
from tensor_reshape.server.engine.lifecycle import CallResult, Event, State
from tensor_reshape.server.engine.observers import CallRecord
from tensor_reshape.server.engine.statuses import INTERNAL

_LOGGER = logging.getLogger(__name__)
_MAX_METHOD_CHARACTERS = 256
_MICROSECONDS = 6  # digits


def log_failure(info: CallInfo, result: CallResult, began: float, field: str = "") -> None:
    """Writes the line of a call that is rejected or fails, unless it already has one. Any thread may call this.

    Args:
        info: the facts about the call.
        result: the result of the call.
        began: when the call was entered, by `time.monotonic`.
        field: the field at fault; empty if there is none.
    """
    if info.is_logged:
        return
    info.is_logged = True
    if _LOGGER.isEnabledFor(logging.INFO):
        seconds = time.monotonic() - began
        values = _describe(info, result, seconds) | ({"field": field} if field else {})
        _LOGGER.info("failed" if result.code == INTERNAL else "rejected", extra=values)


class AccessLog:
    """Writes a line for a sample of the calls when they are over. It is an observer, and a gate that admits all calls.

    As a gate it adds the request id to the trailing metadata of every call, also of successful ones.
    """

    def __init__(self, rate: float) -> None:
        """Writes the line of a call with the probability `rate`.

        The choice is random. If it followed from the request id, clients could choose whether they are logged.
        """
        self._rate = rate

    def admit(self, info: CallInfo) -> None:
        """Adds the request id to the trailing metadata."""
        info.return_request_id()

    def leave(self, info: CallInfo) -> None:
        """Does nothing: `observe` gets more information about the end."""

    def observe(self, record: CallRecord, event: Event) -> None:
        """Writes the line; see `Observer`."""
        del event
        if record.state is not State.DONE or random.random() >= self._rate:  # noqa: S311 - a sample, not a secret
            return
        values = _describe(record.info, record.result or CallResult(""), time.monotonic() - record.began)
        values |= {
            "request_messages": record.request_messages,
            "request_bytes": record.request_bytes,
            "response_messages": record.response_messages,
            "response_bytes": record.response_bytes,
            "sampled": self._rate,  # how many calls the line stands for
        }
        _LOGGER.info("call", extra=values)


def log_unknown_method(method: str) -> None:
    """Writes the line of a call to a method that does not exist."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info("rejected", extra={"method": method[:_MAX_METHOD_CHARACTERS], "code": "UNIMPLEMENTED"})


def _describe(info: CallInfo, result: CallResult, seconds: float) -> dict[str, Any]:
    """Returns the fields that both kinds of lines have; unknown values are omitted."""
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
