"""Converts the gRPC status of a call to an exception."""

from collections.abc import Collection

from grpc import StatusCode

from tensor_reshape.client.errors import CallTimeoutError, InternalServerError, ServiceError, UnavailableError
from tensor_reshape.rules.errors import LimitError, Reason, TensorReshapeError
from tensor_reshape.wire.request_ids import find_request_id
from tensor_reshape.wire.status import decode_brief_rejection, decode_rejection

_KINDS: dict[StatusCode, type[ServiceError]] = {
    StatusCode.UNAVAILABLE: UnavailableError,
    StatusCode.DEADLINE_EXCEEDED: CallTimeoutError,
    StatusCode.INTERNAL: InternalServerError,
}


def build_error(
    code: StatusCode, details: str | None, trailing_metadata: Collection[tuple[str, str | bytes]]
) -> TensorReshapeError:
    """Returns the exception for the gRPC status of a call."""
    error = _choose_error(code, details or "", trailing_metadata)
    error.request_id = find_request_id(trailing_metadata)
    return error


def _choose_error(
    code: StatusCode, text: str, trailing_metadata: Collection[tuple[str, str | bytes]]
) -> TensorReshapeError:
    # Error details identify an error of the server, so they are examined before the status code. Transports and proxies
    # send the same status codes without details.
    rejection = decode_rejection(code.name, trailing_metadata) or decode_brief_rejection(code.name, text)
    if rejection is not None:
        return rejection
    if code is StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
        # gRPC's own code rejects such a large message before the server can report its limit.
        return LimitError.of(Reason.MESSAGE_TOO_LARGE, text, "data")
    return _KINDS.get(code, ServiceError)(text, code)
