"""Encodes and decodes the messages about a server: ServerInfo, and `grpc.health.v1.Health/Check`.

If a newer server lists operations, data types or features that this version does not know, these entries are ignored.
Clients do not need the package grpcio-health-checking, because the messages of health checks are encoded like
protobuf's wrapper messages, in which field 1 is a string or a varint.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum, IntEnum

from google.protobuf.message import DecodeError
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.operations import Operation, OperationName
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.fields import parse_message
from tensor_reshape.wire.methods import OPERATION_METHODS, OPERATIONS_BY_NUMBER
from tensor_reshape.wire.tensors import encode_data_type


class Feature(Enum):
    """The optional features of a server. The value of a member is the name of the feature in the protobuf enum.

    >>> Feature.REFLECTION in client.server_info().features
    True
    """

    REFLECTION = "FEATURE_REFLECTION"
    OPEN_INFERENCE = "FEATURE_OPEN_INFERENCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits that one server has set. A limit of 0 means that the server did not send the limit.

    Attributes:
        max_message_bytes: the largest size of a message that the server receives.
        max_output_bytes: the largest size of an output of a unary method.
        max_tensor_bytes: the largest size of a dense tensor on a stream.
        max_header_bytes: the largest size of a request, not counting the bytes of its tensor.
        max_batch_bytes: the largest size of a batch of queries.
        max_batch_items: the largest number of queries in a batch.

    >>> client.server_info().limits.max_tensor_bytes
    1099511627776
    """

    max_message_bytes: int
    max_output_bytes: int
    max_tensor_bytes: int
    max_header_bytes: int
    max_batch_bytes: int
    max_batch_items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationInfo:
    """The ranks and types that an operation accepts on one server.

    Attributes:
        max_rank: the largest rank of the input shape and of the requested shape.
        data_types: the element types of the data.
        shape_data_types: the element types of the requested shape, or an empty set if the requested shape is an
            attribute.

    >>> sorted(map(str, client.server_info().operations["dynamic_reshape"].shape_data_types))
    ['i32']
    """

    max_rank: int
    data_types: frozenset[DataType]
    shape_data_types: frozenset[DataType]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """The version, limits, operations and features of a server.

    Attributes:
        version: the version of the server's package.
        limits: the limits of requests and responses.
        operations: for each operation that reshapes data, the ranks and types that the operation accepts.
        features: the optional features that the server has.

    >>> sorted(client.server_info().operations)
    ['dynamic_reshape', 'reshape', 'static_reshape']
    """

    version: str
    limits: ServerLimits
    operations: dict[OperationName, OperationInfo]
    features: frozenset[Feature]


def describe_operation(operation: Operation, max_rank: int) -> OperationInfo:
    """Returns the description of an operation on a server whose rank limit is `max_rank`."""
    return OperationInfo(
        max_rank=operation.max_rank or max_rank,
        data_types=operation.data_types,
        shape_data_types=operation.shape_data_types,
    )


def encode_server_info(info: ServerInfo) -> bytes:
    """Returns an encoded ServerInfoResponse."""
    return reshape_pb2.ServerInfoResponse(
        version=info.version,
        limits=reshape_pb2.ServerLimits(**asdict(info.limits)),
        operations=[
            reshape_pb2.OperationInfo(
                operation=method.number,
                max_rank=info.operations[operation.name].max_rank,
                data_types=_number_data_types(info.operations[operation.name].data_types),
                shape_data_types=_number_data_types(info.operations[operation.name].shape_data_types),
            )
            for operation, method in OPERATION_METHODS.items()
        ],
        features=sorted(reshape_pb2.ServerInfoResponse.Feature.Value(one.value) for one in info.features),
    ).SerializeToString()


def decode_server_info(raw: bytes) -> ServerInfo:
    """Reads a ServerInfoResponse.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    message = parse_message(reshape_pb2.ServerInfoResponse, raw)
    limits = {field.name: getattr(message.limits, field.name) for field in message.limits.DESCRIPTOR.fields}
    features = {reshape_pb2.ServerInfoResponse.Feature.Value(feature.value): feature for feature in Feature}
    return ServerInfo(
        version=message.version,
        limits=ServerLimits(**limits),
        operations={
            OPERATIONS_BY_NUMBER[one.operation].name: OperationInfo(
                max_rank=one.max_rank,
                data_types=_read_data_types(one.data_types),
                shape_data_types=_read_data_types(one.shape_data_types),
            )
            for one in message.operations
            if one.operation in OPERATIONS_BY_NUMBER
        },
        features=frozenset(features[number] for number in message.features if number in features),
    )


def _number_data_types(data_types: Iterable[DataType]) -> list[tensor_pb2.DataType.ValueType]:
    return sorted(map(encode_data_type, data_types))


def _read_data_types(numbers: Iterable[int]) -> frozenset[DataType]:
    known = set(DataType)
    return frozenset(DataType(number) for number in numbers if number in known)


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
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    try:
        number = Int32Value.FromString(raw).value
    except DecodeError:
        message = "the message is not a grpc.health.v1.HealthCheckResponse"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, message) from None
    # A later version of the health protocol may have other status numbers.
    return HealthStatus(number) if number in set(HealthStatus) else HealthStatus.UNKNOWN
