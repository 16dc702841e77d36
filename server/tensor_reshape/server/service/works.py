"""What takes long, by what it waits for, and how many threads there are for each."""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import MappingProxyType


class Work(Enum):
    """What takes long, by what it waits for. Each kind has threads of its own, so that none keeps another waiting."""

    TENSORS = auto()
    QUESTIONS = auto()
    """Single ones, which wait for each other."""
    BATCHES = auto()
    """Of questions, which wait for each other."""
    NUMBERS = auto()
    """Messages that are parsed whole, one at a time: what parses them does not let others have the interpreter."""


QUESTION_THREADS = 8
"""How many questions are worked on, or wait for their turn, at once: more than one connection has room for by default,
so that the next one's find a thread.

Batches have as many: none keeps a single question waiting, and neither a tensor.
"""

TENSOR_THREADS = 16
"""How many calls with tensors are worked on at once. The work is to copy memory, which fewer threads saturate."""

WORK_THREADS: Mapping[Work, int] = MappingProxyType(
    {
        Work.TENSORS: TENSOR_THREADS,
        Work.QUESTIONS: QUESTION_THREADS,
        Work.BATCHES: QUESTION_THREADS,
        Work.NUMBERS: 1,
    }
)
"""How many calls with each kind of work are worked on at once."""

FindWork = Callable[[bytes], Work]
"""Which work a message that takes long makes; called on the thread that received it, so it takes no time itself."""


def find_tensors(_raw: bytes) -> Work:
    """All work of a method is to move elements."""
    return Work.TENSORS


def find_questions(_raw: bytes) -> Work:
    """It answers single questions."""
    return Work.QUESTIONS


def find_batches(_raw: bytes) -> Work:
    """It answers batches."""
    return Work.BATCHES


def leave_to_a_thread(_raw: bytes) -> None:
    """No message is known to be light."""
