"""The errors of calls that end without a valid response."""

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tensor_reshape.rules.errors import Reason, ReshapeError, TensorReshapeError
from tensor_reshape.rules.limits import MAX_RANK
from tensor_reshape.rules.questions import AnyQuestion

if TYPE_CHECKING:  # this import is only for type checkers, because importing an exception must not import gRPC
    from grpc import StatusCode


class ServiceError(TensorReshapeError):
    """The call failed, but no rule or limit rejected it.

    Attributes:
        code: the gRPC status code.

    >>> try:
    ...     client.check_health("nobody")
    ... except ServiceError as error:
    ...     print(error)
    NOT_FOUND: unknown service
    """

    def __init__(self, message: str, code: "StatusCode") -> None:
        """Stores the message and the status code."""
        super().__init__(message, code)  # when the error is unpickled, these two arguments are passed to `__init__`
        self.message = message
        self.code = code

    def __str__(self) -> str:
        """Returns the status code and the message in one line."""
        return f"{self.code.name}: {self.message}"


class UnavailableError(ServiceError, ConnectionError):
    """No server could be reached, even after retries.

    >>> try:
    ...     Client("localhost:1").wait_until_ready(timeout=0.1)
    ... except ConnectionError as error:
    ...     print(type(error).__name__, error.code.name)
    UnavailableError UNAVAILABLE
    """


class CallTimeoutError(ServiceError, TimeoutError):
    """The timeout of the call has passed.

    Attributes:
        seconds: the timeout of the call in seconds, from the option `timeout` of the call or of the client. None means
            that the call ended earlier, for example because of a timeout of a proxy.
        fault: the reason why no server was connected. The text is empty if a server was connected.

    >>> try:
    ...     raise CallTimeoutError("the call did not end within 5 seconds", grpc.StatusCode.DEADLINE_EXCEEDED)
    ... except TimeoutError as error:
    ...     print(error)
    DEADLINE_EXCEEDED: the call did not end within 5 seconds
    """

    seconds: float | None = None
    fault: str = ""


class InternalServerError(ServiceError):
    """The call failed because of a bug in the server. The server's log contains the traceback.

    >>> try:
    ...     raise InternalServerError("internal error", grpc.StatusCode.INTERNAL)
    ... except ServiceError as error:
    ...     print(error)
    INTERNAL: internal error
    """


class ResponseError(TensorReshapeError):
    """The server's response does not follow the API or the rules, or numpy cannot represent it.

    >>> try:
    ...     client.reshape(np.zeros(0), [2**62, 4, 0], special_zero=False)
    ... except ResponseError as error:
    ...     print(error)
    the output has the shape [4611686018427387904, 4, 0], which numpy cannot hold
    """


_Error = TypeVar("_Error", bound=TensorReshapeError)


def keep_question(error: _Error, question: AnyQuestion | None) -> _Error:
    """Returns `error` with the query, which the method `to_svg` of the error draws.

    Only an error of one of the five reshape rules keeps the query. A requested shape that is longer than any server
    allows is not kept, because it may have millions of items.
    """
    if question is None or len(question.target or ()) > MAX_RANK or not isinstance(error, ReshapeError):
        return error
    if isinstance(error.reason, Reason) and error.reason.rule is not None:
        error.draw = partial(_draw, question)
    return error


def _draw(question: AnyQuestion, error: ReshapeError) -> str:
    from tensor_reshape.drawings.svg import draw_explained  # noqa: PLC0415 - few programs draw

    return draw_explained(question, error)
