"""The messages of the Open Inference Protocol, in a separate descriptor pool (see `private_pools`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from tensor_reshape.server.service.private_pools import PrivatePool
from tensor_reshape.wire.fields import parse_message

InferMessage: TypeAlias = Any
"""A message of the protocol. The type is Any, because no type stubs describe the fields of these messages."""

InferRequest: TypeAlias = Any
"""A ModelInferRequest."""

InferTensor: TypeAlias = Any
"""An InferInputTensor or an InferRequestedOutputTensor."""

Respond: TypeAlias = Callable[[InferMessage], InferMessage]
"""Returns the response to a parsed request."""


_POOL = PrivatePool(Path(__file__).with_name("open_inference.binpb").read_bytes())

SERVICE: ServiceDescriptor = _POOL.find_service("GRPCInferenceService")
"""The descriptor of the service with all methods of the protocol.

The module `methods` lists the methods that this server has.
"""


def find_class(name: str) -> type[Message]:
    """Returns the class for a message of the Open Inference Protocol."""
    return _POOL.find_class(name)


def find_path(method: str) -> str:
    """Returns the full path of a method of the Open Inference Protocol."""
    return f"/{SERVICE.full_name}/{method}"


def encode(method: str, respond: Respond) -> Callable[[bytes], bytes]:
    """Returns a function that decodes a request of `method`, calls `respond`, and encodes the response."""
    kind = find_class(f"{method}Request")
    return lambda raw: bytes(respond(parse_message(kind, raw)).SerializeToString())
