"""What one replica of a Ray Serve deployment answers, and what Ray's gRPC proxies are told of it.

- Messages go through the proxy as bytes: `service` alone reads them. Ray Serve asks what a replica returns for its
  bytes (`Message`).
- Ray Serve decides how many calls a replica has, and where others wait: nothing of this server's admission is here.
- A call begins on the event loop of the replica; what takes long goes to a thread.
- A refusal of a unary call has its details. Of a stream, Ray Serve passes on the code and the text alone.
- Nothing here imports Ray.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol

import grpc

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.limits import Limits
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.fair_locks import FairLock
from tensor_reshape.server.engine.statuses import INTERNAL_ERROR
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.status import Status, encode_refusal

_METHODS = ReshapeService(Limits()).methods
_UNARY = [method.name for method in _METHODS.unary]
_STREAMS = [stream.name for stream in _METHODS.streams]
_SETTINGS = ("max_message_bytes",)
_LOGGER = logging.getLogger(__name__)


class Message(NamedTuple):
    """A message that is serialized already.

    Attributes:
        raw: its bytes.
    """

    raw: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802 - as protobuf calls it
        """Returns its bytes."""
        return self.raw


class Context(Protocol):
    """What a replica may say about a call, as Ray Serve has it."""

    def set_code(self, code: grpc.StatusCode) -> None:
        """Says how it ends."""

    def set_details(self, details: str) -> None:
        """Says why."""

    def set_trailing_metadata(self, trailing_metadata: list[tuple[str, str | bytes]]) -> None:
        """Says more."""


class EndedError(Exception):
    """The end of a stream, of whose status the context has been told."""


class ReshapeReplica:
    """One replica; it has a method for each of the contract, by its short name, as Ray Serve looks for them."""

    def __init__(self, limits: Limits) -> None:
        """Answers within `limits`."""
        methods = ReshapeService(limits, make_turns=FairLock).methods
        self._unary = {method.name: method for method in methods.unary}
        self._streams = {stream.name: stream for stream in methods.streams}

    async def answer(self, path: str, request: bytes, context: Context) -> Message:
        """Answers a unary call; a bad end is told to the context, and what is returned then is not sent."""
        method = self._unary[path]
        try:
            light = method.answer_light(request)
            return Message(light if light is not None else await asyncio.to_thread(method.answer, request, _never))
        except Exception as error:  # noqa: BLE001 - Ray Serve would tell the caller its text
            _tell(context, choose_status(error, path))
            return Message(b"")

    async def answer_stream(
        self, path: str, requests: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[Message]:
        """Answers a stream, whose bad end is told to the context."""
        session = self._streams[path].open(_hold_nothing)
        try:
            async for request in requests:
                is_long = session.takes_long(request)  # first: what it finds out, `receive` takes up
                received = session.receive(request)
                for raw in await asyncio.to_thread(list, received) if is_long else received:
                    yield Message(raw)
            session.finish()
        except Exception as error:  # noqa: BLE001 - as above
            status = choose_status(error, path)
            _tell(context, status)
            raise EndedError(status.details) from None


def read_limits(arguments: Mapping[str, Any]) -> Limits:
    """Returns the limits that the arguments of an application ask for.

    Args:
        arguments: settings of the server by their names in `Config`: only `max_message_bytes`, which limits a
            response. Ray Serve limits requests.

    Raises:
        ValueError: another setting, which would do nothing: Ray Serve decides.
        ConfigError: a value that the server would not take.
    """
    if others := sorted(set(arguments) - set(_SETTINGS)):
        message = f"{', '.join(others)}: a replica accepts only {', '.join(_SETTINGS)}"
        raise ValueError(message)
    return Config(**arguments).limits


def add_reshape_service(_servicer: object, server: grpc.Server) -> None:
    """Tells a proxy of Ray Serve which methods there are; it puts its own behavior in place of what is here."""
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        **{_shorten(path): grpc.unary_unary_rpc_method_handler(_refuse) for path in _UNARY},
        **{_shorten(path): grpc.stream_stream_rpc_method_handler(_refuse) for path in _STREAMS},
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


def choose_status(error: Exception, method: str) -> Status:
    """Returns what a call ends with whose work raised `error`: all of a refusal, nothing of a bug."""
    if isinstance(error, ReshapeError):
        return encode_refusal(error)
    _LOGGER.error("bug", exc_info=error, extra={"method": method})
    return Status(grpc.StatusCode.INTERNAL, INTERNAL_ERROR, ())


def _refuse(_request: object, context: grpc.ServicerContext) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "this is no proxy of Ray Serve")


def _tell(context: Context, status: Status) -> None:
    context.set_code(status.code)
    context.set_details(status.details)
    context.set_trailing_metadata(list(status.trailing_metadata))


def _shorten(path: str) -> str:
    return path.rpartition("/")[2]


def _never() -> bool:
    return False


def _hold_nothing(_size: int) -> None:
    """Takes room nowhere: what a session collects is bounded by the largest message."""


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


# By their names, and with the context by its name: so Ray Serve finds them and what they take.
for _path in _UNARY:
    setattr(ReshapeReplica, _shorten(_path), _answer(_path))
for _path in _STREAMS:
    setattr(ReshapeReplica, _shorten(_path), _answer_stream(_path))
