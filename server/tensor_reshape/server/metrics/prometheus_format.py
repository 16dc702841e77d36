"""What Prometheus reads: the counters of all processes as one, as a collector of prometheus_client.

- Counters and gauges of the processes are summed, so the server is one, however many workers it has.
- A method that was never called shows nothing. A method that was called shows every code that this server itself gives,
  also with zero, so that an alert sees the first of them.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.config import Config
from tensor_reshape.server.metrics.families import (
    BUILD,
    CALLS,
    COUNTER,
    GAUGE,
    HISTOGRAM,
    PROCESS_FAMILIES,
    PUSHBACKS,
    PUSHED_BACK,
    REFUSALS,
    REQUEST_BYTES,
    RESTARTS,
    SERVING_WORKERS,
    SILENCES,
    WORKERS,
    Family,
)
from tensor_reshape.server.metrics.shared_counters import Labels, SharedCounters

PROCESS_PREFIX = "tensor_reshape_worker"
"""What the names of the metrics about a worker's process begin with."""

_GIVEN_CODES = frozenset({"OK", "CANCELLED", *(reason.code_name for reason in Reason)})
_Values = Mapping[Labels, Sequence[float]]


class Source(NamedTuple):
    """A process that serves, or will again.

    Attributes:
        worker: its number; a server without workers is the first.
        counters: what it counts.
        pid: of the process; None: there is none now.
        serves: whether it does, as far as is known.
        restarts: how often another was started in its place.
        silences: how often its heartbeats were missing.
    """

    worker: int
    counters: SharedCounters
    pid: int | None
    serves: bool = True
    restarts: int = 0
    silences: int = 0


class ServerCollector(Collector):
    """The metrics of one server."""

    def __init__(
        self, config: Config, find_serving: Callable[[], str], list_sources: Callable[[], Sequence[Source]]
    ) -> None:
        """Shows processes.

        Args:
            config: what they serve.
            find_serving: returns what serves, as far as is known; see `config.CORE`.
            list_sources: returns the processes.
        """
        self._engine = config.io_engine
        self._find_serving = find_serving
        self._list_sources = list_sources

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics."""
        sources = self._list_sources()
        sums = {family: _sum(family, sources) for family in PROCESS_FAMILIES}
        called = _find_called(sums)
        for family, values in sums.items():
            shown = {labels: one for labels, one in values.items() if _is_shown(family, labels, one, called)}
            yield build_metric(family, shown)
        yield build_metric(PUSHBACKS, {(): [sum(sums[REFUSALS][reason,][0] for reason in PUSHED_BACK)]})
        yield build_metric(BUILD, {self._describe_build(): [1]})
        yield build_metric(WORKERS, {(): [len(sources)]})
        yield build_metric(SERVING_WORKERS, {(): [sum(source.serves for source in sources)]})
        yield build_metric(RESTARTS, {(str(source.worker),): [source.restarts] for source in sources})
        yield build_metric(SILENCES, {(str(source.worker),): [source.silences] for source in sources})
        yield from _collect_processes(sources)

    def _describe_build(self) -> Labels:
        versions = platform.python_version(), version("grpcio"), version("protobuf")
        return (version("tensor-reshape"), self._find_serving(), self._engine, *versions)


def build_registry(
    config: Config, find_serving: Callable[[], str], list_sources: Callable[[], Sequence[Source]]
) -> CollectorRegistry:
    """Returns the metrics of a server and those of this process; see `ServerCollector`."""
    registry = CollectorRegistry()
    registry.register(ServerCollector(config, find_serving, list_sources))
    ProcessCollector(registry=registry)
    return registry


def build_metric(family: Family, values: _Values) -> Metric:
    """Returns a metric as prometheus_client has it, with its numbers by the values of its labels."""
    if family.kind == HISTOGRAM:
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        bounds = (*map(floatToGoString, family.buckets), "+Inf")
        for labels, (*counts, total) in values.items():
            histogram.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
        return histogram
    make = CounterMetricFamily if family.kind == COUNTER else GaugeMetricFamily
    metric = make(family.name, family.help, labels=family.labels)
    for labels, (number,) in values.items():
        metric.add_metric(labels, number)
    return metric


def _sum(family: Family, sources: Sequence[Source]) -> _Values:
    """Returns the numbers of a metric, of all processes together; gauges of those that live."""
    every = [source.counters for source in sources if family.kind != GAUGE or source.pid is not None]
    return {
        labels: [sum(counters.cells[family][labels][place] for counters in every) for place in range(family.width)]
        for labels in sources[0].counters.cells[family]
    }


def _find_called(sums: Mapping[Family, _Values]) -> frozenset[Labels]:
    """Returns the methods that have been called: a stream may be under way."""
    over = {(service, method) for (service, method, _), (number,) in sums[CALLS].items() if number}
    return frozenset(over | {labels for labels, numbers in sums[REQUEST_BYTES].items() if any(numbers)})


def _is_shown(family: Family, labels: Labels, numbers: Sequence[float], called: frozenset[Labels]) -> bool:
    if "method" not in family.labels:
        return True
    service, method, *code = labels
    return (service, method) in called and (not code or any(numbers) or code[0] in _GIVEN_CODES)


def _collect_processes(sources: Sequence[Source]) -> Iterator[Metric]:
    """Yields what the system says of the processes, by their numbers: the same as of this one, with another name."""
    found: dict[str, Metric] = {}
    for source in sources:
        if source.pid is None:
            continue
        for metric in ProcessCollector(namespace=PROCESS_PREFIX, pid=partial(int, source.pid), registry=None).collect():
            kept = found.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            for sample in metric.samples:
                kept.add_sample(sample.name, {"worker": str(source.worker)}, sample.value)
    yield from found.values()
