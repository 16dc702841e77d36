"""The methods of the contract, a row each: what client, server and encodings derive from.

To add an operation is to add its row to `rules.operations`, its messages to the contract, and its row and its messages
here; if its target is an attribute, also what `wire.reshapes` does for StaticReshape. See CONTRIBUTING.md.
"""

from dataclasses import dataclass
from typing import TypeAlias

from google.protobuf.message import Message

from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.v1 import reshape_pb2

SERVICE = reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"].full_name
"""The full name of the service, also for its health."""

ReshapeRequest: TypeAlias = (
    reshape_pb2.StaticReshapeRequest | reshape_pb2.DynamicReshapeRequest | reshape_pb2.ReshapeRequest
)
"""The request of an operation, whichever it is."""

ReshapeResponse: TypeAlias = (
    reshape_pb2.StaticReshapeResponse | reshape_pb2.DynamicReshapeResponse | reshape_pb2.ReshapeResponse
)
"""The response of an operation: all have the same one field."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the service.

    Attributes:
        name: within the service.
        request: the class of its requests.
        response: the class of its responses.
    """

    name: str
    request: type[Message]
    response: type[Message]

    @property
    def path(self) -> str:
        """The full name, as calls and servers take it."""
        return f"/{SERVICE}/{self.name}"


@dataclass(frozen=True, slots=True)
class OperationMethod(Method):
    """The method that executes an operation.

    Attributes:
        operation: which one. Its name is also that of the field that begins a tensor of it on a stream.
        number: of the operation, where a question names it.
    """

    # Narrower than those of any method: every request and every response of an operation has the same tensor.
    request: type[ReshapeRequest]
    response: type[ReshapeResponse]
    operation: Operation
    number: reshape_pb2.Operation.ValueType


OPERATION_METHODS = {
    method.operation: method
    for method in (
        OperationMethod(
            "StaticReshape",
            reshape_pb2.StaticReshapeRequest,
            reshape_pb2.StaticReshapeResponse,
            STATIC_RESHAPE,
            reshape_pb2.OPERATION_STATIC_RESHAPE,
        ),
        OperationMethod(
            "DynamicReshape",
            reshape_pb2.DynamicReshapeRequest,
            reshape_pb2.DynamicReshapeResponse,
            DYNAMIC_RESHAPE,
            reshape_pb2.OPERATION_DYNAMIC_RESHAPE,
        ),
        OperationMethod(
            "Reshape",
            reshape_pb2.ReshapeRequest,
            reshape_pb2.ReshapeResponse,
            RESHAPE,
            reshape_pb2.OPERATION_RESHAPE,
        ),
    )
}
"""The method of each operation."""

INFER_SHAPE = Method("InferShape", reshape_pb2.InferShapeRequest, reshape_pb2.InferShapeResponse)
"""Answers a question; moves no data."""

BATCH_INFER_SHAPE = Method("BatchInferShape", reshape_pb2.BatchInferShapeRequest, reshape_pb2.BatchInferShapeResponse)
"""Answers many questions."""

STREAM_RESHAPE = Method("StreamReshape", reshape_pb2.StreamReshapeRequest, reshape_pb2.StreamReshapeResponse)
"""Executes any operation on tensors that come in chunks."""

SERVER_INFO = Method("ServerInfo", reshape_pb2.ServerInfoRequest, reshape_pb2.ServerInfoResponse)
"""Tells what a server is."""

OPERATIONS_BY_NUMBER = {int(method.number): operation for operation, method in OPERATION_METHODS.items()}
"""The operation that a question names."""


def split_method(name: str) -> tuple[str, str]:
    """Returns the service and the method of a full name, `/service/method`."""
    service, _, method = name.removeprefix("/").rpartition("/")
    return service, method
