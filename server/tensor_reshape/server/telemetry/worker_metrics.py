"""The metrics of all workers on the port of their supervisor."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tensor_reshape.server.telemetry.counted_methods import list_methods
from tensor_reshape.server.telemetry.metrics_ports import serve_metrics
from tensor_reshape.server.telemetry.prometheus_format import Source, build_registry
from tensor_reshape.server.telemetry.shared_counters import SharedCounters

if TYPE_CHECKING:
    from tensor_reshape.server.workers.supervisor import Worker


def serve_workers(address: str, workers: "Sequence[Worker]") -> AbstractContextManager[str]:
    """Gives each worker memory for its metrics, serves all metrics, and yields the address with its bound port.

    The metrics port has its own threads, so a request does not block the supervisor.

    Raises:
        ConfigError: the address cannot be bound.
    """
    every = []
    for worker in workers:
        worker.counters = os.memfd_create("tensor-reshape-metrics")
        every.append(SharedCounters(list_methods(), worker.counters))

    def list_sources() -> list[Source]:
        return [
            Source(worker.number, counters, worker.pid, worker.serves, max(0, worker.starts - 1), worker.hangs)
            for worker, counters in zip(workers, every, strict=True)
        ]

    return serve_metrics(address, build_registry(list_sources))
