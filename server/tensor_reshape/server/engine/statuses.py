"""The status of a call that fails.

The client receives a rejection in full, but no detail of a bug, because the text of an unexpected exception may contain
secrets. Every failed call returns its request id, which is also in the log.
"""

import logging
from typing import NamedTuple

import grpc

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.lifecycle import Ending
from tensor_reshape.wire.status import Status, encode_rejection

INTERNAL = grpc.StatusCode.INTERNAL.name
"""The status code of a bug."""

INTERNAL_ERROR = "internal error"
"""The status message of every bug. The details are in the server's log."""

OK = Ending("OK")
"""Success."""

_LOGGER = logging.getLogger(__name__)


class End(NamedTuple):
    """The end of a failed call.

    Attributes:
        status: the status for the client.
        ending: the result for observers.
        field: the field at fault; empty if there is none.
    """

    status: Status
    ending: Ending
    field: str = ""


class StatusError(Exception):
    """Ends a call with a status that has no reason of this service, for example of the health protocol.

    Attributes:
        status: the status for the client.
    """

    def __init__(self, status: Status) -> None:
        """Keeps the status."""
        super().__init__(status.details)
        self.status = status


def choose_end(error: Exception, head: CallHead) -> End:
    """Returns the end of a call whose work raised `error`.

    A `ReshapeError` is returned in full. A `MemoryError` becomes SERVER_BUSY. Any other exception is a bug, which is
    logged with its traceback.
    """
    if isinstance(error, StatusError):
        return complete_end(error.status, head)
    if isinstance(error, MemoryError):
        _LOGGER.warning("out of memory", extra=_name(head))
        error = LimitError.of(Reason.SERVER_BUSY, "the server is out of memory")
    if isinstance(error, ReshapeError):
        status, reason, field = encode_rejection(error), str(error.reason), error.field
    else:
        _LOGGER.error("bug", exc_info=error, extra=_name(head))
        status, reason, field = Status(grpc.StatusCode.INTERNAL, INTERNAL_ERROR, ()), str(Reason.INTERNAL_ERROR), ""
    return complete_end(status, head, reason, field)


def complete_end(status: Status, head: CallHead, reason: str = "", field: str = "") -> End:
    """Returns the end of a failed call, with the request id and the trailing metadata of the gates."""
    head.tell_request_id()
    told = status._replace(trailing_metadata=(*status.trailing_metadata, *head.trailing))
    return End(told, Ending(status.code.name, reason), field)


STOPPING = Status(grpc.StatusCode.UNAVAILABLE, "the server stops", ())
"""The status of a call that stays open until the server stops, such as a health watch. It is not logged."""


def find_good_status(head: CallHead | None) -> Status | None:
    """Returns the status of a successful call if it has trailing metadata, otherwise None."""
    return Status(grpc.StatusCode.OK, "", head.trailing) if head is not None and head.trailing else None


def reject_empty_call() -> InvalidRequestError:
    """Returns the error of a unary call without a message."""
    return InvalidRequestError.of(Reason.MESSAGE_MALFORMED, "the call has no message")


def reject_large_message() -> LimitError:
    """Returns the error of a message above the limit, for the log. gRPC's core has already sent its own error."""
    return LimitError.of(Reason.MESSAGE_TOO_LARGE, "a message of the call is larger than --max-message-bytes")


def _name(head: CallHead) -> dict[str, str]:
    """Returns the fields that identify a call in the log."""
    return {"method": head.method, "request_id": head.request_id}
