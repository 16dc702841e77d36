"""Reflection, `grpc.reflection.v1` and `v1alpha`: what is served, for tools that do not have its files.

- Both versions are one protocol under two names, message by message and number by number. grpcio-reflection has only
  `v1alpha`, so its messages serve both, and the file that describes `v1` is made from the one of `v1alpha`.
- Answers come from a descriptor pool of their own. It has the files of the services, of what they import, and of the
  details of refusals, and nothing else that the process has imported. A service may come from any pool.
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
    """Answers each message of a reflection stream by itself, by grpcio-reflection's servicer.

    Attributes:
        names: of its methods, as paths.
    """

    def __init__(self, services: Iterable[ServiceDescriptor]) -> None:
        """Knows the services of this server, and those of reflection itself."""
        own = (reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"], _describe_v1())
        served = (*services, *own)
        self.names = [f"/{service.full_name}/ServerReflectionInfo" for service in own]
        pool = _build_pool((*(service.file for service in served), error_details_pb2.DESCRIPTOR))
        self._servicer = reflection.ReflectionServicer([service.full_name for service in served], pool)

    def build_methods(self) -> tuple[StreamMethod, ...]:
        """Returns the methods."""
        return tuple(build_exchange(name, self.respond) for name in self.names)

    def respond(self, raw: bytes) -> bytes:
        """Answers a message.

        Raises:
            ReshapeError: MESSAGE_MALFORMED.
        """
        request = parse_message(reflection_pb2.ServerReflectionRequest, raw)
        (response,) = self._servicer.ServerReflectionInfo(iter((request,)), None)
        return bytes(response.SerializeToString())


def _describe_v1() -> ServiceDescriptor:
    described = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(described)
    # As text, since the version is in the names of the package, of every type, and of the packages of other languages.
    file = text_format.Parse(text_format.MessageToString(described).replace("v1alpha", "v1"), FileDescriptorProto())
    file.name = "grpc/reflection/v1/reflection.proto"  # what it is called where it is published
    file.options.ClearField("deprecated")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindServiceByName(f"{file.package}.ServerReflection")


def _build_pool(files: Iterable[FileDescriptor]) -> DescriptorPool:
    """Returns a pool of these files and of all that they import.

    Raises:
        TypeError: two of them have the same name, or names in them, and are not the same.
    """
    pool = DescriptorPool()

    def add(file: FileDescriptor) -> None:
        for imported in file.dependencies:
            add(imported)
        pool.AddSerializedFile(file.serialized_pb)  # once more changes nothing

    for file in files:
        add(file)
    return pool
