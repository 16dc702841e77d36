"""The definitions of all metrics.

The definitions determine the layout of the shared memory, the page for Prometheus and the documentation.

- Each label of a metric has a fixed set of values, so a label never contains a value from a client. Calls to unknown
  methods are counted under the method name `other`.
- The names, units and suffixes of metrics follow Prometheus's conventions. For example, units are base units such as
  seconds, and the name of a counter ends with `_total`.
"""

from typing import NamedTuple

from tensor_reshape.rules.errors import Reason

OTHER = "other"
"""The value of the labels `service` and `method` for calls to unknown methods."""

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

_METHOD = ("service", "method")
# These bounds of durations range from the fastest call on loopback to more than the shutdown grace period.
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
# These bounds of message sizes are powers of four. The largest bound exceeds the default of the maximum message size.
_BYTES = tuple(float(4**power) for power in range(4, 15))


class Family(NamedTuple):
    """The definition of a metric.

    Attributes:
        name: the name, without the suffix `_total` of counters.
        kind: COUNTER, GAUGE or HISTOGRAM.
        help: the description for the scraped page and the documentation.
        labels: the names of the labels.
        buckets: the upper bounds of a histogram.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """The number of values that are stored for each combination of label values.

        A histogram has a count for each bucket, a count of larger values, and the sum of all values.
        """
        return len(self.buckets) + 2 if self.kind == HISTOGRAM else 1

    @property
    def shown_name(self) -> str:
        """The name on the scraped page and in queries."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


CALLS = Family("tensor_reshape_calls", COUNTER, "Number of finished calls, by status code.", (*_METHOD, "code"))
CALL_SECONDS = Family(
    "tensor_reshape_call_duration_seconds",
    HISTOGRAM,
    "Duration of finished calls in seconds, from the arrival until gRPC has finished the call.",
    _METHOD,
    _SECONDS,
)
REQUEST_BYTES = Family(
    "tensor_reshape_request_bytes", HISTOGRAM, "Size of received messages in bytes.", _METHOD, _BYTES
)
RESPONSE_BYTES = Family("tensor_reshape_response_bytes", HISTOGRAM, "Size of sent messages in bytes.", _METHOD, _BYTES)
REJECTIONS = Family("tensor_reshape_rejections", COUNTER, "Number of rejected calls, by error reason.", ("reason",))
LOOKUPS = Family(
    "tensor_reshape_response_header_cache_lookups",
    COUNTER,
    "Number of lookups in the caches of response headers, by result.",
    ("result",),
)
LOST_RECORDS = Family(
    "tensor_reshape_log_records_dropped",
    COUNTER,
    "Number of log records that were not written: dropped (the log's reader is too slow) or suppressed (rate limit).",
    ("cause",),
)
OPEN_CALLS = Family("tensor_reshape_active_calls", GAUGE, "Number of running calls, by state.", ("state",))
OPEN_STREAMS = Family("tensor_reshape_active_streams", GAUGE, "Number of running calls of streaming methods.")
MAX_CALLS = Family("tensor_reshape_max_calls", GAUGE, "Limit of running calls (--max-calls).")
USED_BYTES = Family(
    "tensor_reshape_memory_budget_used_bytes",
    GAUGE,
    "Memory in bytes that calls have reserved, in the pool for received messages or for processing.",
    ("pool",),
)
BUDGET_BYTES = Family("tensor_reshape_memory_budget_bytes", GAUGE, "Size of the memory pool in bytes.", ("pool",))
CONNECTIONS = Family("tensor_reshape_connections", GAUGE, "Number of connections with running calls.")
MAX_CONNECTIONS = Family("tensor_reshape_max_connections", GAUGE, "Limit of connections on all addresses together.")

BUILD = Family(
    "tensor_reshape_build_info",
    GAUGE,
    "Constant 1, with the versions and the I/O engine as labels.",
    ("version", "io_engine", "python", "grpcio", "protobuf"),
)
WORKERS = Family("tensor_reshape_workers", GAUGE, "Number of configured workers: --workers, and one for --http-listen.")
SERVING_WORKERS = Family("tensor_reshape_serving_workers", GAUGE, "Number of workers that serve calls.")
RESTARTS = Family("tensor_reshape_worker_restarts", COUNTER, "Number of restarts of the worker.", ("worker",))
MISSED_HEARTBEATS = Family(
    "tensor_reshape_worker_missed_heartbeats",
    COUNTER,
    "Number of times that the worker was killed because it sent no more heartbeats.",
    ("worker",),
)

PROCESS_FAMILIES = (
    CALLS, CALL_SECONDS, REQUEST_BYTES, RESPONSE_BYTES, REJECTIONS, LOOKUPS, LOST_RECORDS, OPEN_CALLS, OPEN_STREAMS,
    MAX_CALLS, USED_BYTES, BUDGET_BYTES, CONNECTIONS, MAX_CONNECTIONS,
)  # fmt: skip
"""The metrics that each process writes. The page for Prometheus has their sums over all processes."""

SERVER_FAMILIES = (BUILD, WORKERS, SERVING_WORKERS, RESTARTS, MISSED_HEARTBEATS)
"""The metrics that the process with the metrics port adds to the page."""

RECEIVE, PROCESSING = "receive", "processing"
"""The two pools of the memory budget, for received messages and for the processing of calls."""

VALUES = {
    "reason": tuple(map(str, Reason)),
    "state": ("new", "waiting", "receiving", "working", "queued", "sending", "ending", "aborted", "abandoned"),
    "pool": (RECEIVE, PROCESSING),
    "result": ("hit", "miss"),
    "cause": ("dropped", "suppressed"),
}
"""The values of each label of `PROCESS_FAMILIES`, except the labels for methods and status codes."""
