"""How often each model has answered, and how long that took: what ModelStatistics tells.

Laws: a request counts for the model that it names, once, when it is answered or refused; one that names none counts
nowhere. Counted are those of this process: with several workers, each tells of its own. Safe to use from any thread.
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
    """What is known of one model.

    Attributes:
        successes: requests that were answered.
        success_ns: how long that took together, from the message to the answer.
        failures: requests that were refused.
        failure_ns: how long these took.
        last_ms: when the last one was answered, in milliseconds since the epoch.
    """

    successes: int = 0
    success_ns: int = 0
    failures: int = 0
    failure_ns: int = 0
    last_ms: int = 0


class Statistics:
    """Counts requests."""

    def __init__(self) -> None:
        """Starts with nothing."""
        self._lock = threading.Lock()  # guards the counts; nothing is done under it but to add
        self._counts = {name: Count() for name in MODELS}

    def note_success(self, model: str, began_ns: int) -> None:
        """Counts an answer; `began_ns` by `time.perf_counter_ns`."""
        now, took = time.time_ns() // 1_000_000, time.perf_counter_ns() - began_ns
        with self._lock:
            count = self._counts[model]
            count.successes += 1
            count.success_ns += took
            count.last_ms = now

    def note_failure(self, model: str, began_ns: int) -> None:
        """Counts a refusal, or a bug."""
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
        """Returns what is known of a model, as of now."""
        with self._lock:
            return replace(self._counts[model])


class Measured(NamedTuple):
    """A request that is being measured."""

    statistics: Statistics
    model: str
    began_ns: int

    def note(self, answer: Answer) -> Answer:
        """Counts an answer, and returns it."""
        self.statistics.note_success(self.model, self.began_ns)
        return answer
