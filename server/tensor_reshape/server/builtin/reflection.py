"""Reflection (`grpc.reflection.v1` and `v1alpha`) describes the API to tools that do not have the `.proto` files.

- The package grpcio-reflection contains only the version `v1alpha` of the reflection API. The versions `v1` and
  `v1alpha` have the same messages and field numbers, so the messages of `v1alpha` are used for both. The file
  descriptor of the version `v1` is made from the file descriptor of `v1alpha`.
- The reflection responses come from a separate descriptor pool. The descriptor pool of reflection contains the proto
  files of the services, the files that they import, and the file of the error details. This pool does not contain other
  proto files that the process has imported. The services that reflection describes may have been loaded into any
  descriptor pool.
"""

from collections.abc import Iterable

from google.protobuf import text_format
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from tensor_reshape.server.builtin.methods import build_exchange
from tensor_reshape.server.service.method_tables import StreamMethod
from tensor_reshape.wire.fields import parse_message


class Reflection:
    """Responds to the messages of reflection streams. The responses come from grpcio-reflection's servicer.

    Attributes:
        names: the paths of the reflection methods.
    """

    def __init__(self, services: Iterable[ServiceDescriptor]) -> None:
        """Describes `services` and reflection itself."""
        own = (reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"], _describe_v1())
        served = (*services, *own)
        self.names = [f"/{service.full_name}/ServerReflectionInfo" for service in own]
        pool = _build_pool((*(service.file for service in served), error_details_pb2.DESCRIPTOR))
        self._servicer = reflection.ReflectionServicer([service.full_name for service in served], pool)

    def build_methods(self) -> tuple[StreamMethod, ...]:
        """Returns the reflection methods."""
        return tuple(build_exchange(name, self.respond) for name in self.names)

    def respond(self, raw: bytes) -> bytes:
        """Returns the response to a message.

        Raises:
            ReshapeError: the reason is MESSAGE_MALFORMED.
        """
        request = parse_message(reflection_pb2.ServerReflectionRequest, raw)
        (response,) = self._servicer.ServerReflectionInfo(iter((request,)), None)
        return bytes(response.SerializeToString())


def _describe_v1() -> ServiceDescriptor:
    described = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(described)
    # The name `v1alpha` occurs in the package name, in all type names and in options. In the text form of the file
    # descriptor, one `replace` changes all these names.
    file = text_format.Parse(text_format.MessageToString(described).replace("v1alpha", "v1"), FileDescriptorProto())
    file.name = "grpc/reflection/v1/reflection.proto"  # the path of the published .proto file for `v1`
    file.options.ClearField("deprecated")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindServiceByName(f"{file.package}.ServerReflection")


def _build_pool(files: Iterable[FileDescriptor]) -> DescriptorPool:
    """Returns a pool with these files and all their imports.

    Raises:
        TypeError: two different files have the same path or define the same name.
    """
    pool = DescriptorPool()

    def add(file: FileDescriptor) -> None:
        for imported in file.dependencies:
            add(imported)
        pool.AddSerializedFile(file.serialized_pb)  # adding a file to a descriptor pool twice has no effect

    for file in files:
        add(file)
    return pool
