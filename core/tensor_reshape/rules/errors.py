"""The exception tree, and the permanent reasons of a refusal.

A refusal is the same class with the same reason whether the caller's own process found it or the server did. Reasons
are part of the contract: one is never renamed, removed, or given another meaning.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Self

# The status codes of refusals, by their names in gRPC: rules know no transport, and `wire.status` finds the codes.
INVALID_ARGUMENT = "INVALID_ARGUMENT"
NOT_FOUND = "NOT_FOUND"
UNAUTHENTICATED = "UNAUTHENTICATED"
PERMISSION_DENIED = "PERMISSION_DENIED"
RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
INTERNAL = "INTERNAL"

MAX_MESSAGE_CHARACTERS = 768
MAX_VALUE_CHARACTERS = 192
"""A refusal says the same here and from a server, whose answer must fit into a few kilobytes of metadata."""

_MAX_VALUES = 10
_SHOWN_ITEMS = 16
_SHOWN_BITS = 256


class Reason(StrEnum):
    """Why a request is refused: one row a reason, and the only place that says what follows from it.

    The value, which is the name, is what travels in `google.rpc.ErrorInfo.reason`.

    Attributes:
        code_name: of the gRPC status code that a call refused for this reason ends with.
        rule: the number of the broken rule, as `tensor_reshape.rules` counts them; None: it is none of the five.
        is_retryable: whether the same request may be accepted by the same server a moment later.

    >>> Reason.NOT_DIVISIBLE.rule, Reason.NOT_DIVISIBLE.code_name, Reason.SERVER_BUSY.is_retryable
    (3, 'INVALID_ARGUMENT', True)
    """

    code_name: str
    rule: int | None
    is_retryable: bool

    # Every row has a code: the default is for type checkers, which take the look-up `Reason(text)` for a call of this.
    def __new__(cls, name: str, code_name: str = "", rule: int | None = None, is_retryable: bool = False) -> Self:  # noqa: FBT001, FBT002 - a column
        """Makes a member of a row."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.code_name, member.rule, member.is_retryable = code_name, rule, is_retryable
        return member

    # What is asked of what.
    DATA_TYPE_UNSUPPORTED = "DATA_TYPE_UNSUPPORTED", INVALID_ARGUMENT, 1
    SHAPE_DATA_TYPE_UNSUPPORTED = "SHAPE_DATA_TYPE_UNSUPPORTED", INVALID_ARGUMENT, 1
    SHAPE_RANK_INVALID = "SHAPE_RANK_INVALID", INVALID_ARGUMENT, 1
    SPECIAL_ZERO_MISSING = "SPECIAL_ZERO_MISSING", INVALID_ARGUMENT, 1
    RANK_UNSUPPORTED = "RANK_UNSUPPORTED", INVALID_ARGUMENT, 1
    DIM_OUT_OF_RANGE = "DIM_OUT_OF_RANGE", INVALID_ARGUMENT, 1
    # The target shape.
    INVALID_TARGET_VALUE = "INVALID_TARGET_VALUE", INVALID_ARGUMENT, 2
    COPY_INDEX_OUT_OF_RANGE = "COPY_INDEX_OUT_OF_RANGE", INVALID_ARGUMENT, 2
    MULTIPLE_MINUS_ONE = "MULTIPLE_MINUS_ONE", INVALID_ARGUMENT, 2
    MINUS_ONE_WITH_ZERO_VOLUME = "MINUS_ONE_WITH_ZERO_VOLUME", INVALID_ARGUMENT, 3
    NOT_DIVISIBLE = "NOT_DIVISIBLE", INVALID_ARGUMENT, 3
    DIM_OVERFLOW = "DIM_OVERFLOW", INVALID_ARGUMENT, 3
    VOLUME_MISMATCH = "VOLUME_MISMATCH", INVALID_ARGUMENT, 4
    EXPECTED_SHAPE_MISMATCH = "EXPECTED_SHAPE_MISMATCH", INVALID_ARGUMENT, 5
    # The layout of the data, and its bytes.
    STRIDES_UNSUPPORTED = "STRIDES_UNSUPPORTED", INVALID_ARGUMENT
    STRIDES_RANK_MISMATCH = "STRIDES_RANK_MISMATCH", INVALID_ARGUMENT
    STRIDE_NEGATIVE = "STRIDE_NEGATIVE", INVALID_ARGUMENT
    STRIDES_OVERLAP = "STRIDES_OVERLAP", INVALID_ARGUMENT
    DATA_SIZE_MISMATCH = "DATA_SIZE_MISMATCH", INVALID_ARGUMENT
    # The message.
    MESSAGE_MALFORMED = "MESSAGE_MALFORMED", INVALID_ARGUMENT
    FIELD_MISSING = "FIELD_MISSING", INVALID_ARGUMENT
    OPERATION_UNSPECIFIED = "OPERATION_UNSPECIFIED", INVALID_ARGUMENT
    DIM_UNKNOWN = "DIM_UNKNOWN", INVALID_ARGUMENT
    # Dims that are only partly known: rule 1 looks at them too.
    INTERVAL_EMPTY = "INTERVAL_EMPTY", INVALID_ARGUMENT, 1
    EXPRESSION_INVALID = "EXPRESSION_INVALID", INVALID_ARGUMENT, 1
    DIM_SYNTAX_INVALID = "DIM_SYNTAX_INVALID", INVALID_ARGUMENT
    SYMBOL_CONFLICT = "SYMBOL_CONFLICT", INVALID_ARGUMENT, 1
    # A batch of questions.
    BATCH_REFERENCE_INVALID = "BATCH_REFERENCE_INVALID", INVALID_ARGUMENT
    BATCH_DEPENDENCY_FAILED = "BATCH_DEPENDENCY_FAILED", INVALID_ARGUMENT
    INTERNAL_ERROR = "INTERNAL_ERROR", INTERNAL
    # A request of the Open Inference Protocol.
    MODEL_UNKNOWN = "MODEL_UNKNOWN", NOT_FOUND
    INPUT_INVALID = "INPUT_INVALID", INVALID_ARGUMENT
    OUTPUT_INVALID = "OUTPUT_INVALID", INVALID_ARGUMENT
    PARAMETER_INVALID = "PARAMETER_INVALID", INVALID_ARGUMENT
    # Its shared memory.
    SHARED_MEMORY_DISABLED = "SHARED_MEMORY_DISABLED", INVALID_ARGUMENT
    REGION_INVALID = "REGION_INVALID", INVALID_ARGUMENT
    REGION_UNKNOWN = "REGION_UNKNOWN", NOT_FOUND
    REGION_OUT_OF_RANGE = "REGION_OUT_OF_RANGE", INVALID_ARGUMENT
    REGION_FILE_INVALID = "REGION_FILE_INVALID", INVALID_ARGUMENT
    REGION_LIMIT_EXCEEDED = "REGION_LIMIT_EXCEEDED", RESOURCE_EXHAUSTED
    # The order of a stream.
    CHUNK_UNEXPECTED = "CHUNK_UNEXPECTED", INVALID_ARGUMENT
    CHUNK_OUT_OF_ORDER = "CHUNK_OUT_OF_ORDER", INVALID_ARGUMENT
    # Limits of a server. Those that other calls fill are free again when these end.
    RANK_LIMIT_EXCEEDED = "RANK_LIMIT_EXCEEDED", RESOURCE_EXHAUSTED, 1
    OUTPUT_TOO_LARGE = "OUTPUT_TOO_LARGE", RESOURCE_EXHAUSTED
    HEADER_TOO_LARGE = "HEADER_TOO_LARGE", RESOURCE_EXHAUSTED
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE", RESOURCE_EXHAUSTED
    TENSOR_TOO_LARGE = "TENSOR_TOO_LARGE", RESOURCE_EXHAUSTED
    BATCH_TOO_LARGE = "BATCH_TOO_LARGE", RESOURCE_EXHAUSTED
    SERVER_BUSY = "SERVER_BUSY", RESOURCE_EXHAUSTED, None, True
    STALLED = "STALLED", RESOURCE_EXHAUSTED, None, True
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED", RESOURCE_EXHAUSTED, None, True
    # Who calls. Neither says more: what is wrong about a token, or which names are known, is nobody's business.
    UNAUTHENTICATED = "UNAUTHENTICATED", UNAUTHENTICATED
    PERMISSION_DENIED = "PERMISSION_DENIED", PERMISSION_DENIED
    # Of the caller's own process.
    VIEW_IMPOSSIBLE = "VIEW_IMPOSSIBLE", INVALID_ARGUMENT


class TensorReshapeError(Exception):
    """The root of every exception that this project raises on purpose.

    Attributes:
        request_id: of the call that ended with it, as the server logs it; None where no call was made.

    >>> try:
    ...     client.infer_shape((2, 3), (4,), special_zero=False, request_id="job-7/3")
    ... except TensorReshapeError as error:
    ...     print(error.request_id)
    job-7/3
    """

    request_id: str | None = None


class ReshapeError(TensorReshapeError):
    """A refusal, found here or by the server.

    Attributes:
        code_name: of the gRPC status code of this class of refusals, which is also that of each of its reasons.
        message: one sentence for people.
        reason: a `Reason`, or the text of one that a newer server knows and this version does not.
        field: the field to blame, as a path with the index of the item (`shape[1]`); empty where none is.
        metadata: the index and the values, as text, under stable keys.

    >>> try:
    ...     client.reshape(np.zeros(6), [4, -1], special_zero=False)
    ... except ReshapeError as error:
    ...     print(error.reason, error.field, error.metadata["dividend"], error.metadata["divisor"])
    NOT_DIVISIBLE shape[1] 6 4
    """

    code_name: ClassVar[str] = INTERNAL
    reason: Reason | str
    metadata: dict[str, str]

    def __init__(
        self, message: str, *, reason: str, field: str = "", metadata: Mapping[str, str] | None = None
    ) -> None:
        """Keeps what the refusal says."""
        super().__init__(message)
        self.message = message
        self.reason = Reason(reason) if reason in Reason.__members__ else reason
        self.field = field
        self.metadata = dict(metadata or {})

    def __reduce__(self) -> tuple[object, ...]:
        """Survives pickling and copying: keyword arguments do not by themselves."""
        return _make, (type(self), self.message), vars(self)

    @classmethod
    def of(cls, reason: Reason, message: str, /, field: str = "", **values: object) -> Self:
        """Builds a refusal whose metadata are `values`, each written short."""
        metadata = {key: clip_text(format_value(value), MAX_VALUE_CHARACTERS) for key, value in values.items()}
        return cls(clip_text(message, MAX_MESSAGE_CHARACTERS), reason=reason, field=field, metadata=metadata)


class InvalidRequestError(ReshapeError, ValueError):
    """The request is against the rules: it fails the same way on every server.

    >>> try:
    ...     client.reshape(np.zeros(6), [-1, -1], special_zero=False)
    ... except ValueError as error:
    ...     print(error)
    shape[1] is -1: only one dim can be inferred, and shape[0] is -1 already; shape [-1, -1], data [6]
    """

    code_name = INVALID_ARGUMENT


class NotFoundError(ReshapeError):
    """The request names a model or a region that the server does not have."""

    code_name = NOT_FOUND


class UnauthenticatedError(ReshapeError):
    """The server does not know who calls: the call has no token, or none that it takes.

    >>> from tensor_reshape.testing import FakeClient
    >>> client = FakeClient()
    >>> client.fail_next(UnauthenticatedError.of(Reason.UNAUTHENTICATED, "the call shows no token"))
    >>> try:
    ...     client.check_health()
    ... except UnauthenticatedError as error:
    ...     print(error.reason)
    UNAUTHENTICATED
    """

    code_name = UNAUTHENTICATED


class PermissionDeniedError(ReshapeError):
    """The server knows who calls, and does not let that caller make this call.

    >>> from tensor_reshape.testing import FakeClient
    >>> client = FakeClient()
    >>> client.fail_next(PermissionDeniedError.of(Reason.PERMISSION_DENIED, "not for this caller"))
    >>> try:
    ...     client.check_health()
    ... except PermissionDeniedError as error:
    ...     print(error.reason)
    PERMISSION_DENIED
    """

    code_name = PERMISSION_DENIED


class LimitError(ReshapeError):
    """The request is above a limit of the server that was asked.

    Attributes:
        retry_seconds: how long that server asks to wait before the same request is sent again; None: do not.

    >>> try:
    ...     client.reshape(np.zeros(20 * 2**20, np.uint8), [-1], special_zero=False, transfer="inline")
    ... except LimitError as error:
    ...     print(error.reason, error.retry_seconds)
    MESSAGE_TOO_LARGE None
    """

    code_name = RESOURCE_EXHAUSTED
    retry_seconds: float | None = None


def format_value(value: object) -> str:
    """Writes `value` for people: of a long sequence the first items and the length, of a huge integer its size."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"{'-' if value < 0 else ''}2^{value.bit_length() - 1} or beyond"
    if isinstance(value, str) or not isinstance(value, Sequence):
        return str(value)
    items = [format_value(item) for item in value[:_SHOWN_ITEMS]]
    if len(value) > _SHOWN_ITEMS:
        items.append(f"... {len(value)} items")
    return f"[{', '.join(items)}]"


def clip_text(text: str, limit: int) -> str:
    """Returns `text` in at most `limit` ASCII characters: others would grow threefold on the wire."""
    plain = text.encode("ascii", "backslashreplace").decode("ascii")
    return plain if len(plain) <= limit else f"{plain[: limit - 3]}..."


def escape_unprintable(text: str) -> str:
    """Returns a text of somebody else in one line: a terminal obeys control characters, and XML cannot hold them."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def clip_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Returns what of the values of a refusal travels: as many as ten, each short."""
    return {key: clip_text(value, MAX_VALUE_CHARACTERS) for key, value in list(metadata.items())[:_MAX_VALUES]}


def _make(kind: type[ReshapeError], message: str) -> ReshapeError:
    return kind.__new__(kind, message)  # without its attributes, which pickle and copy set
