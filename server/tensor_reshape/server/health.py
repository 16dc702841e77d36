"""`grpc.health.v1` on threads of its own, so that busy workers do not make the server look dead.

The servicer of grpcio-health-checking is not used: it sends to watchers while it holds its lock, and the callback of a
watch that ends waits for that lock. When watches come and go together, one waits for the other, and with them the
thread that serves every call. Here nothing is sent under the lock.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tensor_reshape.server.threads import assign_threads
from tensor_reshape.wire.codec import SERVICE

_Response = health_pb2.HealthCheckResponse
_Send = Callable[[health_pb2.HealthCheckResponse | None], None]
_SERVICES = frozenset({"", SERVICE})


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc] # the package has no types
    """Says whether this server serves: as a whole ("") and by the name of its service."""

    def __init__(self) -> None:
        """Starts with SERVING: it is registered on a server that is about to start."""
        self._lock = threading.Lock()
        self._status = _Response.SERVING
        self._watchers: dict[_Send, str] = {}
        self._ended = False
        threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="health")
        assign_threads(self, "Check", threads)
        assign_threads(self, "Watch", threads, holds_thread=False)

    def register(self, server: grpc.Server) -> None:
        """Adds the health service to `server`."""
        health_pb2_grpc.add_HealthServicer_to_server(self, server)

    def stop_serving(self) -> None:
        """Answers NOT_SERVING from now on, and tells all who watch."""
        with self._lock:
            self._status = _Response.NOT_SERVING
            watchers = dict(self._watchers)
        for send, service in watchers.items():
            send(self._respond(service))

    def end_watches(self) -> None:
        """Ends every watch: one that stays open is a call under way, which would use up the grace."""
        with self._lock:
            self._ended = True
            watchers = tuple(self._watchers)
        for send in watchers:
            send(None)

    def Check(  # noqa: N802 - the name is the contract's
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        """Answers once; NOT_FOUND for a service that is not here."""
        if request.service not in _SERVICES:
            context.set_code(grpc.StatusCode.NOT_FOUND)
            context.set_details("unknown service")
        return self._respond(request.service)

    def Watch(  # noqa: N802 - the name is the contract's
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext, send: _Send
    ) -> None:
        """Answers now and at every change, until the caller leaves."""
        with self._lock:
            self._watchers[send] = request.service
            ended = self._ended
        if not context.add_callback(lambda: self._forget(send)):
            self._forget(send)  # the caller has left already
        first = self._respond(request.service)
        send(first)
        latest = self._respond(request.service)
        if latest != first:  # it changed meanwhile, and whose message went first is not known
            send(latest)
        if ended:
            send(None)

    def _forget(self, send: _Send) -> None:
        with self._lock:
            self._watchers.pop(send, None)

    def _respond(self, service: str) -> health_pb2.HealthCheckResponse:
        return _Response(status=self._status if service in _SERVICES else _Response.SERVICE_UNKNOWN)
