"""Builds a server on gRPC's core, with a route for each method."""

from collections.abc import Sequence
from functools import partial

from tensor_reshape.server.calls.sources import Source, Sources
from tensor_reshape.server.engine.admission_queues import AdmissionQueue
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.engine.stall_timeouts import reject_busy
from tensor_reshape.server.grpc.calls import Call, NewCall
from tensor_reshape.server.grpc.handlers import StreamCall, UnaryCall, WatchCall
from tensor_reshape.server.grpc.servers import Lane, Route, Server
from tensor_reshape.server.telemetry.call_logs import log_refusal
from tensor_reshape.wire.status import Status, encode_rejection

# The error text is the same as that of grpcio's own server.
_UNIMPLEMENTED = Status("UNIMPLEMENTED", "Method not found!", ())


def build_server(services: Sequence[Service], options: Sequence[tuple[str, int]]) -> Server:
    """Returns a server that does not listen yet.

    Args:
        services: the services to serve.
        options: channel arguments of gRPC's core.
    """
    routes: dict[str, Route] = {}
    for service in services:
        queue = AdmissionQueue[NewCall](service.engine.has_room)
        limit = f"the limit of running calls is {service.engine.max_calls} (--max-calls)"
        busy = reject_busy(f"the call could not begin in time, because too many calls wait; {limit}; retry later")
        lane = Lane(queue, partial(_RefusedCall, service.engine, encode_rejection(busy)))
        for method in service.methods.unary:
            routes[method.name] = Route(partial(UnaryCall, service, method), lane)
        for stream in service.methods.streams:
            routes[stream.name] = Route(partial(StreamCall, service, stream), lane)
        for watch in service.methods.watches:
            routes[watch.name] = Route(partial(WatchCall, service, watch), lane)
    sources = services[0].sources if services else Sources()
    return Server(routes, _UnknownCall, partial(_find_source, sources), options)


class _UnknownCall(Call):
    """A call to a method that does not exist."""

    def begin(self) -> None:
        """Ends the call with UNIMPLEMENTED (see `Call`)."""
        self.finish(_UNIMPLEMENTED)

    def on_message(self, raw: bytes | None) -> None:
        """Does nothing. This method is never called, because a call of an unknown method receives no message."""

    def on_over(self) -> None:
        """Does nothing, because a call of an unknown method holds no memory."""


class _RefusedCall(Call):
    """A call that has waited too long in an admission queue, or for which the queues are too full.

    All refusals have the same status, and the log has one line for an address and second, because a server under attack
    refuses thousands of calls.
    """

    def __init__(self, engine: Engine, status: Status, new: NewCall) -> None:
        super().__init__(str(new.method, "utf8", "replace"), new)
        self._engine, self._status = engine, status

    def begin(self) -> None:
        """Ends the call with SERVER_BUSY (see `Call`)."""
        self._engine.count_refusal(self.method)
        log_refusal(self.source.address)
        self.finish(self._status)

    def on_message(self, raw: bytes | None) -> None:
        """Does nothing. This method is never called, because a refused call receives no message."""

    def on_over(self) -> None:
        """Does nothing, because a refused call holds no memory."""


def _find_source(sources: Sources, new: NewCall) -> Source:
    return sources.find(new.peer, new.metadata)
