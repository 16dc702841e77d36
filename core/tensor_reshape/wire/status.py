"""Refusals as `google.rpc.Status` details, and back.

Everything is bounded: above roughly 9 KB of trailing metadata the transport would answer RESOURCE_EXHAUSTED instead of
the refusal.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as StatusMessage
from grpc import StatusCode

from tensor_reshape.rules.errors import (
    MAX_MESSAGE_CHARACTERS,
    InvalidRequestError,
    LimitError,
    NotFoundError,
    PermissionDeniedError,
    Reason,
    ReshapeError,
    UnauthenticatedError,
    clip_metadata,
    clip_text,
)

DOMAIN = "tensor_reshape.v1"
"""The domain of every reason: a reason is permanent within it."""

DETAILS_KEY = "grpc-status-details-bin"
"""Where the status travels in the trailing metadata."""

PUSHBACK_KEY = "grpc-retry-pushback-ms"
"""How gRPC itself is told when to send a call again (gRFC A6): by every client whose retry policy has the code."""

RETRY_SECONDS = 0.2
"""What a caller waits, at least, before it asks a server again, where the refusal does not say how long."""

_MAX_PUSHBACK_MS = 2**31 - 1
_MAX_RETRY_SECONDS = 1e9  # thirty years, which every clock can wait; a Duration may hold more
_MAX_FIELD_CHARACTERS = 128  # with the bounds of `rules.errors`, less than 7 KiB in all
_KINDS = (InvalidRequestError, NotFoundError, UnauthenticatedError, PermissionDeniedError, LimitError)
_CLASSES = {StatusCode[kind.code_name]: kind for kind in _KINDS}


class Status(NamedTuple):
    """What ends a call, in the form of `grpc.Status`."""

    code: StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, str | bytes], ...]


def encode_refusal(error: ReshapeError) -> Status:
    """Returns the status that carries `error` to a client in any language, in less than 7 KiB."""
    code = _choose_code(error)
    text = clip_text(error.message, MAX_MESSAGE_CHARACTERS)
    details: list[ErrorInfo | BadRequest | RetryInfo] = [
        ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=clip_metadata(error.metadata))
    ]
    if error.field:
        violation = BadRequest.FieldViolation(field=clip_text(error.field, _MAX_FIELD_CHARACTERS), description=text)
        details.append(BadRequest(field_violations=[violation]))
    pushback: tuple[tuple[str, str], ...] = ()
    if isinstance(error.reason, Reason) and error.reason.is_retryable:
        # Twice the same: the SDK and callers by hand read the detail, gRPC's own retries read nothing but the key.
        milliseconds = _count_retry_milliseconds(error)
        delay = Duration(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)
        details.append(RetryInfo(retry_delay=delay))
        pushback = ((PUSHBACK_KEY, str(milliseconds)),)
    message = StatusMessage(code=code.value[0], message=text, details=[_pack(detail) for detail in details])
    return Status(code, text, ((DETAILS_KEY, message.SerializeToString()), *pushback))


def decode_refusal(code: StatusCode, trailing_metadata: Iterable[tuple[str, str | bytes]]) -> ReshapeError | None:
    """Returns the refusal that a call ended with; None where the call ended for another reason."""
    kind = _CLASSES.get(code)
    packed = next((value for key, value in trailing_metadata if key == DETAILS_KEY), None)
    if kind is None or not isinstance(packed, bytes):
        return None
    try:
        return _read_refusal(kind, StatusMessage.FromString(packed))
    except DecodeError:
        return None


def _count_retry_milliseconds(error: ReshapeError) -> int:
    """Returns when the caller is to come again, rounded up: a moment too soon is in vain."""
    asked = error.retry_seconds if isinstance(error, LimitError) else None
    # gRPC reads the pushback as 32 bits with a sign, and takes what is more for a call that is not to be sent again.
    return min(math.ceil((RETRY_SECONDS if asked is None else asked) * 1e3), _MAX_PUSHBACK_MS)


def _choose_code(error: ReshapeError) -> StatusCode:
    """Returns the code of the reason; of a reason that this version does not know, the code of the error's class."""
    return StatusCode[error.reason.code_name if isinstance(error.reason, Reason) else error.code_name]


def _read_refusal(kind: type[ReshapeError], status: StatusMessage) -> ReshapeError | None:
    infos = [ErrorInfo.FromString(detail.value) for detail in status.details if detail.Is(ErrorInfo.DESCRIPTOR)]
    # A proxy may have added details of its own, before ours or behind them.
    info = next((info for info in infos if info.domain == DOMAIN), None)
    if info is None:
        return None
    request = BadRequest()
    for detail in status.details:
        detail.Unpack(request)  # does nothing where the detail is of another kind
    field = request.field_violations[0].field if request.field_violations else ""
    refusal = kind(status.message, reason=info.reason, field=field, metadata=info.metadata)
    if isinstance(refusal, LimitError):
        refusal.retry_seconds = _read_retry_seconds(status)
    return refusal


def _read_retry_seconds(status: StatusMessage) -> float | None:
    """Returns what the first RetryInfo says; None where there is none."""
    info = RetryInfo()
    if not any(detail.Unpack(info) for detail in status.details):
        return None
    # Whatever the server says, it is a time to wait: none that is negative, and none that a clock cannot add.
    seconds = float(info.retry_delay.seconds) + float(info.retry_delay.nanos) / 1e9
    return min(max(seconds, 0.0), _MAX_RETRY_SECONDS)


def _pack(detail: ErrorInfo | BadRequest | RetryInfo) -> Any:
    packed = Any()
    packed.Pack(detail)
    return packed
