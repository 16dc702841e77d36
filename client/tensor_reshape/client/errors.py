"""What the SDK raises when there is no answer, and how a failed call becomes an exception."""

from collections.abc import Collection

from grpc import StatusCode

from tensor_reshape.rules.errors import LimitError, Reason, TensorReshapeError
from tensor_reshape.wire.request_ids import find_request_id
from tensor_reshape.wire.status import decode_refusal


class ServiceError(TensorReshapeError):
    """The call ended without an answer or a refusal.

    Attributes:
        code: the status code that it ended with.
    """

    def __init__(self, message: str, code: StatusCode) -> None:
        """Keeps the status."""
        super().__init__(message, code)  # both, which pickling calls it with again
        self.message = message
        self.code = code

    def __str__(self) -> str:
        """The status in one line."""
        return f"{self.code.name}: {self.message}"


class UnavailableError(ServiceError, ConnectionError):
    """No server could be reached, also after the retries."""


class CallTimeoutError(ServiceError, TimeoutError):
    """The deadline passed."""


class InternalServerError(ServiceError):
    """A bug of the server; its log has the traceback."""


class ResponseError(TensorReshapeError):
    """The server's answer is not one of this contract, or not the one that the rules give."""


_KINDS: dict[StatusCode, type[ServiceError]] = {
    StatusCode.UNAVAILABLE: UnavailableError,
    StatusCode.DEADLINE_EXCEEDED: CallTimeoutError,
    StatusCode.INTERNAL: InternalServerError,
}


def build_error(
    code: StatusCode, details: str | None, trailing_metadata: Collection[tuple[str, str | bytes]]
) -> TensorReshapeError:
    """Returns the exception for a call that ended with this status."""
    error = _choose_error(code, details or "", trailing_metadata)
    error.request_id = find_request_id(trailing_metadata)
    return error


def _choose_error(
    code: StatusCode, text: str, trailing_metadata: Collection[tuple[str, str | bytes]]
) -> TensorReshapeError:
    # A refusal first: its codes are also those of a transport or a proxy that knows nothing of this contract.
    refusal = decode_refusal(code, trailing_metadata)
    if refusal is not None:
        return refusal
    if code is StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
        # The transport itself refuses such a message, before the server could say which of its limits it is above.
        return LimitError.of(Reason.MESSAGE_TOO_LARGE, text, "data")
    return _KINDS.get(code, ServiceError)(text, code)
