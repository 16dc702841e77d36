"""Observers of calls, for metrics, access logs and traces.

- An observer sees every move of every admitted or rejected call, in the order of the moves. The order does not depend
  on the transport, with two exceptions: when a response counts as sent, and whether a client that disconnects while its
  message is awaited causes HALF_CLOSE and END before OVER.
- If the receiving thread processes a small message itself, ARRIVE is reported when the response is ready.
- Health and reflection calls are not observed: their engines have no journal.
- An observer is called without the engine's lock, by one thread at a time. This can be the thread that receives calls,
  so an observer must not block.
- If an observer raises an exception, it is logged. The call and the other observers are not affected.
- Without observers there is no journal, and a move costs only the check for one.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tensor_reshape.server.engine.call_info import CallInfo
from tensor_reshape.server.engine.lifecycle import GONE, CallResult, Event, Lifecycle, State

_LOGGER = logging.getLogger(__name__)


@dataclass(slots=True)
class CallRecord:
    """The facts about one call at the time of the observed event.

    Attributes:
        info: the facts about the call.
        method: the full method path. It is always a method of this server, so it is safe as a label.
        peer: gRPC's name of the connection; empty if not yet known.
        began: when the call was entered, by `time.monotonic`.
        state: the state after the event.
        since: when that state began, by `time.monotonic`.
        seconds: seconds in each earlier state.
        request_messages: number of received messages.
        request_bytes: their bytes.
        response_messages: number of response messages.
        response_bytes: their bytes.
        result: the result of the call; None before it is decided.
    """

    info: CallInfo
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
    result: CallResult | None = None


class Observer(Protocol):
    """Receives the events of calls; see the invariants of this module."""

    def observe(self, record: CallRecord, event: Event) -> None:
        """Handles an event. All events of a call share one record object: read it during this call only."""


class _Move(NamedTuple):
    """A recorded move, with the values that may change before it is reported."""

    life: Lifecycle
    event: Event
    peer: str
    after: State
    size: int
    result: CallResult | None
    at: float


class ObserverJournal:
    """A `lifecycle.Journal` that records moves under the engine's lock and reports them to observers afterwards."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Reports to `observers` in this order."""
        self._observers = tuple(observers)
        self._moves: deque[_Move] = deque()  # recorded and not yet reported; one queue for all calls keeps their order
        self._reporting = threading.Lock()  # held by the thread that reports; no thread waits for it
        self._records: dict[Lifecycle, CallRecord] = {}  # of running calls; used only by the thread that reports

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        """Records a move. Late events, which do not change the state of a call that has ended, are skipped."""
        if before is State.DONE or (life.state is before and event not in _STAYING):
            return
        self._moves.append(_Move(life, event, life.source.connection, life.state, size, result, time.monotonic()))

    def deliver(self) -> None:
        """Reports the recorded moves. If another thread is reporting, that thread also reports the new moves."""
        # The loop checks again after the lock is released: another thread may have recorded a move just before.
        while self._moves and self._reporting.acquire(blocking=False):
            try:
                while self._moves:
                    self._report(self._moves.popleft())
            finally:
                self._reporting.release()

    def _report(self, move: _Move) -> None:
        record = self._update(move)
        for observer in self._observers:
            try:
                observer.observe(record, move.event)
            except Exception:
                _LOGGER.exception("bug")  # an observer's bug must not affect the call

    def _update(self, move: _Move) -> CallRecord:
        record = self._records.get(move.life)
        if record is None:
            method = move.life.method
            info = move.life.info or CallInfo(method, ())  # never None in practice: see `Engine.needs_info`
            record = CallRecord(info, method, move.peer, move.at, move.after, move.at)
            self._records[move.life] = record
        record.peer = move.peer
        record.seconds[record.state] = record.seconds.get(record.state, 0.0) + move.at - record.since
        record.state, record.since = move.after, move.at
        _count(record, move)
        if move.after is State.DONE:
            del self._records[move.life]
        return record


_STAYING = frozenset({Event.ENTER, Event.GRANT, Event.SENT})
"""Events that are reported although they do not change the state."""


def _count(record: CallRecord, move: _Move) -> None:
    if move.event is Event.ARRIVE:
        record.request_messages += 1
        record.request_bytes += move.size
    # The response of a unary call comes with END. If the call is ABANDONED, no response is sent.
    elif move.event is Event.SENT or (move.event is Event.END and move.size and move.after is State.ENDING):
        record.response_messages += 1
        record.response_bytes += move.size
    if move.event is Event.OVER:
        record.result = move.result or record.result or GONE
    elif record.result is None:
        record.result = move.result
