"""What a call ends with when it does not end with a response."""

import logging
from typing import NoReturn

import grpc

from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.wire.status import Status, encode_refusal

INTERNAL_ERROR = "internal error"
"""All that a caller is told of a bug: the rest is in the server's log."""

_LOGGER = logging.getLogger(__name__)


def choose_status(error: Exception, method: str) -> Status:
    """Returns the status of a call whose work raised `error`.

    A refusal says all; a bug's traceback is logged; where memory ran out, the call may be made again later.
    """
    if isinstance(error, MemoryError):
        _LOGGER.warning("out of memory", extra={"method": method})
        error = LimitError.of(Reason.SERVER_BUSY, "the server is out of memory")
    if isinstance(error, ReshapeError):
        _LOGGER.debug("refused", extra={"method": method, "reason": str(error.reason), "field": error.field})
        return encode_refusal(error)
    _LOGGER.error("bug", exc_info=error, extra={"method": method})
    return Status(grpc.StatusCode.INTERNAL, INTERNAL_ERROR, ())


def end_call(context: grpc.ServicerContext, status: Status) -> NoReturn:
    """Ends a call that grpcio serves by itself."""
    context.set_trailing_metadata(status.trailing_metadata)
    context.abort(status.code, status.details)


class BugLog:
    """Logs the first bug of a call whose parts are answered by themselves: the others would say the same again."""

    def __init__(self, method: str) -> None:
        """Logs nothing yet."""
        self._method = method
        self._is_told = False

    def report(self, bug: Exception) -> None:
        """Takes a bug."""
        if not self._is_told:
            self._is_told = True
            _LOGGER.error("bug", exc_info=bug, extra={"method": self._method})
