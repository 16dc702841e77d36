"""The list of methods whose calls the metrics count.

These methods belong to ReshapeService and the Open Inference Protocol.
"""

from google.protobuf.descriptor import MethodDescriptor

from tensor_reshape.server.oip.messages import SERVICE as INFERENCE_SERVICE
from tensor_reshape.v1 import reshape_pb2

COUNTED_SERVICES = (reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"], INFERENCE_SERVICE)


REFLECTION_METHODS = (
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
"""The full names of the reflection methods, which an authorization file may contain."""


def list_methods() -> tuple[str, ...]:
    """Returns the full names of all methods whose calls are counted."""
    return tuple(map(_name, _list_descriptors()))


def list_streams() -> frozenset[str]:
    """Returns the full names of the streaming methods whose calls are counted."""
    return frozenset(_name(method) for method in _list_descriptors() if method.client_streaming)


def _list_descriptors() -> list[MethodDescriptor]:
    return [method for service in COUNTED_SERVICES for method in service.methods]


def _name(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"
