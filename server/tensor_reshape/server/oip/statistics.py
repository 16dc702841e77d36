"""Statistics of each model, which are the number and the duration of its requests.

The gRPC method ModelStatistics returns these statistics.

- A request is counted once, for the model that it names, when its response or error is known. A request that does not
  name an existing model is not counted.
- A duration begins after the request has been parsed, or with the search in the response cache. It ends when the
  response is complete, so it includes the copy of the elements.
- Each worker process counts its own requests and reports only its own counts.
- Any thread may count requests and read the counts.
"""

import threading
import time
from dataclasses import dataclass, replace
from typing import TypeVar

from tensor_reshape.server.oip.models import MODELS

Response = TypeVar("Response")


@dataclass(slots=True)
class Count:
    """The counts of one model.

    Attributes:
        successes: the number of successful requests.
        success_ns: the total duration of the successful requests in nanoseconds.
        failures: the number of failed requests.
        failure_ns: the total duration of the failed requests in nanoseconds.
        last_ms: the time of the last success, in milliseconds since the epoch.
    """

    successes: int = 0
    success_ns: int = 0
    failures: int = 0
    failure_ns: int = 0
    last_ms: int = 0


class Statistics:
    """The counts of all models."""

    def __init__(self) -> None:
        """Starts with all counts at zero."""
        self._lock = threading.Lock()  # this lock is only held while the counts are changed or read
        self._counts = {name: Count() for name in MODELS}

    def count_success(self, model: str, began_ns: int) -> None:
        """Counts a successful request, which began at `began_ns` by `time.perf_counter_ns`."""
        now, took = time.time_ns() // 1_000_000, time.perf_counter_ns() - began_ns
        with self._lock:
            count = self._counts[model]
            count.successes += 1
            count.success_ns += took
            count.last_ms = now

    def count_failure(self, model: str, began_ns: int) -> None:
        """Counts a failed request, which began at `began_ns` by `time.perf_counter_ns`."""
        took = time.perf_counter_ns() - began_ns
        with self._lock:
            count = self._counts[model]
            count.failures += 1
            count.failure_ns += took

    def read(self, model: str) -> Count:
        """Returns the current counts of a model."""
        with self._lock:
            return replace(self._counts[model])
