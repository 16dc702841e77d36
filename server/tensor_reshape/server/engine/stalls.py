"""Which calls are given up: how long each may make no progress, and which make room for addresses that have nothing.

- A call has the most time without progress while no call waits.
- While calls wait, two kinds of addresses have less time for all of their calls: those with more than their fair part,
  and those with a waiting call. So a client cannot have the calls of a moderate address given up.
- An address keeps its last call: it is no worse than those that wait.
- Nothing here changes a call or asks a clock; all of it is called under the lock of the engine.
"""

from collections import Counter
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import NamedTuple

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.lifecycle import WAITS, Lifecycle

MIN_PRESSURE_SECONDS = 2.0
"""The least that a call may make no progress, or wait, while others wait."""

MIN_BYTES_PER_SECOND = 8 * 1024 * 1024
"""The pace at which the largest message must arrive while others wait."""

SHORT_SECONDS = 0.05
"""The least that a call may make no progress where addresses wait that have nothing."""


class Patience(NamedTuple):
    """How long calls may make no progress.

    Attributes:
        stall_timeout_seconds: while no call waits.
        pressure_seconds: while others wait: the largest message can arrive within that at a moderate pace.
        wait_seconds: of a call that waits for this server.
    """

    stall_timeout_seconds: float
    pressure_seconds: float
    wait_seconds: float

    @classmethod
    def of(cls, config: Config) -> "Patience":
        """Returns that of a server."""
        pace_seconds = config.max_message_bytes / MIN_BYTES_PER_SECOND
        pressure_seconds = min(config.stall_timeout_seconds, max(MIN_PRESSURE_SECONDS, pace_seconds))
        return cls(config.stall_timeout_seconds, pressure_seconds, pressure_seconds)

    def find_limit(self, life: Lifecycle, *, is_pressed: bool) -> float:
        """Returns how long a call may make no progress; pressed are those of addresses that keep others waiting."""
        if not is_pressed:
            return self.stall_timeout_seconds
        return self.wait_seconds if life.state in WAITS else self.pressure_seconds


def find_stalled(
    lives: Collection[Lifecycle], patience: Patience, now: float, newcomers: int, is_greedy: Callable[[str], bool]
) -> dict[Lifecycle, float]:
    """Returns the calls to be given up, and after how many seconds without progress.

    Args:
        lives: all calls.
        patience: how long calls may make no progress.
        now: by the clock of the engine.
        newcomers: how many addresses wait for room to receive that have nothing.
        is_greedy: whether an address has more than its fair part of what others wait for.
    """
    waiting = {life.source.address for life in lives if life.claim}
    pressed = waiting | {address for address in {life.source.address for life in lives} if is_greedy(address)}
    limits = {
        life: patience.find_limit(life, is_pressed=life.source.address in pressed)
        for life in lives
        if not life.may_stand_still
    }
    victims = choose_victims(lives, newcomers, now - SHORT_SECONDS)
    return dict.fromkeys(victims, SHORT_SECONDS) | {
        life: limit for life, limit in limits.items() if life.since < now - limit
    }


def choose_victims(lives: Collection[Lifecycle], wanted: int, before: float) -> list[Lifecycle]:
    """Returns the calls that make room for addresses which wait and have nothing: those that have most pay.

    Args:
        lives: all calls.
        wanted: how many addresses wait so.
        before: a call is no victim in its first moments, within which a small message has arrived: it must have been
            silent since before this time.
    """
    if not wanted:
        return []
    silent = sorted((life for life in lives if life.is_silent), key=attrgetter("since"))
    counts, victims = Counter(life.source.address for life in silent), list[Lifecycle]()
    for address, count in counts.most_common():
        long_silent = [life for life in silent if life.source.address == address and life.since < before]
        victims += long_silent[: count - 1]
        if len(victims) >= wanted:
            break
    return victims[:wanted]


def refuse_busy(message: str) -> LimitError:
    """Returns the refusal of a call for which there is no room."""
    return LimitError.of(Reason.SERVER_BUSY, message)


def refuse_waiting(seconds: float) -> LimitError:
    """Returns that of a call which this server has kept waiting."""
    return refuse_busy(f"the call has waited for {seconds} seconds, and this server still has no room for it")


def refuse_stalled(seconds: float) -> LimitError:
    """Returns that of a call whose caller has kept it waiting."""
    message = f"the call has made no progress for {seconds} seconds"
    return LimitError.of(Reason.STALLED, message, seconds=seconds)
