"""Channelz, `grpc.channelz.v1`: what gRPC's core knows of the connections of this process, for tools as `grpcdebug`.

- grpcio-channelz's servicer answers. Gates are asked for its calls.
- The core walks over its connections with the interpreter's lock: GetServers takes 40 microseconds of CPU for each of
  them, 0.2 s with 5,000, in which nothing else is answered, whichever thread asks. The answers have the addresses of
  all callers. So channelz is not for strangers: see `Config`.
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
"""Its methods, as paths."""

_NOT_FOUND = Status(grpc.StatusCode.NOT_FOUND, "nothing of this kind has that number", ())


def build_methods() -> tuple[Method, ...]:
    """Returns the methods."""
    pairs = zip(NAMES, SERVICE.methods, strict=True)
    return tuple(build_method(name, partial(respond, method)) for name, method in pairs)


def respond(method: MethodDescriptor, raw: bytes) -> bytes:
    """Answers a message.

    Raises:
        ReshapeError: MESSAGE_MALFORMED.
        StatusError: NOT_FOUND, where nothing has the number that it asks for.
        RuntimeError: the answer of gRPC's core cannot be read.
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
    """What the servicer takes for the context of a call: it tells it why there is no answer."""

    code: grpc.StatusCode | None = None
    details = ""

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details
