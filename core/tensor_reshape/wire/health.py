"""The two messages of `grpc.health.v1.Health/Check`, for a client that does not install the server's health package.

protobuf's own wrapper messages have exactly their encoding: one string, or one varint, as field 1.
"""

from enum import IntEnum

from google.protobuf.message import DecodeError
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from tensor_reshape.rules.errors import InvalidRequestError, Reason

CHECK_METHOD = "/grpc.health.v1.Health/Check"
"""The full name of the method."""


class HealthStatus(IntEnum):
    """What a server says of a service: `grpc.health.v1.HealthCheckResponse.ServingStatus`.

    >>> client.check_health() is HealthStatus.SERVING
    True
    """

    UNKNOWN = 0
    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


def encode_check_request(service: str) -> bytes:
    """Returns a HealthCheckRequest; an empty name asks for the server as a whole."""
    return StringValue(value=service).SerializeToString()


def decode_check_response(raw: bytes) -> HealthStatus:
    """Reads a HealthCheckResponse; a number that this version does not know is UNKNOWN.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED.
    """
    try:
        number = Int32Value.FromString(raw).value
    except DecodeError:
        message = "the message is not a grpc.health.v1.HealthCheckResponse"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, message) from None
    # The enum is another project's, and may grow.
    return HealthStatus(number) if number in set(HealthStatus) else HealthStatus.UNKNOWN
