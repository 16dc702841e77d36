"""Who may take memory, and when: one budget for all calls of a process.

How large a message is, nobody knows before it has been received. So whoever begins to receive one must have room for
the largest, and gives back what it did not need as soon as it knows. Reads that find no room wait, by turns of their
connections (all clients of one unix socket count as one), so that one which asks for much does not starve the others.
A call that makes no progress is given up: after `stall_seconds`, and while others wait, as soon as the largest message
has had time to arrive at a moderate pace. What waits longer than that is refused.
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


class Ticket:
    """One call's part of the budget. Whoever has one calls `Admission.leave` in the end.

    Attributes:
        start: begins to receive a message.
        evict: ends the call with a refusal, whatever it is doing.
        peer: names the connection.
        reading: the bytes that are set aside for the message that it receives.
        kept: the bytes of messages that it has.
        held: the bytes that it has besides.
        since: when it last made progress.
        waiting: whether it waits for room to receive, or for a thread.
        left: whether it is over, so that nothing is accounted to it any more.
    """

    __slots__ = ("evict", "held", "kept", "left", "peer", "reading", "since", "start", "waiting")

    def __init__(self, start: Callable[[], None], evict: Callable[[LimitError], None], peer: Callable[[], str]) -> None:
        """Takes the call's callbacks; `start` and `evict` are called without any lock held."""
        self.start = start
        self.evict = evict
        self.peer = peer
        self.reading = self.kept = self.held = 0
        self.since = time.monotonic()
        self.waiting = self.left = False

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
        self._entered = 0
        self._tickets: set[Ticket] = set()
        self._waiting: OrderedDict[str, deque[Ticket]] = OrderedDict()

    @property
    def entered_calls(self) -> int:
        """How many calls there have been so far."""
        return self._entered

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return not self._tickets

    @property
    def used_bytes(self) -> int:
        """What calls have set aside now."""
        return self._used

    def enter(self, ticket: Ticket) -> None:
        """Admits a call.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            if len(self._tickets) >= self._max_calls:
                message = f"{self._max_calls} calls are under way, as many as this server takes"
                raise _refuse_busy(message)
            self._tickets.add(ticket)
            self._entered += 1

    def read(self, ticket: Ticket) -> None:
        """Lets the call receive a message: now, or when there is room."""
        with self._lock:
            granted = not ticket.left and not self._waiting and self._take(ticket)
            if not granted and not ticket.left:
                ticket.waiting, ticket.since = True, time.monotonic()
                self._waiting.setdefault(ticket.peer(), deque()).append(ticket)
        if granted:
            ticket.start()

    def receive(self, ticket: Ticket, size: int) -> None:
        """Notes that a message has been received, and that the call keeps `size` bytes of messages from now on."""
        with self._lock:
            granted = self._account(ticket, 0, size, ticket.held)
        _start(granted)

    def keep(self, ticket: Ticket, size: int) -> None:
        """Sets what the call keeps of messages, whether it receives another or not."""
        with self._lock:
            granted = self._account(ticket, ticket.reading, size, ticket.held)
        _start(granted)

    def hold(self, ticket: Ticket, size: int) -> None:
        """Has the call hold `size` bytes besides its messages; 0 gives them back.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            if size > ticket.held and self._used + size - ticket.held > self._budget:
                message = f"the call takes {size} bytes of memory, which this server does not have now"
                raise _refuse_busy(message)
            granted = self._account(ticket, ticket.reading, ticket.kept, size)
        _start(granted)

    def leave(self, ticket: Ticket) -> None:
        """Gives back all that a call has, also when it has left already."""
        with self._lock:
            self._tickets.discard(ticket)
            if ticket.waiting:
                self._drop(ticket)
            granted = self._account(ticket, 0, 0, 0)
            ticket.left = True
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

    def _account(self, ticket: Ticket, reading: int, kept: int, held: int) -> list[Ticket]:
        """Sets what a call has, and returns those that may read now."""
        if ticket.left:
            return []
        self._used += reading + kept + held - ticket.reading - ticket.kept - ticket.held
        ticket.reading, ticket.kept, ticket.held, ticket.since = reading, kept, held, time.monotonic()
        return self._grant() if self._waiting else []

    def _take(self, ticket: Ticket) -> bool:
        """Sets aside what the largest message takes, where there is room."""
        if self._used + self._read_cost > self._budget:
            return False
        self._used += self._read_cost
        ticket.reading, ticket.since = self._read_cost, time.monotonic()
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
    return _refuse_busy(f"the call has waited for {seconds} seconds, and this server still has no room for it")


def _refuse_stalled(seconds: float) -> LimitError:
    message = f"the call has made no progress for {seconds} seconds"
    return LimitError.of(Reason.STALLED, message, seconds=seconds)
