"""Builds the services for health and reflection, each of which has its own engine (admission control).

Health and reflection therefore respond even if other methods have no free memory or concurrency slot. The engine for
health or reflection limits the memory and slots of a client by the same rules as the main engine. It has memory for a
few messages of the largest size. Observers, for example metrics, do not get the events of health and
reflection calls.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace

from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.sources import Sources
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.effects import perform
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.engine.stall_timeouts import StallTimeouts
from tensor_reshape.server.service.method_tables import Estimate, MethodTable, StreamMethod, Work, limit_header

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

Respond = Callable[[bytes], bytes]
"""Returns the response to a message, or raises a `ReshapeError` or a `statuses.StatusError`."""


def build_service(
    config: Config,
    methods: MethodTable,
    gates: Gates | None = None,
    pools: Mapping[Work, Executor] | None = None,
    max_silent: int = MAX_SILENT,
) -> Service:
    """Returns a service with an engine of its own.

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
    return Service(engine, perform, Sources(config.trusted_proxy), methods, pools or {})


def build_exchange(name: str, respond: Respond) -> StreamMethod:
    """Returns a stream method that sends one response for each request message."""
    return StreamMethod(name, lambda _hold: _Exchange(limit_header(respond)))


class _Exchange:
    """The `Session` of a stream that sends one response for each request message."""

    is_between_tensors = True

    def __init__(self, respond: Respond) -> None:
        self._respond = respond

    def receive(self, raw: bytes) -> Iterator[bytes]:
        yield self._respond(raw)

    def estimate(self, raw: bytes) -> Estimate:
        return Estimate(takes_long=False, needed_bytes=len(raw))

    def finish(self) -> None:
        pass
