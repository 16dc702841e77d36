"""Which calls are given up: how long each may make no progress, and who makes room for connections that have nothing.

- How long a call may make no progress depends on who waits: longest where nobody does.
- Who waits for a connection's own share presses that connection alone: a stranger must not have others given up.
- A connection keeps its last call: it is no worse than those that wait.
- Nothing here changes a call or asks a clock; all of it is called under the lock of the admission.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import NamedTuple

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.budgets import Budget
from tensor_reshape.server.calls.lifecycle import Lifecycle
from tensor_reshape.server.calls.places import Places, refuse_busy
from tensor_reshape.server.config import Config

MIN_PRESSURE_SECONDS = 2.0
"""The least that a call may make no progress, or wait, while others wait."""

MIN_BYTES_PER_SECOND = 8 * 1024 * 1024
"""The pace at which the largest message must arrive while others wait."""

SHORT_SECONDS = 0.05
"""The least that a call may make no progress where threads run short, and its connection holds more than its part."""


class Patience(NamedTuple):
    """How long calls may make no progress.

    Attributes:
        stall_seconds: where nobody waits.
        pressure_seconds: where others wait: the largest message can arrive within that at a moderate pace.
    """

    stall_seconds: float
    pressure_seconds: float

    @classmethod
    def of(cls, config: Config) -> "Patience":
        """Returns that of a server."""
        pace_seconds = config.max_message_bytes / MIN_BYTES_PER_SECOND
        return cls(config.stall_seconds, min(config.stall_seconds, max(MIN_PRESSURE_SECONDS, pace_seconds)))


class Stalls:
    """Finds the calls that are given up."""

    def __init__(self, config: Config) -> None:
        """Knows of no threads that calls hold."""
        self._patience = Patience.of(config)
        self._threads = 0  # that calls may hold while they wait for a message
        self._are_threads_short: Callable[[], bool] = bool  # until `limit_threads`: never

    def limit_threads(self, count: int, are_short: Callable[[], bool]) -> None:
        """Notes that a call which waits for its message holds one of `count` threads, and how to ask for a lack."""
        self._threads, self._are_threads_short = count, are_short

    def find(self, now: float, budget: Budget, places: Places) -> dict[Lifecycle, float]:
        """Returns the calls to be given up, and after how many seconds without progress."""
        short, lives = self._are_threads_short(), places.lives
        pressed = short or budget.is_short or places.is_crowded
        general = self._patience.pressure_seconds if pressed else self._patience.stall_seconds
        crowded = find_crowded(places.calls, self._threads) if short else ()
        find_limit = choose_limits(lives, general, self._patience.pressure_seconds, crowded)
        victims = choose_victims(lives, budget.receiving.newcomers, now - SHORT_SECONDS)
        return dict.fromkeys(victims, SHORT_SECONDS) | {
            life: limit for life in lives if not life.may_stand_still and life.since < now - (limit := find_limit(life))
        }


def choose_limits(
    lives: Collection[Lifecycle], general: float, pressure: float, crowded: Collection[str]
) -> Callable[[Lifecycle], float]:
    """Returns how many seconds each call may make no progress.

    Args:
        lives: all calls.
        general: what any call may.
        pressure: what those may whose own connection has a call that waits for room.
        crowded: connections that hold more than their part of the threads while these run short.
    """
    limits = {life.peer: pressure for life in lives if life.claim}
    limits.update(dict.fromkeys(crowded, SHORT_SECONDS))
    return lambda life: min(general, limits.get(life.peer, general))


def find_crowded(calls: Mapping[str, int], threads: int) -> list[str]:
    """Returns the connections that have more calls than their part of the threads."""
    fair = max(1, threads // max(1, len(calls)))
    return [peer for peer, count in calls.items() if peer and count > fair]


def choose_victims(lives: Collection[Lifecycle], wanted: int, before: float) -> list[Lifecycle]:
    """Returns the calls that make room for connections which wait and have nothing: the most crowded ones pay.

    Args:
        lives: all calls.
        wanted: how many connections wait so.
        before: a call is no victim in its first moments, within which a small message has arrived: it must have been
            silent since before this time.
    """
    if not wanted:
        return []
    silent = sorted((life for life in lives if life.is_silent), key=attrgetter("since"))
    counts, victims = Counter(life.peer for life in silent), list[Lifecycle]()
    for peer, count in counts.most_common():
        long_silent = [life for life in silent if life.peer == peer and life.since < before]
        victims += long_silent[: count - 1]
        if len(victims) >= wanted:
            break
    return victims[:wanted]


def refuse_waiting(seconds: float) -> LimitError:
    """Returns that of a call which this server has kept waiting."""
    return refuse_busy(f"the call has waited for {seconds} seconds, and this server still has no room for it")


def refuse_stalled(seconds: float) -> LimitError:
    """Returns that of a call whose caller has kept it waiting."""
    message = f"the call has made no progress for {seconds} seconds"
    return LimitError.of(Reason.STALLED, message, seconds=seconds)
