"""Converts errors to the details of a `google.rpc.Status` and back, and reads request ids.

Each text in the details is cut at a length limit, because gRPC reports RESOURCE_EXHAUSTED instead of the error if the
trailing metadata exceeds about 9 KB.

A request id identifies a call in the logs of the client and the server. The client sends the id in the metadata of a
call. If the client sends no request id, the server creates one. The server returns the request id in the trailing
metadata. Request ids appear in logs and error messages, so both sides ignore a value that is not a valid id.
"""

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as StatusMessage

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
"""The domain of all reasons of this project. Reasons in this domain are permanent."""

DETAILS_KEY = "grpc-status-details-bin"
"""The key of the encoded `google.rpc.Status` in the trailing metadata."""

PUSHBACK_KEY = "grpc-retry-pushback-ms"
"""The metadata key of the delay for gRPC's own retries (gRFC A6). gRPC retries only if the client's retry policy
contains the status code, and the delay is not negative.
"""

RETRY_SECONDS = 0.2
"""The delay before a retry if the error does not contain a delay."""

_MAX_PUSHBACK_MS = 2**31 - 1
_NEVER = "-1"
# a retry delay is limited to about thirty years, although a Duration message can contain longer times
_MAX_RETRY_SECONDS = 1e9
_MAX_FIELD_CHARACTERS = 128  # with this limit and the limits of `rules.errors`, an encoded status is below 7 KiB
_KINDS = (InvalidRequestError, NotFoundError, UnauthenticatedError, PermissionDeniedError, LimitError)
_CLASSES = {kind.code_name: kind for kind in _KINDS}


class Status(NamedTuple):
    """The status of a call.

    Attributes:
        code: the name of the status code, for example "INVALID_ARGUMENT".
        details: the message.
        trailing_metadata: pairs of names and values, which gRPC sends after the status.
    """

    code: str
    details: str
    trailing_metadata: tuple[tuple[str, str | bytes], ...]


def encode_rejection(error: ReshapeError) -> Status:
    """Returns the gRPC status for an error. The encoded status has less than 7 KiB."""
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
        # The SDK reads the delay from the RetryInfo message, but gRPC's own retries read only the metadata key.
        milliseconds = _count_retry_milliseconds(error)
        delay = Duration(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)
        details.append(RetryInfo(retry_delay=delay))
        pushback = ((PUSHBACK_KEY, str(milliseconds)),)
    elif isinstance(error, LimitError):
        pushback = ((PUSHBACK_KEY, _NEVER),)  # a retry policy sees only the status code, which a busy server also sends
    message = StatusMessage(code=Code.Value(code), message=text, details=[_pack(detail) for detail in details])
    return Status(code, text, ((DETAILS_KEY, message.SerializeToString()), *pushback))


def decode_rejection(code: str, trailing_metadata: Iterable[tuple[str, str | bytes]]) -> ReshapeError | None:
    """Returns the error with which a call ended, or None if the status has no details from this service."""
    kind = _CLASSES.get(code)
    packed = next((value for key, value in trailing_metadata if key == DETAILS_KEY), None)
    if kind is None or not isinstance(packed, bytes):
        return None
    try:
        return _read_rejection(kind, StatusMessage.FromString(packed))
    except DecodeError:
        return None


def encode_brief_rejection(error: ReshapeError) -> Status:
    """Returns the status of an error for a call that can no longer send trailing metadata.

    Because there are no details, the text of the status begins with the reason.
    """
    return Status(_choose_code(error), clip_text(f"{error.reason}: {error.message}", MAX_MESSAGE_CHARACTERS), ())


def decode_brief_rejection(code: str, text: str) -> ReshapeError | None:
    """Returns the error that `encode_brief_rejection` encoded; None if the text does not begin with a reason of `code`.

    The error has neither a field nor metadata.
    """
    name, colon, message = text.partition(": ")
    reason, kind = Reason.__members__.get(name) if colon else None, _CLASSES.get(code)
    if reason is None or kind is None or kind.code_name != reason.code_name:
        return None
    rejection = kind(message, reason=reason)
    if isinstance(rejection, LimitError) and reason.is_retryable:
        rejection.retry_seconds = RETRY_SECONDS
    return rejection


def _count_retry_milliseconds(error: ReshapeError) -> int:
    """Returns the delay before a retry in milliseconds.

    The delay is rounded up, because an earlier retry would fail.
    """
    asked = error.retry_seconds if isinstance(error, LimitError) else None
    # gRPC reads the delay as a signed 32-bit number, and does not retry if the delay is larger.
    return min(math.ceil((RETRY_SECONDS if asked is None else asked) * 1e3), _MAX_PUSHBACK_MS)


def _choose_code(error: ReshapeError) -> str:
    """Returns the name of the status code for the error's reason, or for its class if the reason is unknown."""
    return error.reason.code_name if isinstance(error.reason, Reason) else error.code_name


def _read_rejection(kind: type[ReshapeError], status: StatusMessage) -> ReshapeError | None:
    infos = [ErrorInfo.FromString(detail.value) for detail in status.details if detail.Is(ErrorInfo.DESCRIPTOR)]
    # A proxy may add error details with other domains, which are ignored.
    info = next((info for info in infos if info.domain == DOMAIN), None)
    if info is None:
        return None
    request = BadRequest()
    for detail in status.details:
        detail.Unpack(request)  # `Unpack` does nothing if the error detail has another type
    field = request.field_violations[0].field if request.field_violations else ""
    rejection = kind(status.message, reason=info.reason, field=field, metadata=info.metadata)
    if isinstance(rejection, LimitError):
        rejection.retry_seconds = _read_retry_seconds(status)
    return rejection


def _read_retry_seconds(status: StatusMessage) -> float | None:
    """Returns the delay of the first RetryInfo in seconds; None if the status has no RetryInfo."""
    info = RetryInfo()
    if not any(detail.Unpack(info) for detail in status.details):
        return None
    # The retry delay is limited to a valid range, because a faulty server may send a negative or a huge delay.
    seconds = float(info.retry_delay.seconds) + float(info.retry_delay.nanos) / 1e9
    return min(max(seconds, 0.0), _MAX_RETRY_SECONDS)


def _pack(detail: ErrorInfo | BadRequest | RetryInfo) -> Any:
    packed = Any()
    packed.Pack(detail)
    return packed


REQUEST_ID_KEY = "x-request-id"
"""The metadata key of the id in both directions. Proxies and service meshes use the same key."""

MAX_REQUEST_ID_CHARACTERS = 128

# A request id has only visible ASCII characters, without spaces and line breaks.
_REQUEST_ID = re.compile(f"[!-~]{{1,{MAX_REQUEST_ID_CHARACTERS}}}")


def is_request_id(value: object) -> bool:
    """Whether a text is a valid request id."""
    return isinstance(value, str) and _REQUEST_ID.fullmatch(value) is not None


def find_request_id(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """Returns the request id in the metadata of a call; None if the metadata has no valid id."""
    sent = next((value for key, value in metadata if key == REQUEST_ID_KEY), None)
    return str(sent) if is_request_id(sent) else None
