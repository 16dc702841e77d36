"""What the log says of calls: a line for each that is refused or fails, and for a sample of all where that is wanted.

- A line says whose call it was, how it ended, and its request id, which its caller has been told. Nothing of a message
  is in it, nor anything of the metadata but that id, which is checked: see `heads`.
- A call that ends badly has one line, "refused" or "failed", at the level INFO: when its end is decided, not when it
  is sent. If a caller cancels, goes or runs out of time, this server has not failed, so the call has a line only in the
  access log. A message above the limit, which gRPC's core refuses, has a line on the seam, not with the stock server.
- A bug also has a line with its traceback, at the level ERROR, with the same request id: see `statuses`.
- The lines of calls that end badly are limited in rate for each code; those of the access log are not, because they are
  sampled: see `process.log_queue`. No call waits until its line is written.
"""

import logging
import random
import time
from typing import Any

from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.lifecycle import Ending, Event, State
from tensor_reshape.server.engine.observers import CallRecord
from tensor_reshape.server.engine.statuses import INTERNAL

_LOGGER = logging.getLogger(__name__)
_MAX_METHOD_CHARACTERS = 256
_MICROSECONDS = 6  # digits


def log_bad_end(head: CallHead, ending: Ending, began: float, field: str = "") -> None:
    """Writes the line of a call that is refused or fails, unless it has one; from any thread.

    Args:
        head: of the call, with which `began` was noted.
        ending: how the call ends.
        began: by `time.monotonic`, when it was entered.
        field: the field to blame; empty where none is.
    """
    if head.is_logged:
        return
    head.is_logged = True
    if _LOGGER.isEnabledFor(logging.INFO):
        seconds = time.monotonic() - began
        values = _describe(head, ending, seconds) | ({"field": field} if field else {})
        _LOGGER.info("failed" if ending.code == INTERNAL else "refused", extra=values)


class AccessLog:
    """Writes a line for one call in some, when it is over: an observer, and a gate that is open to all.

    As a gate it has every call told its request id, also where that ends well.
    """

    def __init__(self, rate: float) -> None:
        """Writes the line of a call with this probability.

        By chance, and not by the request id: a caller who chooses that would choose whether there is a line.
        """
        self._rate = rate

    def admit(self, head: CallHead) -> None:
        """Has the caller told how its call is called in the log."""
        head.tell_request_id()

    def leave(self, head: CallHead) -> None:
        """Does nothing: the observer hears more of the end."""

    def observe(self, record: CallRecord, event: Event) -> None:
        """Writes the line; see `Observer`."""
        del event
        if record.state is not State.DONE or random.random() >= self._rate:  # noqa: S311 - a sample, no secret
            return
        values = _describe(record.head, record.ending or Ending(""), time.monotonic() - record.began)
        values |= {
            "request_messages": record.request_messages,
            "request_bytes": record.request_bytes,
            "response_messages": record.response_messages,
            "response_bytes": record.response_bytes,
            "sampled": self._rate,  # how many calls the line stands for
        }
        _LOGGER.info("call", extra=values)


def log_unknown_method(method: str) -> None:
    """Writes the line of a call whose method nobody serves."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info("refused", extra={"method": method[:_MAX_METHOD_CHARACTERS], "code": "UNIMPLEMENTED"})


def _describe(head: CallHead, ending: Ending, seconds: float) -> dict[str, Any]:
    """Returns what both kinds of lines say; what is not known is left out."""
    values = {
        "method": head.method,
        "code": ending.code,
        "reason": ending.reason,
        "peer": head.peer,
        "identity": head.identity,
        "seconds": round(seconds, _MICROSECONDS),
        "request_id": head.request_id,
    }
    return {name: value for name, value in values.items() if value != ""}
