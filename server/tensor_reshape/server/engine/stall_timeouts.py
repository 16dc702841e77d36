"""Chooses the calls to abort, because they make no progress or hold memory that other calls need.

- While no call waits, a call is aborted if it makes no progress for the full stall timeout.
- While calls wait for memory, a shorter timeout applies to addresses that hold more than their fair share, and to
  addresses that have a waiting call. A client therefore cannot cause the server to abort calls of an address that holds
  little memory.
- While client addresses that hold no memory wait for memory, calls of other addresses are aborted after `SHORT_SECONDS`
  without progress. In this case, each address keeps one of its calls, because one call holds no more memory than a
  waiting call needs.
- The functions of this module do not change calls or read a clock. The engine calls these functions while it holds its
  lock.
"""

from collections import Counter
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import NamedTuple

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.lifecycle import WAITS, Lifecycle, State

MIN_PRESSURE_SECONDS = 2.0
"""The minimum of the shorter stall timeout in seconds. The shorter stall timeout applies while calls wait."""

MIN_BYTES_PER_SECOND = 8 * 1024 * 1024
"""The rate that determines the shorter stall timeout.

The largest message can arrive at this rate within the timeout.
"""

SHORT_SECONDS = 0.05
"""The stall timeout in seconds that applies while addresses that hold nothing wait for memory."""


class StallTimeouts(NamedTuple):
    """The timeouts of calls without progress.

    Attributes:
        stall_timeout_seconds: the timeout of a call without progress while no call waits.
        pressure_seconds: the timeout of a call without progress while other calls wait. The largest message can arrive
            within this time at a moderate rate.
        wait_seconds: the timeout of a call that waits for this server.
    """

    stall_timeout_seconds: float
    pressure_seconds: float
    wait_seconds: float

    @classmethod
    def of(cls, config: Config) -> "StallTimeouts":
        """Returns the timeouts for the configuration of a server."""
        pace_seconds = config.max_message_bytes / MIN_BYTES_PER_SECOND
        pressure_seconds = min(config.stall_timeout_seconds, max(MIN_PRESSURE_SECONDS, pace_seconds))
        return cls(config.stall_timeout_seconds, pressure_seconds, pressure_seconds)

    def find_limit(self, life: Lifecycle, *, is_pressed: bool) -> float:
        """Returns the timeout of a call.

        `is_pressed` says whether the shorter timeout applies to the address of the call.
        """
        if not is_pressed:
            return self.stall_timeout_seconds
        return self.wait_seconds if life.state in WAITS else self.pressure_seconds


def find_stalled(
    lives: Collection[Lifecycle], timeouts: StallTimeouts, now: float, newcomers: int, is_greedy: Callable[[str], bool]
) -> dict[Lifecycle, float]:
    """Returns the calls to abort, with the timeout in seconds that each call has exceeded.

    Args:
        lives: all calls.
        timeouts: the timeouts.
        now: the current time by the engine's clock.
        newcomers: the number of client addresses that hold no memory and wait for memory to receive a message.
        is_greedy: a function that returns whether an address holds more than its fair share of a resource that other
            addresses wait for.
    """
    waiting = {life.source.address for life in lives if life.claim}
    pressed = waiting | {address for address in {life.source.address for life in lives} if is_greedy(address)}
    limits = {
        life: timeouts.find_limit(life, is_pressed=life.source.address in pressed)
        for life in lives
        if not life.is_worked_on
    }
    crowding = choose_calls_to_abort(lives, newcomers, now - SHORT_SECONDS)
    return dict.fromkeys(crowding, SHORT_SECONDS) | {
        life: limit for life, limit in limits.items() if life.since < now - limit
    }


def choose_calls_to_abort(lives: Collection[Lifecycle], wanted: int, before: float) -> list[Lifecycle]:
    """Returns the calls to abort so that waiting client addresses that hold no memory get some.

    A silent call holds memory and only waits for its client. Silent calls of the addresses with the most silent calls
    are aborted first.

    Args:
        lives: all calls.
        wanted: the number of waiting client addresses that hold no memory.
        before: only calls whose last progress was before this time are chosen. Calls with later progress are not
            chosen, because a small message arrives within `SHORT_SECONDS`.
    """
    if not wanted:
        return []
    silent = sorted((life for life in lives if life.is_silent), key=attrgetter("since"))
    counts, chosen = Counter(life.source.address for life in silent), list[Lifecycle]()
    for address, count in counts.most_common():
        long_silent = [life for life in silent if life.source.address == address and life.since < before]
        chosen += long_silent[: count - 1]
        if len(chosen) >= wanted:
            break
    return chosen[:wanted]


def reject_busy(message: str) -> LimitError:
    """Returns the SERVER_BUSY error."""
    return LimitError.of(Reason.SERVER_BUSY, message)


def reject_idle(state: State, seconds: float) -> LimitError:
    """Returns the error of a call that has waited too long, either for this server or for its client."""
    if state in WAITS:
        return reject_busy(f"the call has waited {seconds} seconds for memory or a thread of this server; retry later")
    message = f"the call has made no progress for {seconds} seconds"
    return LimitError.of(Reason.STALLED, message, seconds=seconds)
