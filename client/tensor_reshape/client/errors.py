"""What the SDK raises when there is no answer."""

from typing import TYPE_CHECKING

from tensor_reshape.rules.errors import TensorReshapeError

if TYPE_CHECKING:  # to name an exception, nobody needs gRPC
    from grpc import StatusCode


class ServiceError(TensorReshapeError):
    """The call ended without an answer or a refusal.

    Attributes:
        code: the status code that it ended with.

    >>> try:
    ...     client.check_health("nobody")
    ... except ServiceError as error:
    ...     print(error)
    NOT_FOUND: unknown service
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
    """No server could be reached, also after the retries.

    >>> try:
    ...     Client("localhost:1").wait_until_ready(timeout=0.1)
    ... except ConnectionError as error:
    ...     print(type(error).__name__, error.code.name)
    UnavailableError UNAVAILABLE
    """


class CallTimeoutError(ServiceError, TimeoutError):
    """The deadline passed.

    >>> from tensor_reshape.testing import FakeClient
    >>> client = FakeClient()
    >>> client.fail_next(CallTimeoutError("Deadline Exceeded", grpc.StatusCode.DEADLINE_EXCEEDED))
    >>> try:
    ...     client.check_health()
    ... except TimeoutError as error:
    ...     print(error)
    DEADLINE_EXCEEDED: Deadline Exceeded
    """


class InternalServerError(ServiceError):
    """A bug of the server; its log has the traceback.

    >>> from tensor_reshape.testing import FakeClient
    >>> client = FakeClient()
    >>> client.fail_next(InternalServerError("internal error", grpc.StatusCode.INTERNAL))
    >>> try:
    ...     client.check_health()
    ... except InternalServerError as error:
    ...     print(error)
    INTERNAL: internal error
    """


class ResponseError(TensorReshapeError):
    """The server's answer is not one of this contract, or not the one that the rules give.

    >>> try:
    ...     client.reshape(np.zeros(0), [2**62, 4, 0], special_zero=False)
    ... except ResponseError as error:
    ...     print(error)
    the output has the shape [4611686018427387904, 4, 0], which numpy cannot hold
    """
