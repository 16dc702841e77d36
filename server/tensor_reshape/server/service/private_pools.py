"""Loads the protobuf messages of other projects into separate descriptor pools.

- Protobuf's default pool allows each name only once. Other packages in the process (tritonclient, kserve,
  grpcio-health-checking) register the same names in the default pool. If this server also registered these names, the
  second import in a process would raise TypeError.
- Generated Python modules reject a protobuf release that is older than their generator. A file with descriptors works
  with every release of protobuf.
"""

from collections.abc import Iterable, Iterator

from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass


class PrivatePool:
    """The services and message classes of a `.proto` file that imports no other file.

    The pool keeps all message classes, including the classes of nested messages. Keep the pool itself until the process
    ends. Otherwise, protobuf would create a message class on demand, and the garbage collector would delete the class
    when no message uses it. The garbage collector may clear the class while other threads run. If a thread then creates
    a message of a half-cleared class, the process crashes (SIGSEGV, protobuf 7.36).
    """

    def __init__(self, described: bytes) -> None:
        """Loads the file from an encoded `FileDescriptorSet`, which `protos/generate.py` has written."""
        (file,) = FileDescriptorSet.FromString(described).file
        pool = DescriptorPool()
        pool.AddSerializedFile(file.SerializeToString())
        self._file = pool.FindFileByName(file.name)
        self._classes = dict(_make_classes(self._file.message_types_by_name.values()))

    def find_service(self, name: str) -> ServiceDescriptor:
        """Returns the descriptor of a service by its name without the package."""
        return self._file.services_by_name[name]

    def find_class(self, name: str) -> type[Message]:
        """Returns the class of a message by its name without the package."""
        return self._classes[f"{self._file.package}.{name}"]


def _make_classes(descriptors: Iterable[Descriptor]) -> Iterator[tuple[str, type[Message]]]:
    for descriptor in descriptors:
        yield descriptor.full_name, GetMessageClass(descriptor)
        yield from _make_classes(descriptor.nested_types)
