"""Step budgets: limits of the work of a search, counted instead of timed.

A search without remaining steps returns what it knows: a wider result, but never a wrong one. Counting makes results
equal on every machine, and keeps clocks out of the rules.
"""

from collections.abc import Iterator
from contextlib import contextmanager

MAX_STEPS = 4000
"""Steps of one query: some milliseconds at most."""


class StepBudget:
    """The remaining steps. Only one thread uses a budget: for one query, or for the items of a batch one after another.

    Attributes:
        left: the remaining steps; negative if the last expense exceeded them.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        """Starts with `steps`."""
        self.left = steps

    def spend(self, steps: int) -> bool:
        """Spends steps. Returns whether there were enough."""
        self.left -= steps
        return self.left >= 0

    @contextmanager
    def hold(self, others: int) -> Iterator[None]:
        """Reserves the shares of later users of the budget during the `with` block."""
        held = max(self.left, 0) * others // (others + 1)
        self.left -= held
        try:
            yield
        finally:  # a batch continues with the next query after a bug
            self.left += held
