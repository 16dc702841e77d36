"""Who may take memory, and when: one budget for all calls of a process, in two pools.

- How large a message is, nobody knows before it has arrived. So whoever begins to receive one must have room for the
  largest, once: the receiving pool. A small one is answered within that room, which is free when the answer has been
  taken. For others the answer, and what the transport sends of it, need room of the working pool. What arrives never
  keeps what has arrived from being answered, and so from giving its room back.
- One connection takes a share of each pool, and none keeps out those that have nothing: see `accounts`. Where all room
  to receive is taken all the same, calls of the connections that have most are given up.
- A connection may have many calls, but when most places for calls are taken, only a few more.
- A call that makes no progress is given up after `stall_seconds`, and while others wait, as soon as the largest message
  has had time to arrive at a moderate pace. Bytes are progress at a pace, too: a trickle only puts off the end. What
  this server works on makes progress.
- What waits for room longer than that is refused.

A call's callbacks (`start`, `evict`) are called without the lock. All clients of one unix socket have one name, so they
are one connection.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.accounts import Pool
from tensor_reshape.server.calls.tickets import Ticket
from tensor_reshape.server.config import COST_FACTOR, Config

MIN_PRESSURE_SECONDS = 2.0
"""The least that a call may make no progress, or wait, while others wait."""

MIN_BYTES_PER_SECOND = 8 * 1024 * 1024
"""The pace at which the largest message must arrive while others wait."""

MAX_READS = 16
"""How many messages one connection may receive at once, at most; the others wait for it alone."""

SHORT_SECONDS = 0.05
"""The least that a call may make no progress where threads run short, and its connection holds more than its part."""

CROWDED_CALLS = 8
"""How many calls a connection may have when most places are taken."""


_LEAST_SHARE = 4  # messages: what a strided tensor on a stream may hold
_LOGGER = logging.getLogger(__name__)


class Admission:
    """The budget of one process; safe to use from any thread."""

    def __init__(self, config: Config) -> None:
        """Starts with the whole budget."""
        self._read_cost = config.max_message_bytes
        self.work_cost = COST_FACTOR * config.max_message_bytes
        # The transport hands a message over by copying it twice, one message at a time.
        usable = config.memory_budget_bytes - 2 * config.max_message_bytes
        half = usable // 2
        self._receiving = Pool(half, half - half // 4, min(MAX_READS * self._read_cost, half))
        self._working = Pool(half, half - half // 4, max(half // 2, _LEAST_SHARE * self._read_cost))
        self._max_calls = config.max_calls
        self._crowd = config.max_calls - config.max_calls // 4
        self._stall_seconds = config.stall_seconds
        pace_seconds = config.max_message_bytes / MIN_BYTES_PER_SECOND
        self._pressure_seconds = min(config.stall_seconds, max(MIN_PRESSURE_SECONDS, pace_seconds))
        self._lock = threading.Lock()
        self._threads = 0
        self._are_threads_short: Callable[[], bool] = bool  # until `limit_threads`: never
        self._paused: dict[str, list[Ticket]] = {}  # of connections that something is to be done to when they are idle
        self._tickets: set[Ticket] = set()
        self._calls: Counter[str] = Counter()  # of each connection

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return not self._tickets

    @property
    def used_bytes(self) -> int:
        """What is set aside for all calls now."""
        return self._receiving.used + self._working.used

    def enter(self, ticket: Ticket, peer: str = "") -> None:
        """Admits a call; without a `peer`, `identify` follows.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            if len(self._tickets) >= self._max_calls:
                message = f"{self._max_calls} calls are under way, as many as this server takes"
                raise _refuse_busy(message)
            if peer:
                self._identify(ticket, peer)
            self._tickets.add(ticket)

    def identify(self, ticket: Ticket, peer: str) -> None:
        """Names the connection of a call that has entered without.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            if not ticket.left:
                self._identify(ticket, peer)

    def do_if_idle(self, peer: str, action: Callable[[], bool]) -> None:
        """Does `action` when a connection has no call; call this again where it has some.

        So that there is such a moment, calls that begin meanwhile wait for their message until `action` says that it
        has been done, or until `resume`.
        """
        with self._lock:
            paused = self._paused.setdefault(peer, [])
            if self._calls[peer] > len(paused) or not action():
                return
            del self._paused[peer]
        for ticket in paused:
            self.read(ticket)

    def resume(self) -> None:
        """Has all calls that have waited for an action receive their messages."""
        with self._lock:
            waiting, self._paused = list(self._paused.values()), {}
        for ticket in chain.from_iterable(waiting):
            self.read(ticket)

    def read(self, ticket: Ticket) -> None:
        """Lets the call receive a message: now, or when there is room."""

        def begin() -> Callable[[], None]:
            ticket.reading = self._read_cost
            return ticket.start

        with self._lock:
            if ticket.left:
                return
            paused = self._paused.get(ticket.peer)
            if paused is not None and not ticket.begun:
                paused.append(ticket)
                return
            ticket.begun = True
            granted = self._claim(self._receiving, ticket, self._read_cost, begin)
        _run(granted)

    def covers(self, size: int) -> bool:
        """Whether the room of a message that is received is enough for so many bytes."""
        return size <= self._read_cost

    def work(self, ticket: Ticket, size: int, start: Callable[[], None]) -> None:
        """Calls `start` when there is room for `size` bytes that come of the message which has been received."""

        def begin() -> Callable[[], None]:
            receiving, used = ticket.receiving, ticket.used
            ticket.reading, ticket.kept, ticket.claimed = 0, ticket.kept + size, True
            self._receiving.change(ticket.peer, -receiving)
            self._working.change(ticket.peer, ticket.used - used - size)  # `size` has been given already
            return start

        with self._lock:
            granted = [] if ticket.left else self._claim(self._working, ticket, size, begin)
        _run(granted)

    def arrive(self, ticket: Ticket, size: int) -> None:
        """Notes how large the message is that has been received: the rest of the room for it is free."""
        with self._lock:
            granted = self._account(ticket, size, ticket.kept, ticket.held, size)
        _run(granted)

    def receive(self, ticket: Ticket, size: int, moved: int | None = None) -> None:
        """Notes that a message has been received, and that the call keeps `size` bytes of messages from now on.

        Args:
            ticket: the call.
            size: what it keeps.
            moved: how many bytes of progress that is; None: as much as there can be.
        """
        with self._lock:
            granted = self._account(ticket, 0, size, ticket.held, moved)
        _run(granted)

    def keep(self, ticket: Ticket, size: int) -> None:
        """Sets what the call keeps of messages, whether it receives another or not."""
        with self._lock:
            granted = self._account(ticket, ticket.reading, size, ticket.held, ticket.kept - size)
        _run(granted)

    def hold(self, ticket: Ticket, size: int) -> None:
        """Has the call hold `size` bytes besides its messages; 0 gives them back.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            more, alone = size - ticket.held, self._working.used == ticket.held
            fits = alone or self._working.fits(self._working.find_account(ticket.peer), more)
            if more > 0 and not fits and not ticket.left:
                message = f"the call takes {size} bytes of memory, which this server does not have now"
                raise _refuse_busy(message)
            granted = self._account(ticket, ticket.reading, ticket.kept, size, 0)
        _run(granted)

    def leave(self, ticket: Ticket) -> None:
        """Gives back all that a call has, also when it has left already."""
        with self._lock:
            if ticket in self._tickets:
                self._tickets.discard(ticket)
                self._forget_call_of(ticket.peer)
            self._withdraw(ticket)
            if ticket in self._paused.get(ticket.peer, ()):
                self._paused[ticket.peer].remove(ticket)
            granted = self._account(ticket, 0, 0, 0, 0)
            ticket.left = True
        ticket.forget_call()
        _run(granted)

    def limit_threads(self, count: int, are_short: Callable[[], bool]) -> None:
        """Notes that a call which waits for its message holds one of `count` threads, and how to ask for a lack."""
        self._threads, self._are_threads_short = count, are_short

    def sweep(self) -> None:
        """Gives up calls that make no progress."""
        with self._lock:
            now = time.monotonic()
            find_limit = self._choose_limits()
            stalled = dict.fromkeys(self._choose_victims(now - SHORT_SECONDS), SHORT_SECONDS)
            stalled |= {
                ticket: limit
                for ticket in self._tickets
                if not ticket.working and ticket.since < now - (limit := find_limit(ticket))
            }
            late = {ticket for ticket in stalled if ticket.waiting or ticket.claim}
            for ticket in stalled:
                ticket.evicted, ticket.since = True, now  # it has as long to take its refusal
                self._withdraw(ticket)
        for ticket, seconds in stalled.items():
            ticket.evict(_refuse_waiting(seconds) if ticket in late else _refuse_stalled(seconds))

    def _choose_limits(self) -> Callable[[Ticket], float]:
        """Returns how long each call may make no progress.

        Who waits for a connection's own share presses that connection alone: a stranger must not have others given up.
        """
        general = self._pressure_seconds if self._is_pressed() else self._stall_seconds
        limits = {ticket.peer: self._pressure_seconds for ticket in self._tickets if ticket.claim}
        if self._are_threads_short():
            fair = max(1, self._threads // max(1, len(self._calls)))
            limits.update((peer, SHORT_SECONDS) for peer, count in self._calls.items() if peer and count > fair)
        return lambda ticket: min(general, limits.get(ticket.peer, general))

    def _choose_victims(self, before: float) -> list[Ticket]:
        """Returns the calls that make room for connections which wait and have nothing: the most crowded ones pay.

        A connection keeps its last call: it is no worse than those that wait. A call is no victim in its first moments,
        within which a small message has arrived.
        """
        wanted = self._receiving.newcomers
        if not wanted:
            return []
        reading = sorted((ticket for ticket in self._tickets if ticket.is_silent), key=attrgetter("since"))
        counts, victims = Counter(ticket.peer for ticket in reading), list[Ticket]()
        for peer, count in counts.most_common():
            silent = [ticket for ticket in reading if ticket.peer == peer and ticket.since < before]
            victims += silent[: count - 1]
            if len(victims) >= wanted:
                break
        return victims[:wanted]

    def _is_pressed(self) -> bool:
        short = self._receiving.is_short or self._working.is_short or self._are_threads_short()
        return short or len(self._tickets) >= self._crowd

    def _identify(self, ticket: Ticket, peer: str) -> None:
        if len(self._tickets) >= self._crowd and self._calls[peer] >= CROWDED_CALLS:
            message = f"{len(self._tickets)} calls are under way; a connection may have {CROWDED_CALLS} of them now"
            raise _refuse_busy(message)
        self._calls[peer] += 1
        ticket.peer = peer

    def _forget_call_of(self, peer: str) -> None:
        self._calls[peer] -= 1
        if self._calls[peer] <= 0:
            del self._calls[peer]

    def _claim(
        self, pool: Pool, ticket: Ticket, size: int, begin: Callable[[], Callable[[], None]]
    ) -> list[Callable[[], None]]:
        """Has a call take room, or wait for it; returns what is to be done without the lock."""
        if pool.take(ticket.peer, size):
            return [begin(), *self._grant()]  # to begin to work gives room to receive back
        self._wait(pool, ticket, size, begin)
        return []

    def _wait(self, pool: Pool, ticket: Ticket, size: int, begin: Callable[[], Callable[[], None]]) -> None:
        """Has a call wait for room. That is no progress, but no fault of its own either."""
        now = time.monotonic()
        stalled_seconds, ticket.since = now - ticket.since, now

        def grant() -> Callable[[], None]:
            ticket.claim, ticket.since = None, time.monotonic() - stalled_seconds
            return begin()

        ticket.claim = pool.claim(ticket.peer, size, grant)

    def _account(
        self, ticket: Ticket, reading: int, kept: int, held: int, moved: int | None
    ) -> list[Callable[[], None]]:
        """Sets what a call has, and returns what is to be done of that for which there is room now."""
        if ticket.left:
            return []
        receiving, used = ticket.receiving, ticket.used
        ticket.reading, ticket.kept, ticket.held = reading, kept, held
        ticket.claimed = ticket.claimed and kept > 0
        self._receiving.change(ticket.peer, ticket.receiving - receiving)
        self._working.change(ticket.peer, ticket.used - used)
        ticket.advance(moved)
        return self._grant()

    def _grant(self) -> list[Callable[[], None]]:
        granted = self._working.grant()  # which gives room back in the receiving pool
        return granted + self._receiving.grant()

    def _withdraw(self, ticket: Ticket) -> None:
        ticket.waiting = False
        if ticket.claim is not None:
            ticket.claim.withdraw()
            ticket.claim = None


def _run(granted: Iterable[Callable[[], None]]) -> None:
    for start in granted:
        try:
            start()
        except Exception:
            _LOGGER.exception("bug")  # of one call, which stalls; the others are not to blame


def _refuse_busy(message: str) -> LimitError:
    return LimitError.of(Reason.SERVER_BUSY, message)


def _refuse_waiting(seconds: float) -> LimitError:
    return _refuse_busy(f"the call has waited for {seconds} seconds, and this server still has no room for it")


def _refuse_stalled(seconds: float) -> LimitError:
    message = f"the call has made no progress for {seconds} seconds"
    return LimitError.of(Reason.STALLED, message, seconds=seconds)
