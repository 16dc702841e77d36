"""Places for calls: how many there may be at once, and of one connection where most are taken.

- A call without a name, whose connection is not known yet, has a place and counts for no connection.
- Nothing here locks: `admission` does. Every step costs the same however many calls there are.
"""

from collections import Counter

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.lifecycle import Lifecycle

CROWDED_CALLS = 8
"""How many calls a connection may have when most places are taken."""


class Places:
    """The places of one process.

    Attributes:
        lives: the calls that have one.
        calls: how many of these each connection has, of those that have any.
    """

    def __init__(self, count: int) -> None:
        """Starts with all of them free."""
        self._count = count
        self._crowd = count - count // 4  # from so many on, most are taken
        self.lives: set[Lifecycle] = set()
        self.calls: Counter[str] = Counter()

    @property
    def is_crowded(self) -> bool:
        """Whether most places are taken."""
        return len(self.lives) >= self._crowd

    def take(self, life: Lifecycle) -> LimitError | None:
        """Gives a call a place, or returns why not."""
        taken, peer = len(self.lives), life.peer
        if taken >= self._count:
            return refuse_busy(f"{taken} calls are under way, as many as this server takes")
        if peer and taken >= self._crowd and self.calls[peer] >= CROWDED_CALLS:
            return refuse_busy(f"{taken} calls are under way; a connection may have {CROWDED_CALLS} of them now")
        self.lives.add(life)
        if peer:
            self.calls[peer] = self.calls.get(peer, 0) + 1
        return None

    def give_back(self, life: Lifecycle) -> None:
        """Frees the place of a call, also where it has none."""
        if life not in self.lives:
            return
        self.lives.discard(life)
        left = self.calls.get(life.peer, 0) - 1
        if left > 0:
            self.calls[life.peer] = left
        else:
            self.calls.pop(life.peer, None)  # a connection that has none is not kept; nor one without a name


def refuse_busy(message: str) -> LimitError:
    """Returns the refusal of a call for which there is no room."""
    return LimitError.of(Reason.SERVER_BUSY, message)
