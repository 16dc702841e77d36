"""Builds a server on gRPC's core, with a route for each method."""

from collections.abc import Sequence
from functools import partial

import grpc

from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.engine.sources import Source, Sources
from tensor_reshape.server.grpc_core.calls import Call, NewCall
from tensor_reshape.server.grpc_core.servers import Make, Server
from tensor_reshape.server.handlers.calls import StreamCall, UnaryCall, WatchCall
from tensor_reshape.wire.status import Status

# The error text is the same as that of grpcio's own server.
_UNIMPLEMENTED = Status(grpc.StatusCode.UNIMPLEMENTED, "Method not found!", ())


def build_core_server(services: Sequence[Service], options: Sequence[tuple[str, int]]) -> Server:
    """Returns a server for the methods of `services`, which does not listen yet (see `transports.build_server`)."""
    routes: dict[str, Make] = {}
    for service in services:
        for method in service.methods.unary:
            routes[method.name] = partial(UnaryCall, service, method)
        for stream in service.methods.streams:
            routes[stream.name] = partial(StreamCall, service, stream)
        for watch in service.methods.watches:
            routes[watch.name] = partial(WatchCall, service, watch)
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


def _find_source(sources: Sources, new: NewCall) -> Source:
    return sources.find(new.peer, new.metadata)
