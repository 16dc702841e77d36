"""Serves the metrics of all processes to Prometheus.

The metrics port has no encryption and no authentication. The number of its connections is not limited, and each
connection needs its own thread. The port must therefore have an address that only a trusted network can reach. The
server closes a connection to the metrics port if nothing arrives on it for `SCRAPE_TIMEOUT_SECONDS`.

- The page for Prometheus contains the sums over all processes of the server. A server with workers and a server without
  workers therefore have the same metrics.
- The page omits the metrics of a method until the first call of the method has finished. After this call, the page has
  a counter of the method for each status code that this server returns, even if the count is zero. An alert can
  therefore detect the first call with a status code.
"""

import logging
import os
import platform
import socket
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import ThreadingHTTPServer
from importlib.metadata import version
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

from prometheus_client import CollectorRegistry, MetricsHandler, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.process.engines import name_engine
from tensor_reshape.server.process.listeners import take
from tensor_reshape.server.telemetry import metrics
from tensor_reshape.server.telemetry.metrics import Family, Labels, SharedCounters

PROCESS_PREFIX = "tensor_reshape_worker"
"""The prefix of the names of metrics about the process of each worker."""

_RETURNED_CODES = frozenset({"OK", "CANCELLED", *(reason.code_name for reason in Reason)})
_Values = Mapping[Labels, Sequence[float]]


class CountedProcess(Protocol):
    """The interface of a process with metrics, which is a worker of the supervisor or the only process of a server."""

    number: int
    serves: bool
    starts: int
    hangs: int

    @property
    def pid(self) -> int | None:
        """The process identifier, or None if the process does not run."""


@dataclass
class OnlyProcess:
    """Describes this process, if it is the only process of a server."""

    pid: int = field(default_factory=os.getpid)
    number: int = 1
    serves: bool = True
    starts: int = 1
    hangs: int = 0


MetricsSources: TypeAlias = Sequence[tuple[CountedProcess, SharedCounters]]
"""The processes of a server with their metrics."""


class ServerCollector(Collector):
    """Collects the metrics of one server for prometheus_client."""

    def __init__(self, sources: MetricsSources) -> None:
        """Creates a collector for the metrics of these processes, which are all processes of a server."""
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics of the server in the form of prometheus_client."""
        processes = [process for process, _ in self._sources]
        sums = {family: _sum(family, self._sources) for family in metrics.PROCESS_FAMILIES}
        called = {(service, method) for (service, method, _), (number,) in sums[metrics.CALLS].items() if number}
        for family, values in sums.items():
            shown = {labels: one for labels, one in values.items() if _is_shown(family, labels, one, called)}
            yield build_metric(family, shown)
        versions = platform.python_version(), version("grpcio"), version("protobuf")
        yield build_metric(metrics.BUILD, {(version("tensor-reshape"), name_engine(), *versions): [1]})
        yield build_metric(metrics.WORKERS, {(): [len(processes)]})
        yield build_metric(metrics.SERVING_WORKERS, {(): [sum(one.serves for one in processes)]})
        yield build_metric(metrics.RESTARTS, {(str(one.number),): [max(0, one.starts - 1)] for one in processes})
        yield build_metric(metrics.MISSED_HEARTBEATS, {(str(one.number),): [one.hangs] for one in processes})
        yield from _collect_processes(processes)


def build_registry(sources: MetricsSources) -> CollectorRegistry:
    """Returns a registry with the metrics of a server (see `ServerCollector`) and of this process."""
    registry = CollectorRegistry()
    registry.register(ServerCollector(sources))
    ProcessCollector(registry=registry)
    return registry


def build_metric(family: Family, values: _Values) -> Metric:
    """Returns a metric in the form of prometheus_client.

    `values` maps each combination of label values to its numbers.
    """
    if family.kind == metrics.HISTOGRAM:
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        bounds = (*map(floatToGoString, family.buckets), "+Inf")
        for labels, (*counts, total) in values.items():
            histogram.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
        return histogram
    make = CounterMetricFamily if family.kind == metrics.COUNTER else GaugeMetricFamily
    metric = make(family.name, family.help, labels=family.labels)
    for labels, (number,) in values.items():
        metric.add_metric(labels, number)
    return metric


def _sum(family: Family, sources: MetricsSources) -> _Values:
    """Returns the sums of a metric's values over all processes. Only running processes contribute to a gauge."""
    every = [counters for process, counters in sources if family.kind != metrics.GAUGE or process.pid is not None]
    return {
        labels: [sum(counters.cells[family][labels][index] for counters in every) for index in range(family.width)]
        for labels in sources[0][1].cells[family]
    }


def _is_shown(family: Family, labels: Labels, numbers: Sequence[float], called: Collection[Labels]) -> bool:
    if "method" not in family.labels:
        return True
    service, method, *code = labels
    return (service, method) in called and (not code or any(numbers) or code[0] in _RETURNED_CODES)


def _collect_processes(processes: Sequence[CountedProcess]) -> Iterator[Metric]:
    """Yields the process metrics of prometheus_client for each worker, with the worker's number as a label."""
    found: dict[str, Metric] = {}
    for process in processes:
        if (pid := process.pid) is None:
            continue
        for metric in ProcessCollector(namespace=PROCESS_PREFIX, pid=partial(int, pid), registry=None).collect():
            kept = found.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            for sample in metric.samples:
                kept.add_sample(sample.name, {"worker": str(process.number)}, sample.value)
    yield from found.values()


SCRAPE_TIMEOUT_SECONDS = 2.0
"""Seconds that the metrics port waits to receive a part of a request or to send a part of a response."""

_LOGGER = logging.getLogger(__name__)


class _Handler(MetricsHandler):
    timeout = SCRAPE_TIMEOUT_SECONDS


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # with the default of 5, a sixth waiting connection would be delayed by seconds

    def __init__(self, listener: socket.socket, registry: Collector) -> None:
        super().__init__(listener.getsockname(), _Handler.factory(registry), bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_activate()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as socketserver has it
        """Logs an error as a bug, except for the error of a broken connection.

        Without this method, the standard library would write errors to stderr.
        """
        error = sys.exception()
        if not isinstance(error, OSError):
            _LOGGER.error("bug", exc_info=error)


@contextmanager
def serve_metrics(address: str, registry: Collector) -> Iterator[str]:
    """Serves the metrics of a registry during the `with` block, and yields the address with its bound port.

    Raises:
        ConfigError: the address cannot be bound.
    """
    real, listeners = take(address)
    with ExitStack() as stack:
        for listener in listeners:
            server = stack.enter_context(_Server(listener, registry))
            threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
            stack.callback(server.shutdown)
        _LOGGER.info("listening for metrics", extra={"address": real})
        yield real
