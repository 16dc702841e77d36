"""The health service `grpc.health.v1`, which reports the status of the server.

The class `Health` does not hold its lock while it notifies watches. The servicer of grpcio-health-checking holds a lock
while it sends to a watch. Because a closing watch needs the same lock, that servicer can block the whole server.
"""

import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf.descriptor import ServiceDescriptor

from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.calls.sources import Source, Sources
from tensor_reshape.server.calls.statuses import StatusError
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.fair_shares import FairPool
from tensor_reshape.server.engine.stall_timeouts import reject_busy
from tensor_reshape.server.grpc.options import build_options
from tensor_reshape.server.grpc.servers import Server
from tensor_reshape.server.grpc.services import build_builtin_service
from tensor_reshape.server.process.listeners import bind
from tensor_reshape.server.service.method_tables import MethodTable, WatchMethod, build_light_method
from tensor_reshape.server.service.private_pools import PrivatePool
from tensor_reshape.wire.fields import check_header_size, parse_message
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.servers import HealthStatus
from tensor_reshape.wire.status import Status

_POOL = PrivatePool(Path(__file__).with_name("health.binpb").read_bytes())

HEALTH_SERVICE: ServiceDescriptor = _POOL.find_service("Health")

MAX_WATCHES = 4096
"""The maximum number of health watches that may be open in this process."""

MAX_WATCHES_PER_CONNECTION = 16
"""The maximum number of health watches of a connection. A client needs a watch for each service that it calls."""

SILENT_SECONDS = 5.0
"""Seconds without a turn of the receiving thread after which a health port reports NOT_SERVING.

Normally a call occupies the receiving thread only for milliseconds.
"""

Respond: TypeAlias = Callable[[bytes], bytes]
"""Returns the response to a message, or raises a `ReshapeError` or a `statuses.StatusError`."""

_LAST_STATUS_SECONDS = 0.5  # a cancelled call would lose the status that gRPC's core is still sending
_STOP_SECONDS = 5.0
_LOGGER = logging.getLogger(__name__)
_Request: Any = _POOL.find_class("HealthCheckRequest")
_Response: Any = _POOL.find_class("HealthCheckResponse")
_ListResponse: Any = _POOL.find_class("HealthListResponse")
_SERVICES = ("", SERVICE)
_RESERVED_PART = 8  # one eighth of MAX_WATCHES is reserved for client addresses that have few watches


class HealthWatch:
    """The state of one health watch, which implements `service.method_tables.Watch`."""

    def __init__(self, health: "Health", *, known: bool) -> None:
        """Makes a watch that has sent no status yet.

        `known` says whether the server has the watched service. The name of the service is not kept, because a client
        can send a long name.
        """
        self._health = health
        self._known = known
        self._sent: bytes | None = None

    @property
    def is_over(self) -> bool:
        """Whether the watch will send no further status."""
        return self._health.is_over

    def find_update(self) -> bytes | None:
        """Returns the message with a new status, or None if the status has not changed.

        Only one thread at a time may call this method.
        """
        # The current status is compared with the status that was sent last, so a client that reads slowly gets only the
        # latest status.
        latest = self._health.describe(known=self._known)
        if latest == self._sent:
            return None
        self._sent = latest
        return latest

    def close(self) -> None:
        """Ends the notifications of this watch."""
        self._health.leave(self)


class Health:
    """The health status of this server.

    Clients can query the status with the name of the service or with the empty name.

    Attributes:
        is_over: whether the server is ending all watches.
    """

    def __init__(self) -> None:
        """Sets the status to SERVING, because the server will start soon."""
        self.is_over = False
        # the attribute with the status needs no lock, because its assignment is atomic
        self._status = HealthStatus.SERVING
        self._lock = threading.Lock()  # this lock guards `_watches` and `_slots`
        # Each value of this dict contains the function that notifies a watch, and the source of the watch's call. The
        # watch has no reference to this function, because a call and its watch would then form a reference cycle.
        self._watches: dict[HealthWatch, tuple[Callable[[], None], Source]] = {}
        self._slots = FairPool[HealthWatch](MAX_WATCHES, MAX_WATCHES // _RESERVED_PART, MAX_WATCHES_PER_CONNECTION)

    def build_methods(self, probes: Mapping[str, Respond]) -> MethodTable:
        """Returns the table of the health methods. `probes` maps paths to health methods of other protocols."""
        service = HEALTH_SERVICE.full_name
        responds: dict[str, Respond] = {f"/{service}/Check": self.check, f"/{service}/List": self.list, **probes}
        watch = WatchMethod(f"/{service}/Watch", self.open_watch)
        return MethodTable(tuple(build_light_method(*item) for item in responds.items()), (), (watch,))

    def is_serving(self) -> bool:
        """Whether the status is SERVING."""
        return self._status == HealthStatus.SERVING

    def stop_serving(self) -> None:
        """Sets the status to NOT_SERVING and notifies all watches."""
        self._status = HealthStatus.NOT_SERVING
        self._notify()

    def resume_serving(self) -> None:
        """Sets the status to SERVING and notifies all watches."""
        self._status = HealthStatus.SERVING
        self._notify()

    def end_watches(self) -> None:
        """Ends all watches, because a stopping server would otherwise wait for them until the grace period is over."""
        self.is_over = True
        self._notify()

    def check(self, raw: bytes) -> bytes:
        """Returns the response to a Check request.

        Raises:
            ReshapeError: the reason is MESSAGE_MALFORMED.
            StatusError: NOT_FOUND, because the server does not have the requested service.
        """
        if not _is_known(raw):
            raise StatusError(_NOT_FOUND)
        return self.describe(known=True)

    def list(self, raw: bytes) -> bytes:
        """Returns the response to a List request.

        Raises:
            ReshapeError: the reason is MESSAGE_MALFORMED.
        """
        parse_message(_POOL.find_class("HealthListRequest"), raw)
        statuses = {service: _Response(status=self._status) for service in _SERVICES}
        return bytes(_ListResponse(statuses=statuses).SerializeToString())

    def open_watch(self, raw: bytes, notify: Callable[[], None], source: tuple[str, str]) -> HealthWatch:
        """Returns a watch for a Watch request. `notify` is called whenever the health status may have changed.

        Raises:
            ReshapeError: the reason is MESSAGE_MALFORMED, MESSAGE_TOO_LARGE or SERVER_BUSY.
        """
        check_header_size(len(raw))
        watch = HealthWatch(self, known=_is_known(raw))
        with self._lock:
            if not self._slots.take(Source(*source), 1):
                message = f"{len(self._watches)} watches are open; a connection may have {MAX_WATCHES_PER_CONNECTION}"
                raise reject_busy(message)
            self._watches[watch] = (notify, Source(*source))
        return watch

    def leave(self, watch: HealthWatch) -> None:
        """Removes a watch."""
        with self._lock:
            _, source = self._watches.pop(watch)
            self._slots.change(source, -1)

    def describe(self, *, known: bool) -> bytes:
        """Returns the message with the status of a service. If `known` is False, the status is SERVICE_UNKNOWN."""
        status = self._status if known else HealthStatus.SERVICE_UNKNOWN
        return bytes(_Response(status=status).SerializeToString())

    def _notify(self) -> None:
        with self._lock:
            watches = list(self._watches.values())
        for notify, _ in watches:
            try:
                notify()
            except Exception:
                # An error in one health watch must not prevent the notification of other watches.
                _LOGGER.exception("bug")


def _is_known(raw: bytes) -> bool:
    return parse_message(_Request, raw).service in _SERVICES


_NOT_FOUND = Status("NOT_FOUND", "unknown service", ())


class HealthPort:
    """A health service on its own port. The port has no TLS, so that probes without a certificate can use it.

    - The health port is a separate server that has only the health methods and accepts only small messages.
    - The health port has its own thread. If the receiving thread of the main server makes no turns, the health port
      reports NOT_SERVING, so that probes detect a server that hangs.
    - A turn is one iteration of the loop in the receiving thread. The receiving thread makes at least one turn a
      second, or slightly fewer turns on a busy machine.

    Attributes:
        address: the address with its bound port.
        service: the health service of this port. The server must regularly call the method `sweep` of this service's
            engine.
    """

    def __init__(self, config: Config, address: str, max_connections: int, *, shares: bool) -> None:
        """Binds `address`.

        Args:
            config: the configuration of the server. The settings for connections also apply to the health port.
            address: the value of `Config.health_listen`.
            max_connections: the maximum number of connections of the port.
            shares: whether other processes listen on the same port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        self._health = Health()
        self._is_stopping = False
        self._turns = 0
        self._turned_at = math.inf  # the time at which `_turns` last changed, or infinity before the first update
        small = replace(config, max_message_bytes=MAX_HEADER_BYTES)
        self.service = build_builtin_service(small, self._health.build_methods({}))
        options = build_options(small, max_connections, shares=shares)
        self._server = Server((self.service,), Sources(config.trusted_proxy), options)
        self.address = bind(self._server, address, None, held=shares)

    def start(self) -> None:
        """Starts to accept health checks."""
        self._server.start()

    def update(self, now: float, turns: int) -> None:
        """Updates the reported status. Call this method many times a second, always on the same thread.

        Args:
            now: the current time of `time.monotonic`.
            turns: the number of loop iterations of the thread that receives calls.
        """
        if turns != self._turns:
            self._turns, self._turned_at = turns, now
        is_turning = now - self._turned_at < SILENT_SECONDS
        if self._is_stopping or is_turning == self._health.is_serving():
            return
        if is_turning:
            self._health.resume_serving()
        if not is_turning or self._is_stopping:  # another thread may just have called `stop_serving`
            self._health.stop_serving()

    def stop_serving(self) -> None:
        """Makes the port report NOT_SERVING from now on."""
        self._is_stopping = True
        self._health.stop_serving()

    def end(self) -> None:
        """Ends all calls and stops the port."""
        self._health.end_watches()
        self.service.engine.perform(self.service.engine.close())
        self._server.stop()
        if not self._server.wait(_LAST_STATUS_SECONDS):
            self._server.cancel_calls()
            self._server.wait(_STOP_SECONDS)
