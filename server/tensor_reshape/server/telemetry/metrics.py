"""Defines all metrics, and the shared memory that contains their values.

The definitions determine the layout of the shared memory, the page for Prometheus and the documentation.

- Each label of a metric has a fixed set of values, so a label never contains a value from a client. Calls to unknown
  methods are counted under the method name `other`.
- The names, units and suffixes of metrics follow Prometheus's conventions. For example, units are base units such as
  seconds, and the name of a counter ends with `_total`.
- The definitions of the metrics and the list of methods determine the position of each number in the shared memory. All
  processes therefore use the same positions.
- Only one thread at a time writes a number in the shared memory. Readers need no lock, because a number has eight bytes
  at an address that is a multiple of eight. Supported machines write such a number in one step.
- The memory file of a worker outlives the worker. If a worker is killed, the next worker resets the gauges with
  `clear_gauges` and continues the counters.
"""

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import product
from time import monotonic
from typing import NamedTuple, TypeAlias

from google.rpc import code_pb2

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls.results import CallResult
from tensor_reshape.server.oip.messages import SERVICE as INFERENCE_SERVICE
from tensor_reshape.server.process.logs import count_lost_records
from tensor_reshape.server.service.header_cache import Lookups
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import split_method

OTHER = "other"
"""The value of the labels `service` and `method` for calls to unknown methods."""

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

_METHOD = ("service", "method")
# These bounds of durations in seconds range from the fastest call on loopback to more than the shutdown grace period.
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
# These bounds of message sizes in bytes are powers of four. The largest bound exceeds the default maximum message size.
_BYTES = tuple(float(4**power) for power in range(4, 15))


class Family(NamedTuple):
    """The definition of a metric.

    Attributes:
        name: the name of the metric. The name of a counter has no suffix `_total` here.
        kind: the kind of the metric, which is COUNTER, GAUGE or HISTOGRAM.
        help: the description for the scraped page and the documentation.
        labels: the names of the metric's labels.
        buckets: the upper bounds of the buckets, if the metric is a histogram.
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
        """The name of the metric on the scraped page and in queries."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


CALLS = Family("tensor_reshape_calls", COUNTER, "Number of finished calls, by status code.", (*_METHOD, "code"))
CALL_DURATION = Family(
    "tensor_reshape_call_duration_seconds",
    HISTOGRAM,
    "Duration of finished calls in seconds, from their beginning (after any wait for a turn) until they are over.",
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
    "Number of lookups in the caches of response headers and of results, by result.",
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
CONNECTION_LIMIT = Family("tensor_reshape_max_connections", GAUGE, "Limit of connections on all addresses together.")

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
    CALLS, CALL_DURATION, REQUEST_BYTES, RESPONSE_BYTES, REJECTIONS, LOOKUPS, LOST_RECORDS, OPEN_CALLS, OPEN_STREAMS,
    MAX_CALLS, USED_BYTES, BUDGET_BYTES, CONNECTIONS, CONNECTION_LIMIT,
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


COUNTED_SERVICES = (reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"], INFERENCE_SERVICE)
"""The services whose calls the metrics count."""

REFLECTION_METHODS = (
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
"""The full names of the reflection methods, which an authorization file may contain."""

_METHODS = {
    f"/{service.full_name}/{method.name}": method.client_streaming
    for service in COUNTED_SERVICES
    for method in service.methods
}


def list_methods() -> tuple[str, ...]:
    """Returns the full names of all methods whose calls are counted."""
    return tuple(_METHODS)


def list_streams() -> frozenset[str]:
    """Returns the full names of the streaming methods whose calls are counted."""
    return frozenset(name for name, is_stream in _METHODS.items() if is_stream)


Labels: TypeAlias = tuple[str, ...]
"""The label values of a metric, in the order of its labels."""

Cell: TypeAlias = "memoryview[float]"
"""The numbers of a metric for one combination of labels. `Family.width` is the number of these numbers."""

CODES = tuple(code_pb2.Code.keys())
"""The names of the status codes."""

_FLOAT_BYTES = 8


class SharedCounters:
    """The values of all metrics of one process.

    Attributes:
        cells: for each metric, a mapping from label values to numbers.
    """

    def __init__(self, methods: Sequence[str], descriptor: int | None = None) -> None:
        """Maps the memory file, or creates private memory. New memory contains only zeros.

        Args:
            methods: the full names of the counted methods, in the form `/service/method`.
            descriptor: the descriptor of the memory file from `os.memfd_create`, or None for private memory.
        """
        keys = list(_list_labels(methods))
        size = _FLOAT_BYTES * sum(family.width for family, _ in keys)
        if descriptor is not None:
            os.ftruncate(descriptor, size)  # `ftruncate` does not change a file that already has this size
        numbers = memoryview(bytearray(size) if descriptor is None else mmap.mmap(descriptor, size)).cast("d")
        self.cells: dict[Family, dict[Labels, Cell]] = {}
        for family, labels in keys:
            self.cells.setdefault(family, {})[labels] = numbers[: family.width]
            numbers = numbers[family.width :]

    def set(self, family: Family, value: float, *labels: str) -> None:
        """Sets the value of a gauge, or of a counter that is copied from another module."""
        self.cells[family][labels][0] = value

    def clear_gauges(self) -> None:
        """Sets all gauges to zero."""
        for family, cells in self.cells.items():
            for labels in cells if family.kind == GAUGE else ():
                self.set(family, 0.0, *labels)


class MethodCells:
    """The stored numbers about the calls of one method.

    Attributes:
        codes: for each status code, the number of calls with this status.
        seconds: the histogram of the durations of calls in seconds.
        requests: the histogram of the sizes of request messages in bytes.
        responses: the histogram of the sizes of response messages in bytes.
    """

    __slots__ = ("codes", "requests", "responses", "seconds")

    def __init__(self, counters: SharedCounters, method: tuple[str, str]) -> None:
        """Finds the numbers of a method. `method` is a pair of the service's name and the method's name."""
        self.codes = {code: counters.cells[CALLS][*method, code] for code in CODES}
        self.seconds = counters.cells[CALL_DURATION][method]
        self.requests, self.responses = counters.cells[REQUEST_BYTES][method], counters.cells[RESPONSE_BYTES][method]


def observe(family: Family, cell: Cell, value: float) -> None:
    """Adds a value to a histogram."""
    cell[bisect_left(family.buckets, value)] += 1.0
    cell[-1] += value


class MethodCounters:
    """Counts calls after their end. Only one thread at a time may use an object of this class."""

    def __init__(self, counters: SharedCounters, methods: Sequence[str]) -> None:
        """Uses the memory `counters`, which must have been created for the same methods."""
        self._rows = {name: MethodCells(counters, split_method(name)) for name in methods}
        self._other = MethodCells(counters, (OTHER, OTHER))
        self._reasons = {reason: cell for (reason,), cell in counters.cells[REJECTIONS].items()}

    def find_row(self, method: str) -> MethodCells:
        """Returns the numbers of a method, or those of the method `other` if the method is unknown."""
        return self._rows.get(method, self._other)

    def count(self, method: str, result: CallResult, began: float) -> None:
        """Counts a call that has ended. `began` is the time at which it began, as `time.monotonic` returned it."""
        row = self.find_row(method)
        code, reason = result
        row.codes[code][0] += 1.0
        if reason:
            self._reasons[reason][0] += 1.0
        observe(CALL_DURATION, row.seconds, monotonic() - began)

    def count_other(self, code: str = "UNIMPLEMENTED") -> None:
        """Counts a call to an unknown method, or an HTTP request that does not begin a call."""
        self._other.codes[code][0] += 1.0


UPDATE_SECONDS = 1.0
"""Seconds between two updates of gauges and copied counters. Prometheus scrapes the metrics less often."""


class CopiedCounters:
    """Copies counters that other modules keep, and adds the counts of the worker's previous processes."""

    def __init__(self, counters: SharedCounters, lookups: Lookups) -> None:
        """Sets the gauges to zero, and reads the counts that the worker's previous process has left in `counters`."""
        self._counters, self._lookups = counters, lookups
        self._bases = {
            (family, labels): cell[0]
            for family in (LOOKUPS, LOST_RECORDS)
            for labels, cell in counters.cells[family].items()
        }
        counters.clear_gauges()

    def update(self) -> None:
        """Writes the current counts to the memory. Call this method every UPDATE_SECONDS."""
        dropped, suppressed = count_lost_records()
        counts = {"hit": self._lookups.hits, "miss": self._lookups.misses, "dropped": dropped, "suppressed": suppressed}
        for (family, (label,)), base in self._bases.items():
            self._counters.set(family, base + counts[label], label)


def _list_labels(methods: Sequence[str]) -> Iterator[tuple[Family, Labels]]:
    names: list[Labels] = [*map(split_method, methods), (OTHER, OTHER)]
    by_code: list[Labels] = [(*name, code) for name in names for code in CODES]
    for family in PROCESS_FAMILIES:
        if "method" in family.labels:
            yield from product([family], by_code if "code" in family.labels else names)
        else:
            yield from product([family], product(*(VALUES[label] for label in family.labels)))
