"""The messages of the Open Inference Protocol, in a separate descriptor pool.

- No message of the protocol is registered in protobuf's default pool, which allows each name only once. Client
  libraries of the protocol (tritonclient, kserve, mlserver) register the same names in the default pool. If this module
  also registered them, the second import in a process would raise TypeError.
- All message classes, including those of nested messages, are kept until the process ends. Otherwise protobuf would
  create a message class on demand, and the garbage collector would delete the class when no message uses it. The
  garbage collector clears such classes while other threads run. If a thread then creates a message of a half-cleared
  class, the process crashes (SIGSEGV, protobuf 7.36).
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tensor_reshape.wire.fields import parse_message

InferMessage: TypeAlias = Any
"""A message of the protocol. The type is Any, because no type stubs describe the fields of these messages."""

InferRequest: TypeAlias = Any
"""A ModelInferRequest."""

InferTensor: TypeAlias = Any
"""An InferInputTensor or an InferRequestedOutputTensor."""

Respond: TypeAlias = Callable[[InferMessage], InferMessage]
"""Returns the response to a parsed request."""


def _load_pool() -> DescriptorPool:
    pool = DescriptorPool()
    described = Path(__file__).with_name("open_inference.binpb").read_bytes()
    for file in FileDescriptorSet.FromString(described).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _load_pool()

SERVICE: ServiceDescriptor = _POOL.FindServiceByName("inference.GRPCInferenceService")
"""The descriptor of the service with all methods of the protocol.

The module `methods` lists the methods that this server has.
"""


def _make_classes(descriptors: Iterable[Descriptor]) -> Iterator[tuple[str, type[Message]]]:
    for descriptor in descriptors:
        yield descriptor.full_name, GetMessageClass(descriptor)
        yield from _make_classes(descriptor.nested_types)


_CLASSES = dict(_make_classes(SERVICE.file.message_types_by_name.values()))


def find_class(name: str) -> type[Message]:
    """Returns the class for a message of the Open Inference Protocol."""
    return _CLASSES[f"{SERVICE.file.package}.{name}"]


def find_path(method: str) -> str:
    """Returns the full path of a method of the Open Inference Protocol."""
    return f"/{SERVICE.full_name}/{method}"


def encode(method: str, respond: Respond) -> Callable[[bytes], bytes]:
    """Returns a function that decodes a request of `method`, calls `respond`, and encodes the response."""
    kind = find_class(f"{method}Request")
    return lambda raw: bytes(respond(parse_message(kind, raw)).SerializeToString())
