"""Encodes the messages of `grpc.health.v1.Health/Check`.

Clients therefore do not need the package grpcio-health-checking. These messages have the encoding of protobuf's wrapper
messages, in which field 1 is a string or a varint.
"""

from enum import IntEnum

from google.protobuf.message import DecodeError
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from tensor_reshape.rules.errors import InvalidRequestError, Reason

CHECK_METHOD = "/grpc.health.v1.Health/Check"
"""The full name of the method that checks the health of a service."""


class HealthStatus(IntEnum):
    """The health status of a service: `grpc.health.v1.HealthCheckResponse.ServingStatus`.

    >>> client.check_health() is HealthStatus.SERVING
    True
    """

    UNKNOWN = 0
    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


def encode_check_request(service: str) -> bytes:
    """Returns a HealthCheckRequest; an empty name means the whole server."""
    return StringValue(value=service).SerializeToString()


def decode_check_response(raw: bytes) -> HealthStatus:
    """Reads a HealthCheckResponse.

    A status that this version does not know becomes UNKNOWN.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED.
    """
    try:
        number = Int32Value.FromString(raw).value
    except DecodeError:
        message = "the message is not a grpc.health.v1.HealthCheckResponse"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, message) from None
    # A later version of the health protocol may have other status numbers.
    return HealthStatus(number) if number in set(HealthStatus) else HealthStatus.UNKNOWN
