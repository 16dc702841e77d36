"""What the log says of calls: a line for each that is refused or fails, and for a sample of all where that is wanted.

- A line says whose call it was, how it ended, and its request id, which its caller has been told. Nothing of a message
  is in it, nor anything of the metadata but that id, which is checked: see `heads`.
- A call that ends badly has one line, "refused" or "failed", at the level INFO, in either way of serving: when its end
  is decided, not when it is sent. A caller that cancels, goes or runs out of time is no failure of this server's, and
  has a line of the access log alone. What gRPC's core refuses by itself, as a message above the limit, has none.
- A bug has its traceback besides, at the level ERROR, with the same request id: see `statuses`.
- The lines of calls that end badly are limited in rate for each code; those of the access log are not, since they are
  sampled: see `process.log_queue`. None waits for whoever reads the log.
"""

import logging
import random
import time
from typing import Any

import grpc

from tensor_reshape.server.calls.heads import CallHead
from tensor_reshape.server.calls.heartbeats import METHOD as HEARTBEAT_METHOD
from tensor_reshape.server.calls.lifecycle import Ending, Event, State
from tensor_reshape.server.calls.observers import CallRecord
from tensor_reshape.server.calls.statuses import INTERNAL

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


class UnknownMethods(grpc.GenericRpcHandler):
    """The last that is asked for the handler of a method, when nobody has one."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        """Writes the line of a call that grpcio ends with UNIMPLEMENTED: it tells neither whose it is nor any id."""
        method = handler_call_details.method
        if method != HEARTBEAT_METHOD and _LOGGER.isEnabledFor(logging.INFO):
            values = {"method": method[:_MAX_METHOD_CHARACTERS], "code": grpc.StatusCode.UNIMPLEMENTED.name}
            _LOGGER.info("refused", extra=values)


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
