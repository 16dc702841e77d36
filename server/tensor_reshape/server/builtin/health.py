"""`grpc.health.v1`: the status of the server, and its watchers.

The lock of `Health` is not held while watchers look for news. grpcio-health-checking's servicer sends under a lock that
a leaving watcher needs, which can stop the server.
"""

import logging
import threading
from collections.abc import Callable, Mapping

import grpc
from grpc_health.v1 import health_pb2

from tensor_reshape.server.builtin.methods import Respond, build_method
from tensor_reshape.server.engine.ledger import Pool
from tensor_reshape.server.engine.sources import Source
from tensor_reshape.server.engine.stalls import refuse_busy
from tensor_reshape.server.engine.statuses import StatusError
from tensor_reshape.server.service.method_tables import MethodTable, WatchMethod
from tensor_reshape.wire.fields import check_header_size, parse_message
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.status import Status

HEALTH_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"]

MAX_WATCHES = 4096
"""How many watches may be open."""

MAX_WATCHES_PER_CONNECTION = 16
"""A client has one for each service that it calls."""

_LOGGER = logging.getLogger(__name__)
_Response = health_pb2.HealthCheckResponse
_SERVICES = ("", SERVICE)
_RESERVED_PART = 8  # of the watches a part in so many is left for addresses that have few


class Watch:
    """What one watcher knows, and is to know: a `service.method_tables.Watch`."""

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

    def begin(self, look: Callable[[], None], source: tuple[str, str]) -> None:
        """Has `look` called, on any thread, whenever there may be news; see `service.method_tables.Watch`.

        Raises:
            LimitError: SERVER_BUSY.
        """
        self._health.join(self, look, Source(*source))

    def close(self) -> None:
        """Ends that; does nothing if it has not begun, or has ended."""
        self._health.leave(self)


class Health:
    """The status of this server: as a whole ("") and by the name of its service.

    Attributes:
        is_over: whether all watches end.
    """

    def __init__(self) -> None:
        """Starts with SERVING: it is registered on a server that is about to start."""
        self.is_over = False
        self._status = _Response.SERVING  # read on any thread; one store changes it
        self._lock = threading.Lock()  # guards what follows
        self._looks: dict[Watch, tuple[Callable[[], None], Source]] = {}
        self._places = Pool[Watch](MAX_WATCHES, MAX_WATCHES // _RESERVED_PART, MAX_WATCHES_PER_CONNECTION)

    def build_methods(self, probes: Mapping[str, Respond]) -> MethodTable:
        """Returns the methods of health, and `probes` that ask for it under other names, by their paths."""
        responds: dict[str, Respond] = {f"/{HEALTH_SERVICE.full_name}/Check": self.check, **probes}
        if hasattr(health_pb2, "HealthListRequest"):  # not in the package's older versions
            responds[f"/{HEALTH_SERVICE.full_name}/List"] = self.list
        watch = WatchMethod(f"/{HEALTH_SERVICE.full_name}/Watch", self.open_watch)
        return MethodTable(tuple(build_method(*item) for item in responds.items()), (), (watch,))

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
        """Ends every watch: a call under way would use up the grace."""
        self.is_over = True
        self._spread()

    def check(self, raw: bytes) -> bytes:
        """Answers Check.

        Raises:
            ReshapeError: MESSAGE_MALFORMED.
            StatusError: NOT_FOUND, for a service that is not here.
        """
        if not _is_known(raw):
            raise StatusError(_NOT_FOUND)
        return self.describe(known=True)

    def list(self, raw: bytes) -> bytes:
        """Answers List.

        Raises:
            ReshapeError: MESSAGE_MALFORMED.
        """
        parse_message(health_pb2.HealthListRequest, raw)
        statuses = {service: _Response(status=self._status) for service in _SERVICES}
        return bytes(health_pb2.HealthListResponse(statuses=statuses).SerializeToString())

    def open_watch(self, raw: bytes) -> Watch:
        """Answers Watch, by what it returns.

        Raises:
            ReshapeError: MESSAGE_MALFORMED or MESSAGE_TOO_LARGE.
        """
        check_header_size(len(raw))
        return Watch(self, known=_is_known(raw))

    def join(self, watch: Watch, look: Callable[[], None], source: Source) -> None:
        """Has `look` called whenever there may be news.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            if not self._places.take(source, 1):
                message = f"{len(self._looks)} watches are open, {MAX_WATCHES_PER_CONNECTION} at most of a connection"
                raise refuse_busy(message)
            self._looks[watch] = (look, source)

    def leave(self, watch: Watch) -> None:
        """Forgets a watch; nothing where it has not joined."""
        with self._lock:
            _, source = self._looks.pop(watch, (None, None))
            if source is not None:
                self._places.change(source, -1)

    def describe(self, *, known: bool) -> bytes:
        """Returns the message that says how a service is that this server has, or has not."""
        status = self._status if known else _Response.SERVICE_UNKNOWN
        return bytes(_Response(status=status).SerializeToString())

    def _spread(self) -> None:
        with self._lock:
            watched = list(self._looks.values())
        for look, _ in watched:
            try:
                look()
            except Exception:
                _LOGGER.exception("bug")  # of one watcher: the others are told all the same


def _is_known(raw: bytes) -> bool:
    return parse_message(health_pb2.HealthCheckRequest, raw).service in _SERVICES


_NOT_FOUND = Status(grpc.StatusCode.NOT_FOUND, "unknown service", ())
