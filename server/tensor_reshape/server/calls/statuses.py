"""What a call ends with when it does not end with a response.

A caller is told all of a refusal and nothing of a bug: text of an unexpected exception may hold what is not for it.
"""

import logging
from typing import NamedTuple, NoReturn

import grpc

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.server.calls.heads import CallHead
from tensor_reshape.server.calls.lifecycle import Ending
from tensor_reshape.wire.status import Status, encode_refusal

INTERNAL_ERROR = "internal error"
"""All that a caller is told of a bug: the rest is in the server's log."""

OK = Ending("OK")
"""A good end."""

_LOGGER = logging.getLogger(__name__)


class End(NamedTuple):
    """A bad end: what the caller is told, and what observers are."""

    status: Status
    ending: Ending


def choose_end(error: Exception, head: CallHead) -> End:
    """Returns how a call ends whose work raised `error`.

    A refusal says all; a bug's traceback is logged; where memory ran out, the call may be made again later.
    """
    method = head.method
    if isinstance(error, MemoryError):
        _LOGGER.warning("out of memory", extra={"method": method})
        error = LimitError.of(Reason.SERVER_BUSY, "the server is out of memory")
    if isinstance(error, ReshapeError):
        _LOGGER.debug("refused", extra={"method": method, "reason": str(error.reason), "field": error.field})
        status, reason = encode_refusal(error), str(error.reason)
    else:
        _LOGGER.error("bug", exc_info=error, extra={"method": method})
        status, reason = Status(grpc.StatusCode.INTERNAL, INTERNAL_ERROR, ()), str(Reason.INTERNAL_ERROR)
    status = status._replace(trailing_metadata=(*status.trailing_metadata, *head.trailing))
    return End(status, Ending(status.code.name, reason))


def find_good_status(head: CallHead | None) -> Status | None:
    """Returns what a call ends with when it ends well; None: no more than that it does."""
    return Status(grpc.StatusCode.OK, "", head.trailing) if head is not None and head.trailing else None


def end_call(context: grpc.ServicerContext, status: Status) -> NoReturn:
    """Ends a call that grpcio serves by itself, by the exception with which `abort` leaves the handler."""
    context.set_trailing_metadata(status.trailing_metadata)
    context.abort(status.code, status.details)


def refuse_empty_call() -> InvalidRequestError:
    """Returns the refusal of a unary call without a message."""
    return InvalidRequestError.of(Reason.MESSAGE_MALFORMED, "the call has no message")
