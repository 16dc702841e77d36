"""Defines the exceptions of this project, and the permanent codes (reasons) that say why a request is rejected.

A rejected request raises the same exception class with the same reason, whether the client or the server detected the
error. Reasons are part of the API, so a reason is never renamed or removed, and its meaning never changes.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Self

# These constants are the names of gRPC status codes. The package `rules` does not import gRPC, so `wire.status`
# converts the names to codes.
INVALID_ARGUMENT = "INVALID_ARGUMENT"
NOT_FOUND = "NOT_FOUND"
UNAUTHENTICATED = "UNAUTHENTICATED"
PERMISSION_DENIED = "PERMISSION_DENIED"
RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
INTERNAL = "INTERNAL"

MAX_MESSAGE_CHARACTERS = 768
MAX_VALUE_CHARACTERS = 192
"""The largest number of characters of a value in an error.

A server sends an error in a few kilobytes of metadata. Local errors have the same limit, so that they equal those of a
server.
"""

_MAX_VALUES = 10
_SHOWN_ITEMS = 16
_SHOWN_BITS = 256


class Reason(StrEnum):
    """The reasons for which a request is rejected.

    Each row contains the status code, the rule and the retry behaviour of a reason. The value of a member is sent in
    `google.rpc.ErrorInfo.reason` and is equal to the name of the member.

    Attributes:
        code_name: the name of the gRPC status code.
        rule: the number of the broken rule. The docstring of `tensor_reshape.rules` lists the five rules. None means
            that the request breaks none of them.
        is_retryable: whether the same server may accept the same request a moment later.

    >>> Reason.NOT_DIVISIBLE.rule, Reason.NOT_DIVISIBLE.code_name, Reason.SERVER_BUSY.is_retryable
    (3, 'INVALID_ARGUMENT', True)
    """

    code_name: str
    rule: int | None
    is_retryable: bool

    # Every member of this enum is defined with a status code. The default is only for type checkers, which treat the
    # lookup `Reason(text)` as a call of this method.
    def __new__(cls, name: str, code_name: str = "", rule: int | None = None, is_retryable: bool = False) -> Self:  # noqa: FBT001, FBT002 - a column of the table
        """Creates a member of the enum from a row of the table."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.code_name, member.rule, member.is_retryable = code_name, rule, is_retryable
        return member

    # The next errors are about the operation and the data.
    DATA_TYPE_UNSUPPORTED = "DATA_TYPE_UNSUPPORTED", INVALID_ARGUMENT, 1
    SHAPE_DATA_TYPE_UNSUPPORTED = "SHAPE_DATA_TYPE_UNSUPPORTED", INVALID_ARGUMENT, 1
    SHAPE_RANK_INVALID = "SHAPE_RANK_INVALID", INVALID_ARGUMENT, 1
    SPECIAL_ZERO_MISSING = "SPECIAL_ZERO_MISSING", INVALID_ARGUMENT, 1
    RANK_UNSUPPORTED = "RANK_UNSUPPORTED", INVALID_ARGUMENT, 1
    DIM_OUT_OF_RANGE = "DIM_OUT_OF_RANGE", INVALID_ARGUMENT, 1
    # The next errors are about the requested shape.
    INVALID_TARGET_VALUE = "INVALID_TARGET_VALUE", INVALID_ARGUMENT, 2
    COPY_INDEX_OUT_OF_RANGE = "COPY_INDEX_OUT_OF_RANGE", INVALID_ARGUMENT, 2
    MULTIPLE_MINUS_ONE = "MULTIPLE_MINUS_ONE", INVALID_ARGUMENT, 2
    MINUS_ONE_WITH_ZERO_VOLUME = "MINUS_ONE_WITH_ZERO_VOLUME", INVALID_ARGUMENT, 3
    NOT_DIVISIBLE = "NOT_DIVISIBLE", INVALID_ARGUMENT, 3
    DIM_OVERFLOW = "DIM_OVERFLOW", INVALID_ARGUMENT, 3
    VOLUME_MISMATCH = "VOLUME_MISMATCH", INVALID_ARGUMENT, 4
    EXPECTED_SHAPE_MISMATCH = "EXPECTED_SHAPE_MISMATCH", INVALID_ARGUMENT, 5
    # The next errors are about the layout and the bytes of the data.
    STRIDES_UNSUPPORTED = "STRIDES_UNSUPPORTED", INVALID_ARGUMENT
    STRIDES_RANK_MISMATCH = "STRIDES_RANK_MISMATCH", INVALID_ARGUMENT
    STRIDE_NEGATIVE = "STRIDE_NEGATIVE", INVALID_ARGUMENT
    STRIDES_OVERLAP = "STRIDES_OVERLAP", INVALID_ARGUMENT
    DATA_SIZE_MISMATCH = "DATA_SIZE_MISMATCH", INVALID_ARGUMENT
    # The next errors are about the message.
    MESSAGE_MALFORMED = "MESSAGE_MALFORMED", INVALID_ARGUMENT
    FIELD_MISSING = "FIELD_MISSING", INVALID_ARGUMENT
    OPERATION_UNSPECIFIED = "OPERATION_UNSPECIFIED", INVALID_ARGUMENT
    DIM_UNKNOWN = "DIM_UNKNOWN", INVALID_ARGUMENT
    PARTIAL_DIM_INVALID = "PARTIAL_DIM_INVALID", INVALID_ARGUMENT
    # The next errors are about partially known dims. Rule 1 also covers partially known dims.
    INTERVAL_EMPTY = "INTERVAL_EMPTY", INVALID_ARGUMENT, 1
    EXPRESSION_INVALID = "EXPRESSION_INVALID", INVALID_ARGUMENT, 1
    DIM_SYNTAX_INVALID = "DIM_SYNTAX_INVALID", INVALID_ARGUMENT
    SYMBOL_CONFLICT = "SYMBOL_CONFLICT", INVALID_ARGUMENT, 1
    # The next errors are about batches.
    BATCH_REFERENCE_INVALID = "BATCH_REFERENCE_INVALID", INVALID_ARGUMENT
    BATCH_DEPENDENCY_FAILED = "BATCH_DEPENDENCY_FAILED", INVALID_ARGUMENT
    INTERNAL_ERROR = "INTERNAL_ERROR", INTERNAL
    # The next errors belong to the Open Inference Protocol.
    MODEL_UNKNOWN = "MODEL_UNKNOWN", NOT_FOUND
    INPUT_INVALID = "INPUT_INVALID", INVALID_ARGUMENT
    OUTPUT_INVALID = "OUTPUT_INVALID", INVALID_ARGUMENT
    PARAMETER_INVALID = "PARAMETER_INVALID", INVALID_ARGUMENT
    # The next errors are about the order of messages in a stream.
    CHUNK_UNEXPECTED = "CHUNK_UNEXPECTED", INVALID_ARGUMENT
    CHUNK_OUT_OF_ORDER = "CHUNK_OUT_OF_ORDER", INVALID_ARGUMENT
    # The next errors are about the limits of a server. Some limits depend on other calls, so a retry can succeed when
    # these calls have ended. A stalled call would stall again, because its client or the network is too slow.
    RANK_LIMIT_EXCEEDED = "RANK_LIMIT_EXCEEDED", RESOURCE_EXHAUSTED, 1
    OUTPUT_TOO_LARGE = "OUTPUT_TOO_LARGE", RESOURCE_EXHAUSTED
    HEADER_TOO_LARGE = "HEADER_TOO_LARGE", RESOURCE_EXHAUSTED
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE", RESOURCE_EXHAUSTED
    TENSOR_TOO_LARGE = "TENSOR_TOO_LARGE", RESOURCE_EXHAUSTED
    BATCH_TOO_LARGE = "BATCH_TOO_LARGE", RESOURCE_EXHAUSTED
    SERVER_BUSY = "SERVER_BUSY", RESOURCE_EXHAUSTED, None, True
    STALLED = "STALLED", RESOURCE_EXHAUSTED
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED", RESOURCE_EXHAUSTED, None, True
    # The next errors are about authentication and permissions. Authentication errors do not reveal what is wrong with a
    # token, or which names exist.
    UNAUTHENTICATED = "UNAUTHENTICATED", UNAUTHENTICATED
    PERMISSION_DENIED = "PERMISSION_DENIED", PERMISSION_DENIED
    # VIEW_IMPOSSIBLE is raised only in the caller's process, never by a server.
    VIEW_IMPOSSIBLE = "VIEW_IMPOSSIBLE", INVALID_ARGUMENT


class TensorReshapeError(Exception):
    """The base class of the exceptions that this project raises deliberately.

    Attributes:
        request_id: the id of the failed call. The value is None if no call was made. It is also None if you passed no
            id and the server returned none, for example after a timeout.

    >>> try:
    ...     client.infer_shape((2, 3), (4,), special_zero=False, request_id="job-7/3")
    ... except TensorReshapeError as error:
    ...     print(error.request_id)
    job-7/3
    """

    request_id: str | None = None


class ReshapeError(TensorReshapeError):
    """A rejection of a request, by this process or by the server.

    Attributes:
        code_name: the name of the gRPC status code of this class.
        message: a sentence that describes the error to people.
        reason: a `Reason`, or a text if a newer server returns a reason that this version does not know.
        field: the path of the field that is wrong in the request, for example `shape[1]`. The text is empty if no field
            is wrong.
        metadata: a mapping with the index and the wrong values, as texts. Its keys never change. The page "Errors" of
            the documentation lists the keys of each reason.
        advice: a text that says what Python code can do about the error, or an empty text. `str(error)` is the message,
            followed by this advice.

    >>> try:
    ...     client.reshape(np.zeros(6), [4, -1], special_zero=False)
    ... except ReshapeError as error:
    ...     print(error.reason, error.field, error.metadata["dividend"], error.metadata["divisor"])
    NOT_DIVISIBLE shape[1] 6 4
    """

    code_name: ClassVar[str] = INTERNAL
    reason: Reason | str
    metadata: dict[str, str]
    advice: str = ""
    # The SDK sets this function if it knows the query. The package `rules` does not import the package `drawings`.
    draw: "Callable[[ReshapeError], str] | None" = None

    def __init__(
        self, message: str, *, reason: str, field: str = "", metadata: Mapping[str, str] | None = None
    ) -> None:
        """Stores the arguments as attributes."""
        super().__init__(message)
        self.message = message
        self.reason = Reason(reason) if reason in Reason.__members__ else reason
        self.field = field
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        """Returns the message and the advice."""
        return self.message + self.advice

    def to_svg(self) -> str | None:
        """Returns a drawing (SVG) of the rejected query, in which the item that is wrong is marked.

        Notebooks call this method. The drawing suggests values that would be accepted, even if the query was made
        without `explain`. To find these values, this process applies the rules to the query again. You can save the
        returned text as a file.

        Returns:
            None if there is nothing to draw, because the query breaks no rule, cannot be read or has too many items.
            For example, the result is None if the server is busy.

        >>> try:
        ...     client.infer_shape([2, 3, 4], [5, -1], special_zero=False)
        ... except ReshapeError as error:
        ...     print("accepted: other items whose product divides 24" in error.to_svg())
        True
        """
        return None if self.draw is None else self.draw(self)

    _repr_svg_ = to_svg

    def __reduce__(self) -> tuple[object, ...]:
        """Lets pickle and copy create this exception, although its arguments are keyword arguments."""
        return _make, (type(self), self.message), vars(self)

    @classmethod
    def of(cls, reason: Reason, message: str, /, field: str = "", **values: object) -> Self:
        """Creates an error with `values` as its metadata. The message and each value are cut at their length limits."""
        metadata = {key: clip_text(format_value(value), MAX_VALUE_CHARACTERS) for key, value in values.items()}
        return cls(clip_text(message, MAX_MESSAGE_CHARACTERS), reason=reason, field=field, metadata=metadata)


class InvalidRequestError(ReshapeError, ValueError):
    """The request breaks a rule. Every server rejects such a request in the same way.

    >>> try:
    ...     client.reshape(np.zeros(6), [-1, -1], special_zero=False)
    ... except ValueError as error:
    ...     print(error)
    shape[1] is -1: only one item may be -1, and shape[0] is -1 as well; requested shape [-1, -1], input shape [6]
    """

    code_name = INVALID_ARGUMENT


class NotFoundError(ReshapeError):
    """The server does not have the requested model."""

    code_name = NOT_FOUND


class UnauthenticatedError(ReshapeError):
    """The call has no valid token or certificate.

    >>> try:
    ...     raise UnauthenticatedError.of(Reason.UNAUTHENTICATED, "the call has no token")
    ... except ReshapeError as error:
    ...     print(error.reason)
    UNAUTHENTICATED
    """

    code_name = UNAUTHENTICATED


class PermissionDeniedError(ReshapeError):
    """The caller is authenticated, but may not call this method.

    >>> try:
    ...     raise PermissionDeniedError.of(Reason.PERMISSION_DENIED, "not for this caller")
    ... except ReshapeError as error:
    ...     print(error.reason)
    PERMISSION_DENIED
    """

    code_name = PERMISSION_DENIED


class LimitError(ReshapeError):
    """The request exceeds a limit of the server.

    Attributes:
        retry_seconds: the delay that the server suggests before a retry, in seconds. None means that the client should
            not retry.

    >>> try:
    ...     client.reshape(np.zeros(20 * 2**20, np.uint8), [-1], special_zero=False, transfer="inline")
    ... except LimitError as error:
    ...     print(error.reason, error.retry_seconds)
    MESSAGE_TOO_LARGE None
    """

    code_name = RESOURCE_EXHAUSTED
    retry_seconds: float | None = None


def format_value(value: object) -> str:
    """Returns a short text for a value.

    A long sequence is cut, and a huge integer is shown as a power of two.
    """
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"{'-' if value < 0 else ''}2^{value.bit_length() - 1} or beyond"
    if isinstance(value, str) or not isinstance(value, Sequence):
        return str(value)
    items = [format_value(item) for item in value[:_SHOWN_ITEMS]]
    if len(value) > _SHOWN_ITEMS:
        items.append(f"... {len(value)} items")
    return f"[{', '.join(items)}]"


def clip_text(text: str, limit: int) -> str:
    """Returns `text`, cut to at most `limit` ASCII characters.

    Characters outside of ASCII would take three times as many bytes in metadata, so they are replaced by escapes.
    """
    plain = text.encode("ascii", "backslashreplace").decode("ascii")
    return plain if len(plain) <= limit else f"{plain[: limit - 3]}..."


def escape_unprintable(text: str) -> str:
    """Returns untrusted text with unprintable characters replaced by escapes.

    Terminals interpret control characters, and XML cannot contain them.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def clip_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Returns at most ten values of an error. Each value is cut at its length limit."""
    return {key: clip_text(value, MAX_VALUE_CHARACTERS) for key, value in list(metadata.items())[:_MAX_VALUES]}


def _make(kind: type[ReshapeError], message: str) -> ReshapeError:
    # pickle and copy call this function first, and then set the attributes of the error
    return kind.__new__(kind, message)
