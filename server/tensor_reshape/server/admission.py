"""Who may take memory, and when: one budget for all calls of a process.

How large a message is, nobody knows before it has been received. So whoever begins to receive one must have room for
the largest, and gives back what it did not need as soon as it knows. Reads that find no room wait, by turns of their
connections, so that one which asks for much does not starve the others. A call that makes no progress is given up:
after `stall_seconds`, and while others wait, as soon as the largest message has had time to arrive at a moderate pace.
What waits longer than that is refused.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

from tensor_reshape.core.errors import LimitError, Reason
from tensor_reshape.server.config import COST_FACTOR, Config

MIN_PRESSURE_SECONDS = 2.0
"""The least that a call may make no progress, or wait, while others wait."""

MIN_BYTES_PER_SECOND = 8 * 1024 * 1024
"""The pace at which the largest message must arrive while others wait."""

SWEEP_SECONDS = 0.25
"""How often calls without progress are looked for."""


class Ticket:
    """One call's part of the budget. Whoever has one calls `Admission.leave` in the end.

    Attributes:
        start: begins to receive a message.
        evict: ends the call with a refusal, whatever it is doing.
        peer: names the connection.
        cost: the bytes that are accounted to it.
        held: how many of them are for more than one message.
        since: when it last made progress.
        waiting: whether it waits for room to receive, or for a thread.
    """

    __slots__ = ("cost", "evict", "held", "peer", "since", "start", "waiting")

    def __init__(self, start: Callable[[], None], evict: Callable[[LimitError], None], peer: Callable[[], str]) -> None:
        """Takes the call's callbacks, which are called without any lock held."""
        self.start = start
        self.evict = evict
        self.peer = peer
        self.cost = 0
        self.held = 0
        self.since = time.monotonic()
        self.waiting = False

    def forget_call(self) -> None:
        """Lets go of the call: one that waits for the garbage collector keeps its stream, of which there are few."""
        self.start, self.evict, self.peer = _do_nothing, _do_nothing, str


class Admission:
    """The budget of one process; safe to use from any thread."""

    def __init__(self, config: Config) -> None:
        """Starts with the whole budget."""
        self._budget = config.memory_budget_bytes
        self._read_cost = COST_FACTOR * config.max_message_bytes
        self._max_calls = config.max_calls
        self._stall_seconds = config.stall_seconds
        pace_seconds = config.max_message_bytes / MIN_BYTES_PER_SECOND
        self._pressure_seconds = min(config.stall_seconds, max(MIN_PRESSURE_SECONDS, pace_seconds))
        self._lock = threading.Lock()
        self._used = 0
        self._tickets: set[Ticket] = set()
        self._waiting: OrderedDict[str, deque[Ticket]] = OrderedDict()

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return not self._tickets

    def enter(self, ticket: Ticket) -> None:
        """Admits a call.

        Raises:
            LimitError: SERVER_BUSY.
        """
        if len(self._tickets) >= self._max_calls:
            message = f"{self._max_calls} calls are under way, as many as this server takes"
            raise _refuse_busy(message)
        self._tickets.add(ticket)

    def read(self, ticket: Ticket) -> None:
        """Lets the call receive a message: now, or when there is room."""
        with self._lock:
            granted = not self._waiting and self._take(ticket)
            if not granted:
                ticket.waiting, ticket.since = True, time.monotonic()
                self._waiting.setdefault(ticket.peer(), deque()).append(ticket)
        if granted:
            ticket.start()

    def keep(self, ticket: Ticket, cost: int) -> None:
        """Sets what the call keeps of the message that it has received: never more than it had for the largest."""
        with self._lock:
            self._used += ticket.held + cost - ticket.cost
            ticket.cost, ticket.since = ticket.held + cost, time.monotonic()
            granted = self._grant() if self._waiting else ()
        _start(granted)

    def hold(self, ticket: Ticket, size: int) -> None:
        """Has the call hold `size` bytes besides its messages; 0 gives them back.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            more = size - ticket.held
            if self._used + more > self._budget:
                message = f"the call takes {size} bytes of memory, which this server does not have now"
                raise _refuse_busy(message)
            self._used += more
            ticket.cost += more
            ticket.held = size

    def leave(self, ticket: Ticket) -> None:
        """Gives back all that a call has, also when it has left already."""
        with self._lock:
            self._tickets.discard(ticket)
            self._used -= ticket.cost
            ticket.cost = ticket.held = 0
            if ticket.waiting:
                self._drop(ticket)
            granted = self._grant() if self._waiting else ()
        ticket.forget_call()
        _start(granted)

    def sweep(self) -> None:
        """Gives up calls that make no progress."""
        with self._lock:
            tickets = tuple(self._tickets)
            pressed = any(ticket.waiting for ticket in tickets)
            seconds = self._pressure_seconds if pressed else self._stall_seconds
            before = time.monotonic() - seconds
            stalled = [ticket for ticket in tickets if ticket.since < before]
            late = [ticket for ticket in stalled if ticket.waiting]
            for ticket in late:
                self._drop(ticket)
        for ticket in stalled:
            ticket.evict(_refuse_waiting(seconds) if ticket in late else _refuse_stalled(seconds))

    def _take(self, ticket: Ticket) -> bool:
        """Gives the ticket what the largest message takes, where there is room."""
        more = ticket.held + self._read_cost - ticket.cost
        if self._used + more > self._budget:
            return False
        self._used += more
        ticket.cost += more
        ticket.since = time.monotonic()
        return True

    def _grant(self) -> list[Ticket]:
        """Takes from the queue what there is room for: one of each connection in turn."""
        granted = []
        while self._waiting:
            peer, queue = next(iter(self._waiting.items()))
            if not self._take(queue[0]):
                break
            granted.append(queue.popleft())
            granted[-1].waiting = False
            self._waiting.move_to_end(peer)
            if not queue:
                del self._waiting[peer]
        return granted

    def _drop(self, ticket: Ticket) -> None:
        ticket.waiting = False
        for peer, queue in self._waiting.items():
            if ticket in queue:
                queue.remove(ticket)
                if not queue:
                    del self._waiting[peer]
                return


def _do_nothing(*_: object) -> None:
    pass


def _start(tickets: Iterable[Ticket]) -> None:
    for ticket in tickets:
        ticket.start()


def _refuse_busy(message: str) -> LimitError:
    return LimitError.of(Reason.SERVER_BUSY, message)


def _refuse_waiting(seconds: float) -> LimitError:
    return _refuse_busy(f"the call has waited for {seconds} seconds, and this server still has no memory for it")


def _refuse_stalled(seconds: float) -> LimitError:
    message = f"the call has made no progress for {seconds} seconds"
    return LimitError.of(Reason.STALLED, message, seconds=seconds)
