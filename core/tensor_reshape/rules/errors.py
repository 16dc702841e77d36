"""The exception tree, and the permanent reasons of a refusal.

A refusal is the same class with the same reason whether the caller's own process found it or the server did. Reasons
are part of the contract: one is never renamed, removed, or given another meaning.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Self

MAX_MESSAGE_CHARACTERS = 768
MAX_VALUE_CHARACTERS = 192
"""A refusal says the same here and from a server, whose answer must fit into a few kilobytes of metadata."""

_SHOWN_ITEMS = 16
_SHOWN_BITS = 256


class Reason(StrEnum):
    """Why a request is refused. The value is what travels in `google.rpc.ErrorInfo.reason`."""

    # Rule 1: what is asked of what.
    DATA_TYPE_UNSUPPORTED = "DATA_TYPE_UNSUPPORTED"
    SHAPE_DATA_TYPE_UNSUPPORTED = "SHAPE_DATA_TYPE_UNSUPPORTED"
    SHAPE_RANK_INVALID = "SHAPE_RANK_INVALID"
    SPECIAL_ZERO_MISSING = "SPECIAL_ZERO_MISSING"
    RANK_UNSUPPORTED = "RANK_UNSUPPORTED"
    DIM_OUT_OF_RANGE = "DIM_OUT_OF_RANGE"
    # Rules 2 to 5: the target shape.
    INVALID_TARGET_VALUE = "INVALID_TARGET_VALUE"
    ZERO_INDEX_OUT_OF_RANGE = "ZERO_INDEX_OUT_OF_RANGE"
    MULTIPLE_MINUS_ONE = "MULTIPLE_MINUS_ONE"
    MINUS_ONE_WITH_ZERO_VOLUME = "MINUS_ONE_WITH_ZERO_VOLUME"
    NOT_DIVISIBLE = "NOT_DIVISIBLE"
    VOLUME_MISMATCH = "VOLUME_MISMATCH"
    DIM_OVERFLOW = "DIM_OVERFLOW"
    EXPECTED_SHAPE_MISMATCH = "EXPECTED_SHAPE_MISMATCH"
    # The layout of the data, and its bytes.
    STRIDES_RANK_MISMATCH = "STRIDES_RANK_MISMATCH"
    STRIDE_NEGATIVE = "STRIDE_NEGATIVE"
    STRIDES_OVERLAP = "STRIDES_OVERLAP"
    DATA_SIZE_MISMATCH = "DATA_SIZE_MISMATCH"
    # The message.
    MESSAGE_MALFORMED = "MESSAGE_MALFORMED"
    FIELD_MISSING = "FIELD_MISSING"
    OPERATION_UNSPECIFIED = "OPERATION_UNSPECIFIED"
    DIM_UNKNOWN = "DIM_UNKNOWN"
    # Dims that are only partly known.
    INTERVAL_EMPTY = "INTERVAL_EMPTY"
    EXPRESSION_INVALID = "EXPRESSION_INVALID"
    DIM_UNREADABLE = "DIM_UNREADABLE"
    SYMBOL_CONFLICT = "SYMBOL_CONFLICT"
    # A batch of questions.
    LINK_INVALID = "LINK_INVALID"
    LINK_FAILED = "LINK_FAILED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    # The order of a stream.
    CHUNK_UNEXPECTED = "CHUNK_UNEXPECTED"
    CHUNK_OUT_OF_ORDER = "CHUNK_OUT_OF_ORDER"
    # Limits of a server.
    RANK_LIMIT_EXCEEDED = "RANK_LIMIT_EXCEEDED"
    OUTPUT_TOO_LARGE = "OUTPUT_TOO_LARGE"
    HEAD_TOO_LARGE = "HEAD_TOO_LARGE"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    TENSOR_TOO_LARGE = "TENSOR_TOO_LARGE"
    SERVER_BUSY = "SERVER_BUSY"
    STALLED = "STALLED"
    BATCH_TOO_LARGE = "BATCH_TOO_LARGE"
    # Of the caller's own process.
    VIEW_IMPOSSIBLE = "VIEW_IMPOSSIBLE"


class TensorReshapeError(Exception):
    """The root of every exception that this project raises on purpose."""


class ReshapeError(TensorReshapeError):
    """A refusal, found here or by the server.

    Attributes:
        message: one sentence for people.
        reason: a `Reason`, or the text of one that a newer server knows and this version does not.
        field: the field to blame, as a path with the index of the item (`shape[1]`); empty where none is.
        metadata: the index and the values, as text, under stable keys.
    """

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
        """Survives pickling: keyword arguments do not by themselves."""
        return _rebuild, (type(self), self.message, str(self.reason), self.field, self.metadata)

    @classmethod
    def of(cls, reason: Reason, message: str, /, field: str = "", **values: object) -> Self:
        """Builds a refusal whose metadata are `values`, each written short."""
        metadata = {key: clip_text(format_value(value), MAX_VALUE_CHARACTERS) for key, value in values.items()}
        return cls(clip_text(message, MAX_MESSAGE_CHARACTERS), reason=reason, field=field, metadata=metadata)


class InvalidRequestError(ReshapeError, ValueError):
    """The request is against the rules: it fails the same way on every server."""


class LimitError(ReshapeError):
    """The request is above a limit of the server that was asked.

    Attributes:
        retry_seconds: how long that server asks to wait before the same request is sent again; None: do not.
    """

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


def _rebuild(kind: type[ReshapeError], message: str, reason: str, field: str, metadata: dict[str, str]) -> ReshapeError:
    return kind(message, reason=reason, field=field, metadata=metadata)
