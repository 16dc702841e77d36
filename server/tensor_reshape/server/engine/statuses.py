"""What a call ends with when it does not end with a response.

A refusal is sent to the caller in full, but nothing of a bug: the text of an unexpected exception may hold secrets.
Every bad end has the request's id, which is in the log too.
"""

import logging
from typing import NamedTuple

import grpc

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.lifecycle import Ending
from tensor_reshape.wire.status import Status, encode_refusal

INTERNAL = grpc.StatusCode.INTERNAL.name
"""The code that a bug ends a call with."""

INTERNAL_ERROR = "internal error"
"""All that a caller is told of a bug: the rest is in the server's log."""

OK = Ending("OK")
"""A good end."""

_LOGGER = logging.getLogger(__name__)


class End(NamedTuple):
    """A bad end.

    Attributes:
        status: what the caller is told.
        ending: what observers are.
        field: the field to blame; empty where none is.
    """

    status: Status
    ending: Ending
    field: str = ""


class StatusError(Exception):
    """A call ends with a status of its protocol, which is none of the reasons of this service.

    Attributes:
        status: what the caller is told.
    """

    def __init__(self, status: Status) -> None:
        """Takes the status."""
        super().__init__(status.details)
        self.status = status


def choose_end(error: Exception, head: CallHead) -> End:
    """Returns how a call ends whose work raised `error`.

    A refusal says all; a bug's traceback is logged; where memory ran out, the call may be made again later.
    """
    if isinstance(error, StatusError):
        return complete_end(error.status, head)
    if isinstance(error, MemoryError):
        _LOGGER.warning("out of memory", extra=_name(head))
        error = LimitError.of(Reason.SERVER_BUSY, "the server is out of memory")
    if isinstance(error, ReshapeError):
        status, reason, field = encode_refusal(error), str(error.reason), error.field
    else:
        _LOGGER.error("bug", exc_info=error, extra=_name(head))
        status, reason, field = Status(grpc.StatusCode.INTERNAL, INTERNAL_ERROR, ()), str(Reason.INTERNAL_ERROR), ""
    return complete_end(status, head, reason, field)


def complete_end(status: Status, head: CallHead, reason: str = "", field: str = "") -> End:
    """Returns a bad end with what else the caller is told: the id of its request, and what gates have added."""
    head.tell_request_id()
    told = status._replace(trailing_metadata=(*status.trailing_metadata, *head.trailing))
    return End(told, Ending(status.code.name, reason), field)


STOPPING = Status(grpc.StatusCode.UNAVAILABLE, "the server stops", ())
"""What ends a call that would stay open as long as the server: no failure, and no line of the log."""


def find_good_status(head: CallHead | None) -> Status | None:
    """Returns what a call ends with when it ends well; None: no more than that it does."""
    return Status(grpc.StatusCode.OK, "", head.trailing) if head is not None and head.trailing else None


def refuse_empty_call() -> InvalidRequestError:
    """Returns the refusal of a unary call without a message."""
    return InvalidRequestError.of(Reason.MESSAGE_MALFORMED, "the call has no message")


def refuse_large_message() -> LimitError:
    """Returns the refusal of a message above the limit: gRPC's core has told the caller, in words of its own."""
    return LimitError.of(Reason.MESSAGE_TOO_LARGE, "a message of the call is larger than --max-message-bytes")


def _name(head: CallHead) -> dict[str, str]:
    """Returns what a line of the log names a call by."""
    return {"method": head.method, "request_id": head.request_id}
