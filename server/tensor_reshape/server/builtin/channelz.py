"""Channelz, `grpc.channelz.v1`: information about the connections of this process, for tools such as `grpcdebug`.

- grpcio-channelz's servicer computes the responses. The gates check its calls.
- Channelz is not for untrusted clients (see `Config`). The core visits its connections while it holds the interpreter's
  lock: GetServers takes 40 us for each of them, or 0.2 s for 5,000. During that time no other call is served. The
  responses contain the addresses of all clients.
"""

from collections.abc import Callable
from functools import partial

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_channelz.v1 import channelz_pb2
from grpc_channelz.v1.channelz import ChannelzServicer

from tensor_reshape.server.builtin.methods import build_method
from tensor_reshape.server.engine.statuses import StatusError
from tensor_reshape.server.service.method_tables import Method
from tensor_reshape.wire.fields import parse_message
from tensor_reshape.wire.status import Status

SERVICE = channelz_pb2.DESCRIPTOR.services_by_name["Channelz"]

NAMES = tuple(f"/{SERVICE.full_name}/{method.name}" for method in SERVICE.methods)
"""The method paths."""

_NOT_FOUND = Status(grpc.StatusCode.NOT_FOUND, "no channel, subchannel, server or socket has this id", ())


def build_methods() -> tuple[Method, ...]:
    """Returns the methods."""
    pairs = zip(NAMES, SERVICE.methods, strict=True)
    return tuple(build_method(name, partial(respond, method)) for name, method in pairs)


def respond(method: MethodDescriptor, raw: bytes) -> bytes:
    """Returns the response to a message.

    Raises:
        ReshapeError: MESSAGE_MALFORMED.
        StatusError: NOT_FOUND if the requested id does not exist.
        RuntimeError: the response of gRPC's core cannot be read.
    """
    request = parse_message(GetMessageClass(method.input_type), raw)
    ask: Callable[[Message, _Outcome], Message | None] = getattr(ChannelzServicer, method.name)
    outcome = _Outcome()
    response = ask(request, outcome)
    if response is not None:
        return response.SerializeToString()
    if outcome.code is grpc.StatusCode.NOT_FOUND:
        raise StatusError(_NOT_FOUND)
    raise RuntimeError(outcome.details)


class _Outcome:
    """Replaces the context of a call for the servicer, which reports errors to it."""

    code: grpc.StatusCode | None = None
    details = ""

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details
