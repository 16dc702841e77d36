"""Observers, which receive the events of calls for metrics, access logs and traces.

- When a call begins, each observer chooses whether to observe this call, before the server creates other objects for
  the call. A call that no observer chooses has no record.
- An observer receives the events of every admitted or rejected call that it has chosen, in the order of the events.
- The order of the events is the same for every transport, except in two cases. The transports differ in the time at
  which they report that a response was sent. If a client disconnects while the server waits for a message, some
  transports report the events HALF_CLOSE and END before the event OVER.
- If the receiving thread processes a small message itself, it reports the event ARRIVE only when the response is ready.
- Observers get no events of health and reflection calls, because the engines for these calls have no journal. They get
  no events of calls that were refused before they began (see `Engine.count_refusal`).
- Only one thread at a time calls `observe`. No thread holds the engine's lock while it calls an observer. An observer
  must not block, because it may run on the thread that receives calls.
- If an observer raises an exception, the exception is logged and affects neither the call nor other observers.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.results import GONE, CallLog, CallResult
from tensor_reshape.server.engine.lifecycle import Event, Lifecycle, State

_LOGGER = logging.getLogger(__name__)


@dataclass(slots=True)
class CallRecord:
    """The facts about one call at the time when an event is reported.

    Attributes:
        info: the facts that are known before the message arrives.
        method: the full path of the method, which is always a method of this server and therefore safe as a label.
        peer: gRPC's name of the connection, or an empty text until the connection is known.
        began: the time at which the call was entered, as returned by `time.monotonic`.
        state: the state after the event.
        since: the time at which this state began, as returned by `time.monotonic`.
        seconds: the time that the call has spent in each earlier state, by the name of the state in lower case.
        request_messages: the number of received messages.
        request_bytes: the total size of the received messages in bytes.
        response_messages: the number of response messages.
        response_bytes: the total size of the response messages in bytes.
        result: the result of the call, or None until the result is decided.
    """

    info: CallInfo
    method: str
    peer: str
    began: float
    state: State
    since: float
    seconds: dict[str, float] = field(default_factory=dict)
    request_messages: int = 0
    request_bytes: int = 0
    response_messages: int = 0
    response_bytes: int = 0
    result: CallResult | None = None


class Observer(ABC):
    """Receives the events of calls. The docstring of this module lists the rules for observers."""

    def chooses(self, metadata: Metadata) -> bool:
        """Whether to observe a call that begins. The default is True."""
        del metadata
        return True

    def begin(self, info: CallInfo) -> None:  # noqa: B027 - most observers need only the events
        """Handles the beginning of a chosen call, before the gates check the call."""

    @abstractmethod
    def observe(self, record: CallRecord, event: Event) -> None:
        """Handles an event of a call.

        All events of a call share one `CallRecord`, which later events change. Read a `CallRecord` only inside this
        method.
        """


class EndObserver(Observer):
    """Passes each call to a call log when the call is over."""

    def __init__(self, log: CallLog) -> None:
        """Passes calls to `log`, which also chooses the calls."""
        self.chooses = log.chooses  # type: ignore[method-assign]
        self.begin = log.begin  # type: ignore[method-assign]
        self._write = log.write

    def observe(self, record: CallRecord, event: Event) -> None:
        """See `Observer`."""
        del event
        if record.state is State.DONE:
            self._write(record)


class _Move(NamedTuple):
    """A recorded event, and values of the call that may change before the event is reported."""

    life: Lifecycle
    event: Event
    peer: str
    after: State
    size: int
    result: CallResult | None
    at: float


def begin_observation(info: CallInfo) -> None:
    """Tells the observers that have chosen a call about its beginning."""
    for observer in info.observers:
        try:
            observer.begin(info)
        except Exception:
            _LOGGER.exception("bug")


def _chooses(observer: Observer, metadata: Metadata) -> bool:
    try:
        return observer.chooses(metadata)
    except Exception:
        _LOGGER.exception("bug")
        return False


class ObserverJournal:
    """A `lifecycle.Journal` that records events under the engine's lock and later reports them to observers.

    An event of a call is reported to `CallInfo.observers` of this call, in the order of this sequence.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Lets `observers` choose the calls that they observe."""
        self._observers = tuple(observers)
        self._moves: deque[_Move] = deque()  # events of all calls, in their order, that observers have not received yet
        # The thread that reports events holds this lock, and other threads never wait for it.
        self._reporting = threading.Lock()
        # The records of running calls, which only the reporting thread uses.
        self._records: dict[Lifecycle, CallRecord] = {}

    def choose(self, metadata: Metadata) -> tuple[Observer, ...]:
        """Returns the observers that choose a new call."""
        return tuple([one for one in self._observers if _chooses(one, metadata)])

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        """Records an event.

        Skips events that arrive after the end of the call is decided, because they do not change the call.
        """
        if before is State.DONE or (life.state is before and event not in _STAYING):
            return
        self._moves.append(_Move(life, event, life.source.connection, life.state, size, result, time.monotonic()))

    def deliver(self) -> None:
        """Reports the recorded events. If another thread is reporting, that thread also reports the new events."""
        # After this loop has released the lock, it checks again whether another thread has recorded an event. If
        # another thread recorded an event while this loop held the lock, that thread did not report the event.
        while self._moves and self._reporting.acquire(blocking=False):
            try:
                while self._moves:
                    self._report(self._moves.popleft())
            finally:
                self._reporting.release()

    def _report(self, move: _Move) -> None:
        record = self._update(move)
        for observer in record.info.observers:
            try:
                observer.observe(record, move.event)
            except Exception:
                # the exception is only logged, because a bug of an observer must not affect the call
                _LOGGER.exception("bug")

    def _update(self, move: _Move) -> CallRecord:
        record = self._records.get(move.life)
        if record is None:
            method = move.life.method
            # Observed calls always have a `CallInfo` (see `Engine.prepare`).
            info = move.life.info or CallInfo(method, ())
            record = CallRecord(info, method, move.peer, move.at, move.after, move.at)
            self._records[move.life] = record
        record.peer = move.peer
        state = record.state.name.lower()
        record.seconds[state] = record.seconds.get(state, 0.0) + move.at - record.since
        record.state, record.since = move.after, move.at
        _count(record, move)
        if move.after is State.DONE:
            del self._records[move.life]
        return record


_STAYING = frozenset({Event.ENTER, Event.GRANT, Event.SENT})
"""The events that are reported although they do not change the state of the call."""


def _count(record: CallRecord, move: _Move) -> None:
    if move.event is Event.ARRIVE:
        record.request_messages += 1
        record.request_bytes += move.size
    # For a unary call, the event END contains the size of the response. If the client has disconnected, END leads to
    # the state DONE, and no response is sent.
    elif move.event is Event.SENT or (move.event is Event.END and move.size and move.after is State.ENDING):
        record.response_messages += 1
        record.response_bytes += move.size
    if move.event is Event.OVER:
        record.result = move.result or record.result or GONE
    elif record.result is None:
        record.result = move.result
