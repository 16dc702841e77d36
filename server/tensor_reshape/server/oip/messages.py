"""The messages of the Open Inference Protocol, in a separate descriptor pool.

- Nothing is registered in protobuf's default pool, where each name may exist only once. Clients of the protocol in the
  same process (tritonclient, kserve, mlserver) register the same names, and the second import would raise TypeError.
- Every class is kept until the process ends, including those of nested messages. Otherwise protobuf creates a class
  when it is needed, and the garbage collector deletes it when no message uses it. The collector clears classes one
  after another while other threads run. A thread that creates a message of a half-cleared class ends the process
  (SIGSEGV, protobuf 7.36).
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
"""A message of the protocol. Type checkers know nothing about its fields, because the pool has no generated types."""

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
"""All methods in the file. `methods` lists those that are served."""


def _make_classes(descriptors: Iterable[Descriptor]) -> Iterator[tuple[str, type[Message]]]:
    for descriptor in descriptors:
        yield descriptor.full_name, GetMessageClass(descriptor)
        yield from _make_classes(descriptor.nested_types)


_CLASSES = dict(_make_classes(SERVICE.file.message_types_by_name.values()))


def find_class(name: str) -> type[Message]:
    """Returns the class of a message of the protocol."""
    return _CLASSES[f"{SERVICE.file.package}.{name}"]


def find_path(method: str) -> str:
    """Returns the full name of a method, as calls and servers use it."""
    return f"/{SERVICE.full_name}/{method}"


def encode(method: str, respond: Respond) -> Callable[[bytes], bytes]:
    """Returns a function from request bytes to response bytes for a method without tensors."""
    kind = find_class(f"{method}Request")
    return lambda raw: bytes(respond(parse_message(kind, raw)).SerializeToString())
