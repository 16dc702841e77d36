"""Builds services, and the server on gRPC's core that has a route for each of their methods."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.sources import Sources
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.fair_queues import AdmissionQueue
from tensor_reshape.server.engine.stall_timeouts import StallTimeouts, reject_busy
from tensor_reshape.server.grpc.calls import CoreCall, NewCall
from tensor_reshape.server.grpc.handlers import Service, StreamCall, UnaryCall, WatchCall
from tensor_reshape.server.grpc.servers import Lane, Route, Server
from tensor_reshape.server.service.method_tables import MethodTable, Work
from tensor_reshape.server.telemetry.call_logs import log_refusal
from tensor_reshape.wire.status import Status, encode_rejection

MAX_SILENT = 16
"""The number of health checks that may wait for their request message at the same time.

Normally a request message arrives microseconds after the headers of its call.
"""

MAX_SILENT_REFLECTIONS = 4
"""The number of reflection calls that may wait for a message. Only a few developers use reflection at the same time."""

_MAX_CALLS = 8192  # the limit includes health watches, because clients keep a watch open for each connection
# After this number of seconds, a call whose request message does not arrive is aborted if other calls wait for memory.
_SILENT_SECONDS = 0.1
# A call waits for memory for at most this number of seconds, because health probes also only wait a few seconds.
_WAIT_SECONDS = 5.0
# The error text is the same as that of grpcio's own server.
_UNIMPLEMENTED = Status("UNIMPLEMENTED", "Method not found!", ())


def build_builtin_service(
    config: Config,
    methods: MethodTable,
    gates: Gates | None = None,
    pools: Mapping[Work, Executor] | None = None,
    max_silent: int = MAX_SILENT,
) -> Service:
    """Returns a service for health or reflection, which has its own engine (admission control).

    Health and reflection therefore respond even if other methods have no free memory or concurrency slot. The engine
    limits the memory and slots of a client by the same rules as the main engine. It has memory for a few messages of
    the largest size, and no observers.

    Args:
        config: the configuration of the server.
        methods: the methods.
        gates: the gates that check each call. Default: no gates.
        pools: the threads for stream messages that exceed a third of the reserved memory. Such messages exceed the
            limit for health and reflection messages, so the threads reject them.
        max_silent: the number of calls that may wait for their request message at the same time.
    """
    # The memory budget is chosen so that the receive pool has memory for `max_silent` messages of the largest size.
    budget = 2 * (max_silent + 1) * config.max_message_bytes
    engine = Engine(
        replace(config, memory_budget_bytes=budget, max_calls=_MAX_CALLS),
        gates=gates,
        timeouts=StallTimeouts(config.stall_timeout_seconds, _SILENT_SECONDS, _WAIT_SECONDS),
    )
    return Service(engine, Sources(config.trusted_proxy), methods, pools or {})


def build_server(
    services: Sequence[Service],
    options: Sequence[tuple[str, int]],
    on_unknown: Callable[[str], None] = lambda _method: None,
) -> Server:
    """Returns a server that does not listen yet.

    Args:
        services: the services to serve.
        options: channel arguments of gRPC's core.
        on_unknown: a function that gets the name of a called method that does not exist, and raises no exception.
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
    return Server(routes, partial(_UnknownCall, on_unknown), sources.find, options)


class _UnknownCall(CoreCall):
    """A call to a method that does not exist."""

    def __init__(self, on_unknown: Callable[[str], None], new: NewCall) -> None:
        super().__init__(str(new.method, "utf8", "replace"), new)
        self._on_unknown = on_unknown

    def begin(self) -> None:
        """Ends the call with UNIMPLEMENTED (see `CoreCall`)."""
        self._on_unknown(self.method)
        self.finish(_UNIMPLEMENTED)


class _RefusedCall(CoreCall):
    """A call that has waited too long in an admission queue, or for which the queues are too full.

    All refusals have the same status, and the log has one line for an address and second, because a server under attack
    refuses thousands of calls.
    """

    def __init__(self, engine: Engine, status: Status, new: NewCall) -> None:
        super().__init__(str(new.method, "utf8", "replace"), new)
        self._engine, self._status = engine, status

    def begin(self) -> None:
        """Ends the call with SERVER_BUSY (see `CoreCall`)."""
        self._engine.count_refusal(self.method)
        log_refusal(self.source.address)
        self.finish(self._status)
