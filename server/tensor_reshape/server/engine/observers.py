"""What watches calls from outside: metrics, access logs, traces. The one place where such a thing is attached.

- An observer sees every move of every call that is admitted or refused, in the order of the moves: the same events in
  the same order however the call is served. Two things are as the transport has them: when an answer counts as sent,
  and whether a caller that goes while its message is awaited is seen to end its side, HALF_CLOSE and END, before OVER.
- A small message that is answered on the thread which received it is seen to arrive when it is answered.
- Calls of health, reflection and channelz are not seen: their engines have no journal.
- It is called without the lock of the engine, by one thread at a time, but by any: also by the thread that receives
  calls, so it must not block.
- One that raises is logged, and harms neither the call nor the other observers.
- Without observers there is no journal, and a move costs no more than the question whether there is one.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.lifecycle import GONE, Ending, Event, Journal, Lifecycle, State

_LOGGER = logging.getLogger(__name__)


@dataclass(slots=True)
class CallRecord:
    """What is known of one call, as of the event that is being observed.

    Attributes:
        head: what is known of it since its beginning.
        method: in full, as a path. It is always one of this service's: a stranger cannot make up labels.
        peer: the name of the connection, as gRPC gives it; empty while it is not known.
        began: by `time.monotonic`, when it was entered.
        state: what it is doing from now on.
        since: by `time.monotonic`, when that began.
        seconds: how long it has been in each state that it has left.
        request_messages: that have arrived.
        request_bytes: of these.
        response_messages: that were made.
        response_bytes: of these.
        ending: how it ends; None while that is not decided.
    """

    head: CallHead
    method: str
    peer: str
    began: float
    state: State
    since: float
    seconds: dict[State, float] = field(default_factory=dict)
    request_messages: int = 0
    request_bytes: int = 0
    response_messages: int = 0
    response_bytes: int = 0
    ending: Ending | None = None


class Observer(Protocol):
    """Watches calls; see the laws of this module."""

    def observe(self, record: CallRecord, event: Event) -> None:
        """Sees an event. The record is the same object for all events of a call, and is read here alone."""


class _Move(NamedTuple):
    """A move as it was noted: what may have changed when it is told is kept."""

    life: Lifecycle
    event: Event
    peer: str
    after: State
    size: int
    ending: Ending | None
    at: float


class ObserverJournal:
    """Notes moves while they are made, and tells them afterwards: a `lifecycle.Journal`."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Tells `observers`, in this order."""
        self._observers = tuple(observers)
        self._moves: deque[_Move] = deque()  # noted, and not told yet; of all calls, so that there is one order
        self._telling = threading.Lock()  # held by the thread that tells; never waited for
        self._records: dict[Lifecycle, CallRecord] = {}  # of the calls that have begun; touched while telling alone

    def note(self, life: Lifecycle, event: Event, before: State, size: int, ending: Ending | None) -> None:
        """Notes a move, unless nothing has happened: an event may come late, when the end of its call is decided."""
        if before is State.DONE or (life.state is before and event not in _STAYING):
            return
        self._moves.append(_Move(life, event, life.source.connection, life.state, size, ending, time.monotonic()))

    def deliver(self) -> None:
        """Tells what has been noted, unless another thread does: then that one goes on."""
        # Asked again after the lock is given back: a move may have been noted just before, by one that did not get it.
        while self._moves and self._telling.acquire(blocking=False):
            try:
                while self._moves:
                    self._tell(self._moves.popleft())
            finally:
                self._telling.release()

    def _tell(self, move: _Move) -> None:
        record = self._update(move)
        for observer in self._observers:
            try:
                observer.observe(record, move.event)
            except Exception:
                _LOGGER.exception("bug")  # of the observer: the call is not to blame

    def _update(self, move: _Move) -> CallRecord:
        record = self._records.get(move.life)
        if record is None:
            method = move.life.method
            head = move.life.head or CallHead(method, ())  # which is there, since the journal is
            record = CallRecord(head, method, move.peer, move.at, move.after, move.at)
            self._records[move.life] = record
        record.peer = move.peer
        record.seconds[record.state] = record.seconds.get(record.state, 0.0) + move.at - record.since
        record.state, record.since = move.after, move.at
        _count(record, move)
        if move.after is State.DONE:
            del self._records[move.life]
        return record


class JournalPair:
    """Notes moves in two journals."""

    def __init__(self, first: Journal, second: Journal) -> None:
        """Notes in this order."""
        self._first, self._second = first, second

    def note(self, life: Lifecycle, event: Event, before: State, size: int, ending: Ending | None) -> None:
        """Notes a move; see `Journal`."""
        self._first.note(life, event, before, size, ending)
        self._second.note(life, event, before, size, ending)


_STAYING = frozenset({Event.ENTER, Event.ROOM, Event.SENT})
"""Events that happen although they lead to no other state."""


def _count(record: CallRecord, move: _Move) -> None:
    if move.event is Event.ARRIVE:
        record.request_messages += 1
        record.request_bytes += move.size
    # The answer of a unary call ends it; of one that is ABANDONED, nobody waits for it.
    elif move.event is Event.SENT or (move.event is Event.END and move.size and move.after is State.ENDING):
        record.response_messages += 1
        record.response_bytes += move.size
    if move.event is Event.OVER:
        record.ending = move.ending or record.ending or GONE
    elif record.ending is None:
        record.ending = move.ending
