"""What one call has of the budget, and what is known of its progress; `admission` decides what follows."""

import time
from collections.abc import Callable

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.accounts import Claim

TRICKLE_BYTES_PER_SECOND = 16 * 1024
"""The pace of a stream below which it is given up also when nobody waits."""


class Ticket:
    """One call's part of the budget. Whoever has one calls `Admission.leave` in the end.

    Attributes:
        start: begins to receive a message.
        evict: ends the call with a refusal, whatever it is doing.
        peer: the name of the connection; empty while it is not known.
        reading: the bytes that are set aside for the message that it receives, or has received and not answered yet.
        kept: the bytes of messages that it has.
        claimed: whether these are in the working pool, where room was claimed for them.
        held: the bytes that it has besides.
        since: when it last made progress.
        claim: the room that it waits for.
        waiting: whether it waits for a thread.
        working: whether a thread works on it.
        evicted: whether it has been given up, and a refusal is on its way.
        begun: whether it has asked for its first message.
        left: whether it is over, so that nothing is accounted to it any more.
    """

    __slots__ = (
        "begun",
        "claim",
        "claimed",
        "evict",
        "evicted",
        "held",
        "kept",
        "left",
        "peer",
        "reading",
        "since",
        "start",
        "waiting",
        "working",
    )

    def __init__(self, start: Callable[[], None], evict: Callable[[LimitError], None]) -> None:
        """Takes the call's callbacks; `start` and `evict` are called without any lock held."""
        self.start = start
        self.evict = evict
        self.peer = ""
        self.reading = self.kept = self.held = 0
        self.since = time.monotonic()
        self.claim: Claim | None = None
        self.claimed = self.waiting = self.working = self.begun = self.evicted = self.left = False

    @property
    def receiving(self) -> int:
        """What it has of the receiving pool."""
        return self.reading + (0 if self.claimed else self.kept)

    @property
    def used(self) -> int:
        """What it has of the working pool."""
        return self.held + (self.kept if self.claimed else 0)

    @property
    def is_silent(self) -> bool:
        """Whether it has room to receive, and neither a thread nor a refusal."""
        return bool(self.receiving) and not (self.working or self.waiting or self.claim or self.evicted)

    def advance(self, moved: int | None) -> None:
        """Notes the progress of so many bytes; None: as much as there can be."""
        now = time.monotonic()
        self.since = now if moved is None else min(now, self.since + max(moved, 0) / TRICKLE_BYTES_PER_SECOND)

    def forget_call(self) -> None:
        """Lets go of the call: one that waits for the garbage collector keeps its stream, of which there are few."""
        self.start, self.evict = _do_nothing, _do_nothing


def _do_nothing(*_: object) -> None:
    pass
