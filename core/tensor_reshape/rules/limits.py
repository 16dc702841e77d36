"""Defines the limits of the specifications, the limits that a server may set, and the step budget of a search.

The limit of a search is a number of steps, not of seconds. If a search has used all its steps, it returns the ranges
that it has found so far. These ranges may be wider than necessary, but they are never wrong. The number of steps is the
same on every machine, so results do not depend on the speed of the machine.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MAX_DIM = 2**63 - 1
"""The largest dim, which is the largest s64."""

GRAPH_MAX_RANK = 12
"""The largest rank that oneDNN supports (DNNL_MAX_NDIMS)."""

MAX_RANK = 64
"""The largest rank that numpy supports. A server's own rank limit has this default and this maximum."""

MAX_HEADER_BYTES = 64 * 1024
"""The largest message, not counting its tensor bytes.

A valid message with a tensor of rank 64 needs less than 4 KiB, unless its dims have names or ranges.
"""

MAX_PROTOBUF_BYTES = 2**31 - 1
"""The size of the largest message that protobuf supports."""

MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_BATCH_ITEMS = 65536
"""The number of queries in the largest batch. One thread needs one to a few seconds to answer this number of queries.
"""

LIGHT_HEADER_BYTES = 4 * 1024
"""The largest message that the receiving thread reads, not counting its tensor bytes.

A query at rank 64 is smaller, unless its dims have names or ranges. A larger header is read on a worker thread.
"""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024 + MAX_HEADER_BYTES
"""The default limit of received messages and of outputs: 16 MiB for the tensor, and the header.

Clients send larger tensors with StreamReshape. A server reserves memory for the largest allowed message of each call,
so a larger limit allows fewer concurrent calls.
"""

MAX_TENSOR_BYTES = 2**40
"""The default limit of a tensor on a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that one server has set.

    Attributes:
        max_rank: the largest rank of the data and of the target, for operations whose specification has no rank limit.
        max_output_bytes: the largest size of an output. This limit is necessary, because a stride of 0 can turn one
            byte of input into a terabyte of output. The limit also applies to tensors with strides on a stream.
        max_tensor_bytes: the largest size of a dense tensor on a stream. The server does not keep the whole tensor in
            memory.
    """

    max_rank: int = MAX_RANK
    max_output_bytes: int = MAX_MESSAGE_BYTES
    max_tensor_bytes: int = MAX_TENSOR_BYTES


DEFAULT_LIMITS = Limits()


MAX_STEPS = 4000
"""The number of steps of one query. They take some milliseconds at most."""


class StepBudget:
    """The steps that remain for one query.

    The items of a batch use the same budget, each in its turn. Each budget is used by only one thread.

    Attributes:
        left: the remaining steps; negative if the last call of `spend` needed more steps than remained.
    """

    def __init__(self, steps: int = MAX_STEPS, explanations: "StepBudget | None" = None) -> None:
        """Creates a budget with the given number of steps. Explanations have MAX_STEPS steps by default."""
        self.left = steps
        self._explanations = explanations

    @property
    def explanations(self) -> "StepBudget":
        """The budget for explanations, which is separate so that an explanation cannot change a result."""
        return self._explanations or StepBudget()

    def spend(self, steps: int) -> bool:
        """Subtracts `steps` from the remaining steps. Returns whether the remaining steps were sufficient."""
        self.left -= steps
        return self.left >= 0

    @contextmanager
    def hold(self, others: int) -> Iterator[None]:
        """During the `with` block, keeps some of the steps for later users of the budget.

        The block and each later user get an equal number of the remaining steps. There are `others` later users.
        """
        held = max(self.left, 0) * others // (others + 1)
        self.left -= held
        try:
            yield
        # This code also runs after an exception. If a query of a batch fails because of a bug, the batch continues with
        # the next query and the same budget.
        finally:
            self.left += held
