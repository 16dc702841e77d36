"""Step budgets: what bounds the work of a search, counted and not timed.

A search spends steps as it goes, and one that has none left returns what it knows: an answer that is wider, never one
that is wrong. Counting instead of timing makes an answer the same on every machine, and keeps clocks out of the rules.
"""

from collections.abc import Iterator
from contextlib import contextmanager

MAX_STEPS = 4000
"""What one question may spend: some milliseconds, whatever the question is."""


class StepBudget:
    """What is left to spend. It belongs to one thread: a question, or the items of a batch one after another.

    Attributes:
        left: how many steps are left; negative where the last expense was more than there was.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        """Starts with so many steps."""
        self.left = steps

    def spend(self, steps: int) -> bool:
        """Spends so many steps; returns whether there were as many left."""
        self.left -= steps
        return self.left >= 0

    @contextmanager
    def hold(self, others: int) -> Iterator[None]:
        """Holds back the shares of so many others, which come after what is done in the `with`."""
        held = max(self.left, 0) * others // (others + 1)
        self.left -= held
        try:
            yield
        finally:  # a batch goes on with the next question after a bug
            self.left += held
