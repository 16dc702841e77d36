"""What the SDK raises when there is no answer."""

from typing import TYPE_CHECKING

from tensor_reshape.rules.errors import TensorReshapeError

if TYPE_CHECKING:  # to name an exception, nobody needs gRPC
    from grpc import StatusCode


class ServiceError(TensorReshapeError):
    """The call ended without an answer or a refusal.

    Attributes:
        code: the status code that it ended with.
    """

    def __init__(self, message: str, code: "StatusCode") -> None:
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
