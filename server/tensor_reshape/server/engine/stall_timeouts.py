"""Chooses the calls that the engine aborts, because they make no progress or hold memory that other calls need.

- While no call waits, a call is aborted if it makes no progress for the full stall timeout.
- While calls wait for memory, a shorter timeout applies to addresses that hold more than their fair share, and to
  addresses that have a waiting call. A client therefore cannot cause the server to abort calls of an address that holds
  little memory.
- While clients that hold no memory wait for memory, other calls are aborted after `SHORT_SECONDS` without progress. If
  an address holds no memory and waits for memory, calls of other addresses are aborted, and each of these addresses
  keeps one of its calls. If a connection holds no memory and waits for memory, calls of other connections of the same
  address are aborted. A connection without waiting calls keeps one of its calls, because this call may be a slow
  upload.
- The functions of this module neither change calls nor read a clock. The engine calls these functions while it holds
  its lock.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.lifecycle import WAITS, WORKED_ON, Lifecycle, State

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

        If `is_pressed` is true, the shorter timeout applies to the address of the call.
        """
        if not is_pressed:
            return self.stall_timeout_seconds
        return self.wait_seconds if life.state in WAITS else self.pressure_seconds


def find_stalled(
    lives: Collection[Lifecycle],
    timeouts: StallTimeouts,
    now: float,
    newcomers: int,
    starving: Mapping[str, int],
    is_greedy: Callable[[str], bool],
) -> dict[Lifecycle, LimitError]:
    """Returns the calls to abort, each with its error.

    If other clients wait for the memory of a call, this call comes first. The other calls follow in the order of their
    last progress.

    Args:
        lives: all calls.
        timeouts: the timeouts.
        now: the current time by the engine's clock.
        newcomers: the number of addresses that hold no memory and wait for it.
        starving: for each address, the number of its connections that hold no memory and wait for it.
        is_greedy: a function that returns whether an address holds more than its fair share of a resource that other
            addresses wait for.
    """
    waiting = {life.source for life in lives if life.claim}
    silent = sorted((life for life in lives if life.is_silent), key=attrgetter("since"))
    spare = find_spare(silent, waiting)
    sole, relieved = set(silent) - spare, {life.source.address for life in spare if life.since < now - SHORT_SECONDS}
    if len({source.address for source in waiting}) > 1:
        relieved.clear()  # no address may keep memory for long while another address waits for memory
    pressed = {source.address for source in waiting} | set(filter(is_greedy, {life.source.address for life in lives}))
    crowding = reject_busy(
        f"the call has made no progress for {SHORT_SECONDS} seconds, and other clients wait for its memory; retry later"
    )
    chosen = choose_calls_to_abort(silent, spare, newcomers, starving, now - SHORT_SECONDS)
    stalled = dict.fromkeys(chosen, crowding)
    overdue = []
    for life in lives:
        if life.state in WORKED_ON or life in stalled:
            continue
        address = life.source.address
        # A slow upload with its own connection has more time under two conditions. Only connections of its own address
        # wait, and other calls of this address can free memory for these connections.
        limit = timeouts.find_limit(life, is_pressed=address in pressed and not (address in relieved and life in sole))
        if life.since < now - limit:
            overdue.append((life.since, limit, life))
    overdue.sort(key=itemgetter(0))
    return stalled | {
        life: reject_idle(life.state, limit, is_pressed=limit < timeouts.stall_timeout_seconds)
        for _, limit, life in overdue
    }


def find_spare(silent: Iterable[Lifecycle], waiting: Collection[Source]) -> set[Lifecycle]:
    """Returns the silent calls that their connections can spare.

    A silent call holds memory and only waits for its client. If other calls of a connection wait for memory, the
    connection can spare all its silent calls, because one of the waiting calls gets memory next. Otherwise, the
    connection keeps its newest silent call, because this call may be a slow upload with its own connection.

    Args:
        silent: the silent calls. The call that made progress most recently is the last one.
        waiting: the connections with calls that wait for memory.
    """
    newest = {life.source: life for life in silent}
    return {life for life in silent if life.source in waiting or newest[life.source] is not life}


def choose_calls_to_abort(
    silent: Sequence[Lifecycle],
    spare: Collection[Lifecycle],
    newcomers: int,
    starving: Mapping[str, int],
    before: float,
) -> list[Lifecycle]:
    """Returns the calls to abort so that clients without memory get memory.

    For each address without memory, one silent call of another address is chosen, first from the address with the most
    silent calls. Each of these addresses keeps at least one silent call. For each connection without memory, one call
    of its own address is chosen, first from the connection with the most silent calls. The connection of each chosen
    call can spare this call.

    Args:
        silent: the silent calls. The call that made progress most recently is the last one.
        spare: the silent calls that their connections can spare.
        newcomers: the number of addresses that hold no memory and wait for it.
        starving: for each address, the number of its connections that hold no memory and wait for it.
        before: only calls whose last progress was before this time are chosen. The other calls may still receive a
            small message within `SHORT_SECONDS`.
    """
    chosen, counts = list[Lifecycle](), Counter(life.source for life in silent)
    addresses = defaultdict[str, list[Lifecycle]](list)
    for life in silent:
        addresses[life.source.address].append(life)
    for lives in sorted(addresses.values(), key=len, reverse=True):
        own = [life for life in lives if life.since < before]
        chosen += sorted(own, key=lambda life: life not in spare)[: len(lives) - 1]
    del chosen[newcomers:]
    for address, wanted in starving.items():
        own = [life for life in silent if life.source.address == address and life in spare and life.since < before]
        chosen += sorted(own, key=lambda life: -counts[life.source])[:wanted]
    return chosen


def reject_busy(message: str) -> LimitError:
    """Returns the SERVER_BUSY error."""
    return LimitError.of(Reason.SERVER_BUSY, message)


def reject_idle(state: State, seconds: float, *, is_pressed: bool) -> LimitError:
    """Returns the error of a call that has waited too long, either for this server or for its client.

    Args:
        state: the state of the call.
        seconds: the timeout that the call has exceeded.
        is_pressed: whether this timeout is shorter because other calls wait. A call that exceeds the shorter timeout
            may succeed later, so its client may retry.
    """
    if state in WAITS:
        return reject_busy(f"the call has waited {seconds} seconds for memory or a thread of this server; retry later")
    message = f"the call has made no progress for {seconds} seconds"
    if is_pressed:
        return reject_busy(f"{message}, and other calls wait; retry later")
    return LimitError.of(Reason.STALLED, f"{message} (--stall-timeout-seconds)", seconds=seconds)
