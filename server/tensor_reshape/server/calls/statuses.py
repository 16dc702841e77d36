"""Builds the statuses with which calls end, mainly the statuses of failed calls.

The client receives all details of a rejection. The client receives no detail of a bug, because the text of an
unexpected exception may contain secrets.
"""

import logging
from typing import NamedTuple

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.results import CallResult
from tensor_reshape.wire.status import Status, encode_rejection

INTERNAL = "INTERNAL"
"""The name of the status code with which a bug ends a call."""

INTERNAL_ERROR = "internal error"
"""The status message of every bug. The details are in the server's log."""


_LOGGER = logging.getLogger(__name__)


class Failure(NamedTuple):
    """The status of a failed call, and the facts about the failure for observers and the log.

    Attributes:
        status: the status for the client.
        result: the result for observers.
        field: the name of the field at fault. The name is empty if the error concerns no field.
        detail: the error message for the log if the server rejected the call with SERVER_BUSY or QUOTA_EXCEEDED. For
            other errors, `detail` is empty.
    """

    status: Status
    result: CallResult
    field: str = ""
    detail: str = ""


class StatusError(Exception):
    """Ends a call with a status that another protocol defines, for example the health protocol or HTTP.

    Attributes:
        status: the status for the client.
        result: the result for observers, usually with an empty `reason`.
    """

    def __init__(self, status: Status, reason: str = "") -> None:
        """Makes an error that ends the call with `status`."""
        super().__init__(status.details)
        self.status, self.result = status, CallResult(status.code, reason)


def build_failure(error: Exception, info: CallInfo) -> Failure:
    """Returns the failure with which a call ends because of `error`.

    Its status includes the request id and the trailing metadata of the gates.

    The status contains all details of a `ReshapeError`. A `MemoryError` becomes SERVER_BUSY. Any other exception is a
    bug, which is logged with its traceback.
    """
    field = detail = ""
    if isinstance(error, MemoryError):
        _LOGGER.warning("out of memory", extra=_name(info))
        error = LimitError.of(Reason.SERVER_BUSY, "the server is out of memory")
    if isinstance(error, StatusError):
        status, reason = error.status, error.result.reason
    elif isinstance(error, ReshapeError):
        status, reason, field = encode_rejection(error), str(error.reason), error.field
        # The messages of other errors contain values of the request, which must not be logged.
        detail = error.message if isinstance(error.reason, Reason) and error.reason.is_retryable else ""
    else:
        _LOGGER.error("bug", exc_info=error, extra=_name(info))
        status, reason = Status(INTERNAL, INTERNAL_ERROR, ()), str(Reason.INTERNAL_ERROR)
    info.return_request_id()
    complete = status._replace(trailing_metadata=(*status.trailing_metadata, *info.trailing))
    return Failure(complete, CallResult(status.code, reason), field, detail)


STOPPING = Status("UNAVAILABLE", "the server stops", ())
"""The status of a call that stays open until the server stops, such as a health watch. This status is not logged."""


def find_good_status(info: CallInfo | None) -> Status | None:
    """Returns the status OK with the trailing metadata of the call.

    Returns None if the call has no trailing metadata.
    """
    return Status("OK", "", info.trailing) if info is not None and info.trailing else None


def reject_empty_call() -> InvalidRequestError:
    """Returns the error of a unary call whose client sent no message."""
    return InvalidRequestError.of(Reason.MESSAGE_MALFORMED, "the call has no message")


def reject_large_message() -> LimitError:
    """Returns the error that the server records if a message is above the size limit.

    The client gets an error of gRPC's core instead.
    """
    return LimitError.of(Reason.MESSAGE_TOO_LARGE, "a message of the call is larger than --max-message-bytes")


def _name(info: CallInfo) -> dict[str, str]:
    """Returns the fields that identify a call in the log."""
    return {"method": info.method, "request_id": info.request_id}
