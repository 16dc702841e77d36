"""Lists the methods of the gRPC service, for clients, servers and encoders.

CONTRIBUTING.md explains how to add an operation.
"""

from dataclasses import dataclass
from typing import TypeAlias

from google.protobuf.message import Message

from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, ONNX_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.v1 import reshape_pb2

SERVICE = reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"].full_name
"""The full name of the service, which is also its name in health checks."""

ReshapeRequest: TypeAlias = (
    reshape_pb2.StaticReshapeRequest | reshape_pb2.DynamicReshapeRequest | reshape_pb2.ReshapeRequest
)
"""The request message of any of the operations."""

ReshapeResponse: TypeAlias = (
    reshape_pb2.StaticReshapeResponse | reshape_pb2.DynamicReshapeResponse | reshape_pb2.ReshapeResponse
)
"""The response message of any of the operations. All response messages have the same single field."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the gRPC service.

    Attributes:
        name: the name of the method within the service.
        request: the class of the request messages.
        response: the class of the response messages.
    """

    name: str
    request: type[Message]
    response: type[Message]

    @property
    def path(self) -> str:
        """The full name of the method: /service/method."""
        return f"/{SERVICE}/{self.name}"


@dataclass(frozen=True, slots=True)
class OperationMethod(Method):
    """The method that executes an operation.

    Attributes:
        operation: the operation. In StreamReshape, the name of the operation is also the name of the field that begins
            a tensor.
        number: the number of the operation in InferShape requests.
    """

    # These annotations are narrower than Message, so that type checkers find the fields that all requests and all
    # responses have.
    request: type[ReshapeRequest]
    response: type[ReshapeResponse]
    operation: Operation
    number: reshape_pb2.Operation.ValueType


OPERATION_METHODS = {
    operation: OperationMethod(
        name, getattr(reshape_pb2, f"{name}Request"), getattr(reshape_pb2, f"{name}Response"), operation, number
    )
    for name, operation, number in (
        ("StaticReshape", STATIC_RESHAPE, reshape_pb2.OPERATION_STATIC_RESHAPE),
        ("DynamicReshape", DYNAMIC_RESHAPE, reshape_pb2.OPERATION_DYNAMIC_RESHAPE),
        ("Reshape", RESHAPE, reshape_pb2.OPERATION_RESHAPE),
    )
}
"""The method of each operation."""

INFER_SHAPE = Method("InferShape", reshape_pb2.InferShapeRequest, reshape_pb2.InferShapeResponse)
"""The method that infers one shape, without tensor data."""

BATCH_INFER_SHAPE = Method("BatchInferShape", reshape_pb2.BatchInferShapeRequest, reshape_pb2.BatchInferShapeResponse)
"""The method that infers many shapes in one call."""

STREAM_RESHAPE = Method("StreamReshape", reshape_pb2.StreamReshapeRequest, reshape_pb2.StreamReshapeResponse)
"""The method that executes any operation on tensors that are sent in chunks."""

SERVER_INFO = Method("ServerInfo", reshape_pb2.ServerInfoRequest, reshape_pb2.ServerInfoResponse)
"""The method that returns the version, limits and features of a server."""

OPERATION_NUMBERS = {
    **{operation: method.number for operation, method in OPERATION_METHODS.items()},
    ONNX_RESHAPE: reshape_pb2.OPERATION_ONNX_RESHAPE,
}
"""The number of each operation in InferShape requests."""

OPERATIONS_BY_NUMBER = {int(number): operation for operation, number in OPERATION_NUMBERS.items()}
"""The operation of each number in InferShape requests."""


def split_method(name: str) -> tuple[str, str]:
    """Returns the service and the method of a full name, `/service/method`."""
    service, _, method = name.removeprefix("/").rpartition("/")
    return service, method
