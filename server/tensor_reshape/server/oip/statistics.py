"""The number and the duration of requests for each model, for ModelStatistics.

Invariants: a request counts once, for the model that it names, when its response or error is known. A request without a
model is not counted. The counts are those of this process, so each worker reports its own. Any thread may use them.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from tensor_reshape.server.oip.models import MODELS

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Count:
    """The counts of one model.

    Attributes:
        successes: the number of successful requests.
        success_ns: their total duration, from the message to the response.
        failures: the number of failed requests.
        failure_ns: their total duration.
        last_ms: the time of the last success, in milliseconds since the epoch.
    """

    successes: int = 0
    success_ns: int = 0
    failures: int = 0
    failure_ns: int = 0
    last_ms: int = 0


class Statistics:
    """Counts requests."""

    def __init__(self) -> None:
        """Starts at zero."""
        self._lock = threading.Lock()  # guards the counts, and is held only to add
        self._counts = {name: Count() for name in MODELS}

    def note_success(self, model: str, began_ns: int) -> None:
        """Counts a success; `began_ns` is from `time.perf_counter_ns`."""
        now, took = time.time_ns() // 1_000_000, time.perf_counter_ns() - began_ns
        with self._lock:
            count = self._counts[model]
            count.successes += 1
            count.success_ns += took
            count.last_ms = now

    def note_failure(self, model: str, began_ns: int) -> None:
        """Counts a failed request."""
        took = time.perf_counter_ns() - began_ns
        with self._lock:
            count = self._counts[model]
            count.failures += 1
            count.failure_ns += took

    @contextmanager
    def measure(self, model: str) -> Iterator["Measured"]:
        """Counts what is noted within the block, or leaves it as an exception."""
        began = time.perf_counter_ns()
        try:
            yield Measured(self, model, began)
        except Exception:
            self.note_failure(model, began)
            raise

    def read(self, model: str) -> Count:
        """Returns the current counts of a model."""
        with self._lock:
            return replace(self._counts[model])


class Measured(NamedTuple):
    """A request that is being measured."""

    statistics: Statistics
    model: str
    began_ns: int

    def note(self, answer: Answer) -> Answer:
        """Counts a response, and returns it."""
        self.statistics.note_success(self.model, self.began_ns)
        return answer
