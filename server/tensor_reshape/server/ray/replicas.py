"""Implements a replica of a Ray Serve deployment. Ray's gRPC proxies call `add_reshape_service` to find its methods.

- Messages pass through the proxy of Ray Serve as bytes, and only the package `service` parses them. Ray Serve
  serializes a response by calling the response's method `SerializeToString`. The replica therefore returns a `Message`,
  which has this method.
- Ray Serve limits and queues the calls of a replica, so a replica does not use the admission control of the package
  `engine`.
- A call starts on the event loop of the replica, and work that takes long runs on another thread.
- The error of a unary call contains the error details. For the error of a stream, Ray Serve forwards only the status
  code and the text.
- This module does not import Ray.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol

import grpc

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.limits import Limits
from tensor_reshape.server.calls.statuses import INTERNAL_ERROR
from tensor_reshape.server.config import Config
from tensor_reshape.server.process.pools import FairLock
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.wire.methods import SERVICE, split_method
from tensor_reshape.wire.status import Status, encode_rejection

_METHODS = ReshapeService(Limits()).methods
_UNARY = [method.name for method in _METHODS.unary]
_STREAMS = [stream.name for stream in _METHODS.streams]
_SETTINGS = ("max_message_bytes",)
_LOGGER = logging.getLogger(__name__)


class Message(NamedTuple):
    """A serialized message, in the form that Ray Serve expects.

    Attributes:
        raw: the bytes of the message.
    """

    raw: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name in protobuf
        """Returns the bytes of the message."""
        return self.raw


class Context(Protocol):
    """The interface of Ray Serve's context for a call. The replica writes the status of the call into the context."""

    def set_code(self, code: grpc.StatusCode) -> None:
        """Sets the gRPC status code of the call."""

    def set_details(self, details: str) -> None:
        """Sets the text of the status."""

    def set_trailing_metadata(self, trailing_metadata: list[tuple[str, str | bytes]]) -> None:
        """Sets the trailing metadata of the call."""


class EndedError(Exception):
    """Ends a stream that has failed, after its status has been set in the context."""


class ReshapeReplica:
    """Serves the calls of one Ray Serve replica.

    The class has a Python method for each gRPC method of the API. Ray Serve requires that both methods have the same
    name, without the name of the service.
    """

    def __init__(self, limits: Limits) -> None:
        """Creates a replica whose calls must stay within `limits`."""
        methods = ReshapeService(limits, make_turns=FairLock).methods
        self._unary = {method.name: method for method in methods.unary}
        self._streams = {stream.name: stream for stream in methods.streams}

    async def answer(self, path: str, request: bytes, context: Context) -> Message:
        """Serves a unary call. If the call fails, its status is set in the context, and Ray Serve sends no message."""
        method = self._unary[path]
        try:
            response = method.respond_light(request)
            if response is None:
                response = await asyncio.to_thread(method.respond, request, lambda: False)
            return Message(response)
        except Exception as error:  # noqa: BLE001 - Ray Serve would send its text to the client
            _fail(context, error, path)
            return Message(b"")

    async def answer_stream(
        self, path: str, requests: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[Message]:
        """Serves a stream. If the call fails, its status is set in the context."""
        # No memory is reserved, because the maximum message size already limits the memory of a session.
        session = self._streams[path].open(lambda _size: None)
        try:
            async for request in requests:
                # The method `estimate` is called before `receive`, because `receive` uses the message that `estimate`
                # has parsed.
                is_long = session.estimate(request).takes_long
                received = session.receive(request)
                for raw in await asyncio.to_thread(list, received) if is_long else received:
                    yield Message(raw)
            session.finish()
        except Exception as error:  # noqa: BLE001 - as above
            raise EndedError(_fail(context, error, path)) from None


def read_limits(arguments: Mapping[str, Any]) -> Limits:
    """Returns the limits that the arguments of the Ray Serve application set.

    Args:
        arguments: settings of the server, by their names in `Config`. Only the setting `max_message_bytes` is accepted.
            It limits the size of responses, and Ray Serve itself limits the size of requests.

    Raises:
        ValueError: the arguments contain another setting, which would have no effect in a replica.
        ConfigError: the value of the setting is invalid.
    """
    if others := sorted(set(arguments) - set(_SETTINGS)):
        message = f"a replica accepts only {', '.join(_SETTINGS)}. Remove {', '.join(others)}"
        raise ValueError(message)
    return Config(**arguments).limits


def add_reshape_service(_servicer: object, server: grpc.Server) -> None:
    """Registers the gRPC methods with a proxy of Ray Serve. The proxy replaces these handlers with its own handlers."""
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        **{split_method(path)[1]: grpc.unary_unary_rpc_method_handler(_reject) for path in _UNARY},
        **{split_method(path)[1]: grpc.stream_stream_rpc_method_handler(_reject) for path in _STREAMS},
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


def _fail(context: Context, error: Exception, method: str) -> str:
    """Sets the status of a call that has failed with `error`, and returns the text of the status.

    If the request is at fault, the status describes the error. If the error is a bug, the status contains no details.
    """
    if isinstance(error, ReshapeError):
        status = encode_rejection(error)
    else:
        _LOGGER.error("bug", exc_info=error, extra={"method": method})
        status = Status("INTERNAL", INTERNAL_ERROR, ())
    context.set_code(grpc.StatusCode[status.code])
    context.set_details(status.details)
    context.set_trailing_metadata(list(status.trailing_metadata))
    return status.details


def _reject(_request: object, context: grpc.ServicerContext) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "only a proxy of Ray Serve serves this method")


def _answer(path: str) -> Callable[[ReshapeReplica, bytes, Context], Awaitable[Message]]:
    async def answer(replica: ReshapeReplica, request: bytes, grpc_context: Context) -> Message:
        return await replica.answer(path, request, grpc_context)

    return answer


def _answer_stream(path: str) -> Callable[[ReshapeReplica, AsyncIterator[bytes], Context], AsyncIterator[Message]]:
    async def answer(
        replica: ReshapeReplica, requests: AsyncIterator[bytes], grpc_context: Context
    ) -> AsyncIterator[Message]:
        async for message in replica.answer_stream(path, requests, grpc_context):
            yield message

    return answer


# The loops add a Python method for each gRPC method, because Ray Serve finds methods by their names. Ray Serve passes
# the context only to a parameter named `grpc_context`.
for _path in _UNARY:
    setattr(ReshapeReplica, split_method(_path)[1], _answer(_path))
for _path in _STREAMS:
    setattr(ReshapeReplica, split_method(_path)[1], _answer_stream(_path))
