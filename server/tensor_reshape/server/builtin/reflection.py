"""Reflection, `grpc.reflection.v1` and `v1alpha`: the API description for tools without the `.proto` files.

- Both versions have the same messages and field numbers. grpcio-reflection has only `v1alpha`, so its messages serve
  both, and the file descriptor of `v1` is made from that of `v1alpha`.
- The responses come from a separate descriptor pool. It contains the files of the services, their imports, and the
  error details, but no other files that the process has imported. The services may come from any pool.
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
    """Responds to each message of a reflection stream, with grpcio-reflection's servicer.

    Attributes:
        names: the method paths.
    """

    def __init__(self, services: Iterable[ServiceDescriptor]) -> None:
        """Describes `services` and reflection itself."""
        own = (reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"], _describe_v1())
        served = (*services, *own)
        self.names = [f"/{service.full_name}/ServerReflectionInfo" for service in own]
        pool = _build_pool((*(service.file for service in served), error_details_pb2.DESCRIPTOR))
        self._servicer = reflection.ReflectionServicer([service.full_name for service in served], pool)

    def build_methods(self) -> tuple[StreamMethod, ...]:
        """Returns the methods."""
        return tuple(build_exchange(name, self.respond) for name in self.names)

    def respond(self, raw: bytes) -> bytes:
        """Returns the response to a message.

        Raises:
            ReshapeError: MESSAGE_MALFORMED.
        """
        request = parse_message(reflection_pb2.ServerReflectionRequest, raw)
        (response,) = self._servicer.ServerReflectionInfo(iter((request,)), None)
        return bytes(response.SerializeToString())


def _describe_v1() -> ServiceDescriptor:
    described = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(described)
    # Replaced in text form, because the version is part of the package name, of every type name, and of options.
    file = text_format.Parse(text_format.MessageToString(described).replace("v1alpha", "v1"), FileDescriptorProto())
    file.name = "grpc/reflection/v1/reflection.proto"  # its published path
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
        pool.AddSerializedFile(file.serialized_pb)  # adding a file twice has no effect

    for file in files:
        add(file)
    return pool
