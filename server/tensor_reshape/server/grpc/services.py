"""Groups of gRPC methods whose calls share an engine, an admission queue and thread pools."""

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace

from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.fair_queues import AdmissionQueue
from tensor_reshape.server.engine.stall_timeouts import StallTimeouts, reject_busy
from tensor_reshape.server.grpc.calls import NewCall
from tensor_reshape.server.service.method_tables import MethodTable, Work
from tensor_reshape.wire.status import encode_rejection

MAX_SILENT = 16
"""The number of health checks that may wait for their request message at the same time.

Normally a request message arrives microseconds after the headers of its call.
"""

MAX_SILENT_REFLECTIONS = 4
"""The number of reflection calls that may wait for a message. Only a few developers use reflection at the same time."""

_MAX_CALLS = 8192  # this number is high, because clients keep a health watch open for each connection
# While other calls wait for memory, a call is aborted if its request message does not arrive within this time in
# seconds.
_SILENT_SECONDS = 0.1
# A call waits at most this number of seconds for memory. Health probes also wait only a few seconds for a response.
_WAIT_SECONDS = 5.0


class Service:
    """A group of gRPC methods, and the objects that the calls of these methods share.

    Attributes:
        engine: the engine, which decides about admission, memory and the end of calls.
        methods: the methods.
        pools: the thread pool for each kind of long work.
        queue: the admission queue of new calls.
        busy: the status of a call that is refused because it has waited too long in the queue, or because the queues
            are too full. All these calls have the same status object, because a server under attack refuses thousands
            of calls.
    """

    def __init__(self, engine: Engine, methods: MethodTable, pools: Mapping[Work, Executor]) -> None:
        """Makes a service with an empty admission queue."""
        self.engine, self.methods, self.pools = engine, methods, pools
        self.queue = AdmissionQueue[NewCall](engine.has_room)
        limit = f"the limit of running calls is {engine.max_calls} (--max-calls)"
        message = f"the call could not begin in time, because too many calls wait; {limit}; retry later"
        self.busy = encode_rejection(reject_busy(message))


def build_builtin_service(
    config: Config,
    methods: MethodTable,
    gates: Gates | None = None,
    pools: Mapping[Work, Executor] | None = None,
    max_silent: int = MAX_SILENT,
) -> Service:
    """Returns a service for health or reflection, which has its own engine (admission control).

    Health and reflection therefore respond even if other methods have no free memory or concurrency slot. The engine
    limits the memory and slots of a client by the same rules as the main engine. The engine has no observers, and its
    memory is enough for a few messages of the largest size.

    Args:
        config: the configuration of the server.
        methods: the methods.
        gates: the gates that check each call. Default: no gates.
        pools: the threads that process stream messages larger than a third of the reserved memory. These messages
            exceed the limit for health and reflection messages, so the threads reject them.
        max_silent: the number of calls that may wait for their request message at the same time.
    """
    # The memory budget is chosen so that the receive pool has memory for `max_silent` messages of the largest size.
    budget = 2 * (max_silent + 1) * config.max_message_bytes
    engine = Engine(
        replace(config, memory_budget_bytes=budget, max_calls=_MAX_CALLS),
        gates=gates,
        timeouts=StallTimeouts(config.stall_timeout_seconds, _SILENT_SECONDS, _WAIT_SECONDS),
    )
    return Service(engine, methods, pools or {})
