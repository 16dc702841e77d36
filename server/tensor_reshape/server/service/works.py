"""The kinds of long work, and the number of threads for each kind."""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import MappingProxyType


class Work(Enum):
    """The kinds of long work. Each kind has its own threads, so that no kind blocks another kind."""

    TENSORS = auto()
    """Calls that copy the elements of tensors."""

    QUERIES = auto()
    """Single queries, which take turns."""

    BATCHES = auto()
    """Batches of queries, which take turns."""

    NUMBERS = auto()
    """Messages whose parser holds the interpreter lock, so that more threads would not be faster."""


QUERY_THREADS = 8
"""The number of threads for single queries, and also the number of threads for batches.

These threads take turns. By default, the processing pool gives each connection memory for five queries at the same
time, so other connections find a free thread. Batches have their own threads, so they delay neither single queries nor
tensors.
"""

TENSOR_THREADS = 16
"""The number of threads for calls with tensors.

More threads would not be faster, because fewer threads already use the whole memory bandwidth.
"""

WORK_THREADS: Mapping[Work, int] = MappingProxyType(
    {
        Work.TENSORS: TENSOR_THREADS,
        Work.QUERIES: QUERY_THREADS,
        Work.BATCHES: QUERY_THREADS,
        Work.NUMBERS: 1,
    }
)
"""The number of threads for each kind of work."""

FindWork = Callable[[bytes], Work]
"""A function that returns the kind of work for a message that takes long.

The receiving thread calls this function, so it must be fast.
"""


def always(work: Work) -> FindWork:
    """Returns a function that always returns `work`."""
    return lambda _raw: work


def decline_light_work(_raw: bytes) -> None:
    """Returns None, so that a worker thread processes every message."""
