"""The metrics of a server, a row each: what counters hold, the port shows and the pages say follows from them.

- A label takes one of a few values that this server knows; no value of a caller's ever is one. What has no name here is
  counted as OTHER.
- Names, units and suffixes are as Prometheus has them: base units, `_total` for counters.
"""

from typing import NamedTuple

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.engine.lifecycle import State

OTHER = "other"
"""The service and the method of calls that nobody serves."""

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

_METHOD = ("service", "method")
# From the fastest call on loopback to the grace of a stop.
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
# Steps of four: up to what is the largest message by default, and what some set it to.
_BYTES = tuple(float(4**power) for power in range(4, 15))


class Family(NamedTuple):
    """One metric with all values of its labels.

    Attributes:
        name: without the suffix `_total` of a counter.
        kind: COUNTER, GAUGE or HISTOGRAM.
        help: what it says, for the scrape and the page.
        labels: their names.
        buckets: of a histogram, the upper bounds.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers it has: a histogram one for each bucket, one for what is above all of them, and the sum."""
        return len(self.buckets) + 2 if self.kind == HISTOGRAM else 1

    @property
    def shown_name(self) -> str:
        """The name under which it is scraped, and asked for."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


CALLS = Family("tensor_reshape_calls", COUNTER, "Calls that are over, by the code they ended with.", (*_METHOD, "code"))
CALL_SECONDS = Family(
    "tensor_reshape_call_duration_seconds",
    HISTOGRAM,
    "How long calls took, from their beginning until gRPC was done with them.",
    _METHOD,
    _SECONDS,
)
REQUEST_BYTES = Family(
    "tensor_reshape_request_bytes", HISTOGRAM, "Sizes of the messages that were received.", _METHOD, _BYTES
)
RESPONSE_BYTES = Family(
    "tensor_reshape_response_bytes", HISTOGRAM, "Sizes of the messages that were answered.", _METHOD, _BYTES
)
REFUSALS = Family("tensor_reshape_rejections", COUNTER, "Calls that were refused, by the reason.", ("reason",))
LOOKUPS = Family(
    "tensor_reshape_response_header_cache_lookups",
    COUNTER,
    "Requests whose header was looked up in the caches.",
    ("result",),
)
LOST_RECORDS = Family("tensor_reshape_log_records_dropped", COUNTER, "Log records that were not written.", ("cause",))
OPEN_CALLS = Family("tensor_reshape_active_calls", GAUGE, "Calls under way, by what they do.", ("state",))
OPEN_STREAMS = Family("tensor_reshape_active_streams", GAUGE, "Calls under way that are streams.")
MAX_CALLS = Family("tensor_reshape_max_calls", GAUGE, "How many calls may be under way.")
USED_BYTES = Family(
    "tensor_reshape_memory_budget_used_bytes", GAUGE, "What calls have of the memory budget.", ("pool",)
)
BUDGET_BYTES = Family(
    "tensor_reshape_memory_budget_bytes", GAUGE, "What calls may have of the memory budget.", ("pool",)
)
CONNECTIONS = Family("tensor_reshape_connections", GAUGE, "Connections that have a call under way.")
MAX_CONNECTIONS = Family("tensor_reshape_max_connections", GAUGE, "How many connections are taken, on all addresses.")

PUSHBACKS = Family("tensor_reshape_retry_pushback", COUNTER, "Calls that were refused with a time to come again.")
BUILD = Family(
    "tensor_reshape_build_info",
    GAUGE,
    "1; what runs is in the labels.",
    ("version", "grpc_api", "io_engine", "python", "grpcio", "protobuf"),
)
WORKERS = Family("tensor_reshape_workers", GAUGE, "How many processes are to serve.")
SERVING_WORKERS = Family("tensor_reshape_serving_workers", GAUGE, "How many processes serve.")
RESTARTS = Family("tensor_reshape_worker_restarts", COUNTER, "Workers that were started after another.", ("worker",))
SILENCES = Family(
    "tensor_reshape_worker_missed_heartbeats", COUNTER, "Times that heartbeats were missing.", ("worker",)
)

PROCESS_FAMILIES = (
    CALLS, CALL_SECONDS, REQUEST_BYTES, RESPONSE_BYTES, REFUSALS, LOOKUPS, LOST_RECORDS, OPEN_CALLS, OPEN_STREAMS,
    MAX_CALLS, USED_BYTES, BUDGET_BYTES, CONNECTIONS, MAX_CONNECTIONS,
)  # fmt: skip
"""What each process that serves keeps in its counters; the port shows the sum."""

SERVER_FAMILIES = (PUSHBACKS, BUILD, WORKERS, SERVING_WORKERS, RESTARTS, SILENCES)
"""What is known where the port is, or follows from the others."""

PUSHED_BACK = tuple(str(reason) for reason in Reason if reason.is_retryable)
"""The reasons whose refusals say when to come again."""

VALUES = {
    "reason": tuple(map(str, Reason)),
    "state": tuple(state.name.lower() for state in State if state is not State.DONE),
    "pool": ("receiving", "working"),
    "result": ("hit", "miss"),
    "cause": ("dropped", "suppressed"),
}
"""What each label of a counters may be, but for methods and codes."""
