"""The messages of the Open Inference Protocol, made in a descriptor pool of their own.

- Nothing of it is ever registered in protobuf's default pool. There, each name may come once, and a client of the
  protocol in the same process (tritonclient, kserve, mlserver) registers the same names from a file of its own:
  whichever is imported second would be a TypeError.
- Every class is kept as long as the process, those of inner messages too. Else protobuf makes them when they are asked
  for, and the collector takes them when nobody has a message of theirs. It clears them one after another while other
  threads go on: whoever makes a message of a class that is half cleared ends the process (SIGSEGV, protobuf 7.36).
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tensor_reshape.wire.fields import check_header_size, parse_message

InferMessage: TypeAlias = Any
"""Any message of the protocol, of whose fields nothing is known to a type checker: the pool has no generated types."""

InferRequest: TypeAlias = Any
"""A ModelInferRequest."""

InferTensor: TypeAlias = Any
"""An InferInputTensor, or an InferRequestedOutputTensor."""

Respond: TypeAlias = Callable[[InferMessage], InferMessage]
"""Answers a request that has been parsed."""


def _load_pool() -> DescriptorPool:
    pool = DescriptorPool()
    described = Path(__file__).with_name("open_inference.binpb").read_bytes()
    for file in FileDescriptorSet.FromString(described).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _load_pool()

SERVICE: ServiceDescriptor = _POOL.FindServiceByName("inference.GRPCInferenceService")
"""All methods that the file has; which of them are served, `methods` says."""


def _make_classes(descriptors: Iterable[Descriptor]) -> Iterator[tuple[str, type[Message]]]:
    for descriptor in descriptors:
        yield descriptor.full_name, GetMessageClass(descriptor)
        yield from _make_classes(descriptor.nested_types)


_CLASSES = dict(_make_classes(SERVICE.file.message_types_by_name.values()))


def find_class(name: str) -> type[Message]:
    """Returns the class of a message of the protocol."""
    return _CLASSES[f"{SERVICE.file.package}.{name}"]


def find_path(method: str) -> str:
    """Returns the full name of a method, as calls and servers take it."""
    return f"/{SERVICE.full_name}/{method}"


def build_answer(method: str, respond: Respond) -> Callable[[bytes], bytes]:
    """Returns what answers a method without tensors, bytes to bytes."""
    kind = find_class(f"{method}Request")

    def answer(raw: bytes) -> bytes:
        check_header_size(len(raw))
        return bytes(respond(parse_message(kind, raw)).SerializeToString())

    return answer
