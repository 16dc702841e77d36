"""Conversion of the status of a failed call to an exception."""

import pytest
from grpc import StatusCode

from tensor_reshape.client import (
    CallTimeoutError,
    InternalServerError,
    InvalidRequestError,
    LimitError,
    Reason,
    ServiceError,
    UnavailableError,
)
from tensor_reshape.client.statuses import build_error
from tensor_reshape.wire.status import encode_rejection

KINDS = {
    StatusCode.UNAVAILABLE: UnavailableError,
    StatusCode.DEADLINE_EXCEEDED: CallTimeoutError,
    StatusCode.INTERNAL: InternalServerError,
}


def test_grpc_status_without_details_becomes_a_service_error():
    for code in set(StatusCode) - {StatusCode.OK}:
        error = build_error(code, "no", ())
        assert isinstance(error, ServiceError)
        assert (type(error), error.code, error.message) == (KINDS.get(code, ServiceError), code, "no")
        assert str(error) == f"{code.name}: no"
    assert str(build_error(StatusCode.UNKNOWN, None, ())) == "UNKNOWN: "


@pytest.mark.parametrize(
    "rejection",
    [
        InvalidRequestError.of(Reason.NOT_DIVISIBLE, "no", "shape[1]", index=1),
        LimitError.of(Reason.TENSOR_TOO_LARGE, "no", "data", limit=5),
    ],
    ids=lambda rejection: str(rejection.reason),
)
def test_error_decoded_from_status_details_equals_the_original(rejection: InvalidRequestError | LimitError):
    status = encode_rejection(rejection)
    error = build_error(StatusCode[status.code], status.details, status.trailing_metadata)
    assert isinstance(error, type(rejection))
    assert (error.reason, error.message, error.field) == (rejection.reason, "no", rejection.field)
    assert error.metadata == rejection.metadata


def test_message_size_rejection_of_grpc_becomes_a_limit_error():
    error = build_error(StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 5)", ())
    assert isinstance(error, LimitError)
    assert (error.reason, error.field, error.retry_seconds) == (Reason.MESSAGE_TOO_LARGE, "data", None)
