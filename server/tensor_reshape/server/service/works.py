"""The kinds of long work, and the number of threads for each kind."""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import MappingProxyType


class Work(Enum):
    """The kinds of long work. Each has its own threads, so that no kind blocks another."""

    TENSORS = auto()
    QUERIES = auto()
    """Single queries, which wait for each other."""
    BATCHES = auto()
    """Batches of queries, which wait for each other."""
    NUMBERS = auto()
    """Messages that are parsed as a whole, one at a time, because their parser holds the interpreter's lock."""


QUERY_THREADS = 8
"""The number of single queries that may run or wait for each other at once.

This is more than the default limit of one connection, so that other connections find a thread.

Batches have as many threads. So batches delay neither single queries nor tensors.
"""

TENSOR_THREADS = 16
"""The number of calls with tensors that run at once. They copy memory, which fewer threads saturate."""

WORK_THREADS: Mapping[Work, int] = MappingProxyType(
    {
        Work.TENSORS: TENSOR_THREADS,
        Work.QUERIES: QUERY_THREADS,
        Work.BATCHES: QUERY_THREADS,
        Work.NUMBERS: 1,
    }
)
"""The number of running calls for each kind of work."""

FindWork = Callable[[bytes], Work]
"""Returns the kind of work for a message that takes long. It runs on the receiving thread, so it must be fast."""


def always(work: Work) -> FindWork:
    """Returns a function that always returns `work`."""
    return lambda _raw: work


def decline_light_work(_raw: bytes) -> None:
    """Returns None, because no message is known to be light."""
