"""A step budget limits the work of a search. The limit is a number of steps, not of seconds.

If a search has used all its steps, it returns the ranges that it has found so far. These ranges may be wider than
necessary, but they are never wrong. The number of steps is the same on every machine, so results do not depend on the
speed of the machine.
"""

from collections.abc import Iterator
from contextlib import contextmanager

MAX_STEPS = 4000
"""The number of steps of one query. They take some milliseconds at most."""


class StepBudget:
    """The remaining steps for one query, or for the items of a batch one after another.

    Only one thread uses a given budget.

    Attributes:
        left: the remaining steps; negative if the last call of `spend` needed more steps than remained.
    """

    def __init__(self, steps: int = MAX_STEPS, explanations: "StepBudget | None" = None) -> None:
        """Creates a budget with the given number of steps. Explanations have MAX_STEPS steps by default."""
        self.left = steps
        self._explanations = explanations

    @property
    def explanations(self) -> "StepBudget":
        """The budget for explanations, which is separate because an explanation never changes a result."""
        return self._explanations or StepBudget()

    def spend(self, steps: int) -> bool:
        """Subtracts `steps` from the remaining steps. Returns whether the remaining steps were sufficient."""
        self.left -= steps
        return self.left >= 0

    @contextmanager
    def hold(self, others: int) -> Iterator[None]:
        """During the `with` block, keeps some of the steps for later users of the budget.

        The remaining steps are divided equally between the block and the `others` later users.
        """
        held = max(self.left, 0) * others // (others + 1)
        self.left -= held
        try:
            yield
        # This code also runs after an exception, because a batch continues with its next query and the same budget
        # after a bug in one query.
        finally:
            self.left += held
