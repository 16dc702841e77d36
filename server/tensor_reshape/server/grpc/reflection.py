"""Reflection (`grpc.reflection.v1` and `v1alpha`) describes the API to tools that do not have the `.proto` files.

- The versions `v1` and `v1alpha` have the same messages and field numbers, so the messages of `v1` are used for both.
  The file descriptor of the version `v1alpha` is made from the file descriptor of `v1`.
- The reflection responses come from a separate descriptor pool. This pool contains the proto files of the described
  services, the files that they import, and the file of the error details. It does not contain other proto files that
  the process has imported. The described services may have been loaded into any other descriptor pool.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import text_format
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc import error_details_pb2

from tensor_reshape.server.service.method_tables import Estimate, StreamMethod, limit_header
from tensor_reshape.server.service.private_pools import PrivatePool
from tensor_reshape.wire.fields import parse_message

_POOL = PrivatePool(Path(__file__).with_name("reflection.binpb").read_bytes())
_SERVICE = _POOL.find_service("ServerReflection")
_Request: Any = _POOL.find_class("ServerReflectionRequest")
_Response: Any = _POOL.find_class("ServerReflectionResponse")


class Reflection:
    """Responds to the messages of reflection streams.

    Attributes:
        names: the paths of the reflection methods.
    """

    def __init__(self, services: Iterable[ServiceDescriptor]) -> None:
        """Prepares descriptions of `services` and of the reflection services themselves."""
        own = (_SERVICE, _describe_v1alpha())
        served = (*services, *own)
        self.names = [f"/{service.full_name}/ServerReflectionInfo" for service in own]
        self._services = sorted(service.full_name for service in served)
        self._pool = DescriptorPool()
        for described in (*(service.file for service in served), error_details_pb2.DESCRIPTOR):
            for file in _list_files(described):
                self._pool.AddSerializedFile(file.serialized_pb)  # adding a file twice has no effect

    def build_methods(self) -> tuple[StreamMethod, ...]:
        """Returns the reflection methods."""
        return tuple(StreamMethod(name, lambda _reserve: _Exchange(limit_header(self.respond))) for name in self.names)

    def respond(self, raw: bytes) -> bytes:
        """Returns the response to a message.

        Raises:
            ReshapeError: the reason is MESSAGE_MALFORMED.
        """
        request = parse_message(_Request, raw)
        try:
            found = self._find(request)
        except KeyError:  # the pool has no such file or symbol
            found = _describe_error(grpc.StatusCode.NOT_FOUND)
        return bytes(_Response(original_request=request, **found).SerializeToString())

    def _find(self, request: Any) -> dict[str, Any]:  # noqa: ANN401 - no type stubs describe this message
        """Returns the response field that answers a request."""
        kind = request.WhichOneof("message_request")
        if kind is None:
            return _describe_error(grpc.StatusCode.INVALID_ARGUMENT)
        asked = getattr(request, kind)
        match kind:
            case "file_by_filename":
                return _describe_file(self._pool.FindFileByName(asked))
            case "file_containing_symbol":
                return _describe_file(self._pool.FindFileContainingSymbol(asked))
            case "file_containing_extension":
                extended = self._pool.FindMessageTypeByName(asked.containing_type)
                extension = self._pool.FindExtensionByNumber(extended, asked.extension_number)
                return _describe_file(self._pool.FindFileContainingSymbol(extension.full_name))
            case "all_extension_numbers_of_type":
                extensions = self._pool.FindAllExtensions(self._pool.FindMessageTypeByName(asked))
                numbers = sorted(extension.number for extension in extensions)
                return {"all_extension_numbers_response": {"base_type_name": asked, "extension_number": numbers}}
            case _:
                return {"list_services_response": {"service": [{"name": name} for name in self._services]}}


class _Exchange:
    """The `Session` of a stream that sends one response for each request message."""

    is_between_tensors = True

    def __init__(self, respond: Callable[[bytes], bytes]) -> None:
        self._respond = respond

    def receive(self, raw: bytes) -> Iterator[bytes]:
        yield self._respond(raw)

    def estimate(self, raw: bytes) -> Estimate:
        return Estimate(takes_long=False, needed_bytes=len(raw))

    def finish(self) -> None:
        pass


def _describe_file(file: FileDescriptor) -> dict[str, Any]:
    """Returns a response field that contains a file and all its imports. Clients expect the requested file first."""
    files = {one.name: one.serialized_pb for one in _list_files(file)}
    return {"file_descriptor_response": {"file_descriptor_proto": reversed(files.values())}}


def _describe_error(status: grpc.StatusCode) -> dict[str, Any]:
    number, text = status.value
    return {"error_response": {"error_code": number, "error_message": text}}


def _list_files(file: FileDescriptor) -> Iterator[FileDescriptor]:
    """Yields each file after its imports. A file that is imported several times is yielded several times."""
    for imported in file.dependencies:
        yield from _list_files(imported)
    yield file


def _describe_v1alpha() -> ServiceDescriptor:
    described = FileDescriptorProto()
    _SERVICE.file.CopyToProto(described)
    # The file descriptor contains `v1` in its path, in the package name, in all type names and in options. In the text
    # form of the file descriptor, one `replace` changes all of them.
    file = text_format.Parse(text_format.MessageToString(described).replace("v1", "v1alpha"), FileDescriptorProto())
    file.options.deprecated = True
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindServiceByName(f"{file.package}.{_SERVICE.name}")
