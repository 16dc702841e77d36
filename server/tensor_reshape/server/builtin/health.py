"""`grpc.health.v1`: the status of the server, and its watchers. `builtin.calls` and `stock` send what is answered here.

No lock is held while watchers look for news. grpcio-health-checking's servicer sends under a lock that a leaving
watcher needs, which can stop the server.
"""

from typing import Protocol

import grpc
from grpc_health.v1 import health_pb2

from tensor_reshape.server.builtin.bounded_calls import MAX_SILENT, BoundedCall, end_calls, make_room
from tensor_reshape.server.builtin.call_slots import CallSlots
from tensor_reshape.wire.fields import parse_message
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.status import Status

MAX_WATCHES = 4096
"""How many watches may be open."""

MAX_WATCHES_PER_CONNECTION = 16
"""A client has one for each service that it calls."""

_Response = health_pb2.HealthCheckResponse
_SERVICES = ("", SERVICE)


class Watcher(BoundedCall, Protocol):
    """A call of Watch."""

    def look(self) -> None:
        """Asks the call's `Watch` for news; called on any thread."""


class Watch:
    """What one watcher knows, and is to know."""

    def __init__(self, health: "Health", *, known: bool) -> None:
        """Knows nothing. Of the service it keeps whether this server has it: a name may be long."""
        self._health = health
        self._known = known
        self._told: bytes | None = None

    @property
    def is_over(self) -> bool:
        """Whether there will be no more news."""
        return self._health.is_over

    def find_news(self) -> bytes | None:
        """Returns the message that the watcher is to be sent now, if there is one. The calls come one at a time."""
        # Compared with what was told, not counted: who reads slowly is told the latest, not all that has been.
        latest = self._health.describe(known=self._known)
        if latest == self._told:
            return None
        self._told = latest
        return latest


class Health:
    """The status of this server: as a whole ("") and by the name of its service.

    Attributes:
        is_over: whether all watches end.
        silent: the calls whose message has not come.
    """

    def __init__(self) -> None:
        """Starts with SERVING: it is registered on a server that is about to start."""
        self.is_over = False
        self.silent = CallSlots[BoundedCall](MAX_SILENT)
        self._status = _Response.SERVING  # read on any thread; one store changes it
        self._watchers = CallSlots[Watcher](MAX_WATCHES, per_holder=MAX_WATCHES_PER_CONNECTION, spares_first=True)

    def is_serving(self) -> bool:
        """Whether the status is SERVING."""
        return bool(self._status == _Response.SERVING)

    def stop_serving(self) -> None:
        """Answers NOT_SERVING from now on, and sends it to all watchers."""
        self._status = _Response.NOT_SERVING
        self._spread()

    def resume_serving(self) -> None:
        """Answers SERVING again, and sends it to all watchers."""
        self._status = _Response.SERVING
        self._spread()

    def end_watches(self) -> None:
        """Ends every watch, and what waits for a message: a call under way would use up the grace."""
        self.is_over = True
        self._spread()
        end_calls(self.silent)

    def check(self, raw: bytes) -> bytes | Status:
        """Answers Check; NOT_FOUND for a service that is not here.

        Raises:
            ReshapeError: MESSAGE_MALFORMED.
        """
        return self.describe(known=True) if _is_known(raw) else _NOT_FOUND

    def list(self, raw: bytes) -> bytes:
        """Answers List.

        Raises:
            ReshapeError: MESSAGE_MALFORMED.
        """
        parse_message(health_pb2.HealthListRequest, raw)
        statuses = {service: _Response(status=self._status) for service in _SERVICES}
        return bytes(health_pb2.HealthListResponse(statuses=statuses).SerializeToString())

    def open_watch(self, raw: bytes) -> Watch:
        """Answers Watch, together with `join`.

        Raises:
            ReshapeError: MESSAGE_MALFORMED.
        """
        return Watch(self, known=_is_known(raw))

    def join(self, watcher: Watcher, peer: str) -> None:
        """Has the watcher look whenever there may be news; it looks once by itself, afterwards."""
        make_room(self._watchers, watcher, peer)

    def leave(self, watcher: Watcher) -> None:
        """Forgets the watcher."""
        self._watchers.free(watcher)

    def describe(self, *, known: bool) -> bytes:
        """Returns the message that says how a service is that this server has, or has not."""
        status = self._status if known else _Response.SERVICE_UNKNOWN
        return bytes(_Response(status=status).SerializeToString())

    def _spread(self) -> None:
        for watcher in self._watchers.list_calls():
            watcher.look()


def _is_known(raw: bytes) -> bool:
    return parse_message(health_pb2.HealthCheckRequest, raw).service in _SERVICES


_NOT_FOUND = Status(grpc.StatusCode.NOT_FOUND, "unknown service", ())
