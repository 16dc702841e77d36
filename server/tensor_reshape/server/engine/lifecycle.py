"""The state machine of one call: states, events, and the memory that the call holds in each state.

A unary call goes from WORKING to ENDING. A stream repeats the cycle for each message::

    NEW -> WAITING -> RECEIVING -> WORKING -> SENDING -> WAITING ...
                                    | | |
                                    | | +-> QUEUED -> WORKING    slow work waits for a thread
                                    | +---> ENDING -> DONE       the end is decided
                                    +-----> ABANDONED -> DONE    the client is gone, but a thread still works

- This module uses no locks, clocks, threads or gRPC. Only the engine changes the state of calls. The engine holds its
  lock while it changes a state, so only one thread at a time changes states.
- `TRANSITIONS` is complete. An event that is not listed for a state is a bug and raises `IllegalEventError`.
- A call ends once. If an event arrives after the end of a call was decided, the event does not change the call. Late
  events are not bugs, because threads, the transport and the client do not wait for each other.
- Handlers (`CallHandler`) perform the actions that the engine returns, and keep only their transport's state.
- If the engine has a `Journal`, the journal records every event and state change, in the order of the events.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol, TypeAlias

from tensor_reshape.rules.errors import LimitError, TensorReshapeError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.results import CallResult
from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.engine.fair_shares import Claim

TRICKLE_BYTES_PER_SECOND = 16 * 1024
"""The lowest rate at which a stream may receive and send. A slower stream is aborted even if no other call waits."""

READ_BELOW_UNSENT = 3
"""A stream with this number of unsent responses, or more, does not read its next message.

The number of unsent responses can exceed this limit, because one message may have many responses.
"""


class State(Enum):
    """The states of a call, and the memory that the call holds in each state.

    A call has a concurrency slot from ENTER to DONE, unless it was rejected. In addition, a stream holds three times
    the size of its unsent responses. If `Lifecycle.held` is not 0, the stream holds `Lifecycle.held` bytes instead.
    """

    NEW = auto()
    """The call has begun and has not requested memory. It holds no memory."""

    WAITING = auto()
    """The call waits for memory to receive its next message. It holds no memory for a message."""

    RECEIVING = auto()
    """A message is arriving or is processed at once. The call holds memory for the largest allowed message."""

    WORKING = auto()
    """A message is processed, or the client watches a status. The call holds the memory of RECEIVING or QUEUED."""

    QUEUED = auto()
    """The message needs long work, which first waits for memory and then for a worker thread.

    While the call waits for memory, it holds the bytes of its message. Then it holds the memory for the long work.
    """

    SENDING = auto()
    """A stream has responded to a message and does not read its next message yet. It holds no memory for a message."""

    ENDING = auto()
    """The response or error is being sent.

    A unary call that was WORKING holds three times the size of its message or its response, whichever is larger. If it
    ends with an error, or if it is a stream, it holds nothing for its message. A call that was not WORKING holds the
    same memory as before.
    """

    ABORTED = auto()
    """The call was aborted, and its error is sent.

    It keeps its memory, because a part of its message may have arrived.
    """

    ABANDONED = auto()
    """gRPC has finished the call, but a thread still works on it. The call holds as much memory as in WORKING."""

    DONE = auto()
    """The call is over. It holds no memory."""

    # Enum members are compared by identity, so the hash of `object` is correct. The hash of Enum is a slow function.
    __hash__ = object.__hash__


class Event(Enum):
    """The events of a call."""

    ENTER = auto()
    """The call requests a concurrency slot."""

    REQUEST = auto()
    """The call requests memory to read its next message."""

    READ = auto()
    """The call gets the memory and begins to read."""

    ARRIVE = auto()
    """A message has arrived. In a small unary call, the response is ready, too."""

    HALF_CLOSE = auto()
    """The client half-closed the call instead of sending a message."""

    QUEUE = auto()
    """The message needs long work and waits for memory."""

    GRANT = auto()
    """The call gets the memory for long work."""

    BEGIN_WORK = auto()
    """A worker thread begins to process the message."""

    RESPOND = auto()
    """The responses to a stream message are ready, and the stream continues."""

    SENT = auto()
    """The transport has taken a response of a stream."""

    END = auto()
    """The response or the error of the call is decided."""

    ABORT = auto()
    """The call has made no progress for too long or has waited too long, or the server stops."""

    OVER = auto()
    """gRPC has finished the call, because its status is sent or its client is gone."""

    __hash__ = object.__hash__  # as in `State`


_LATE_EVENTS = (
    Event.ARRIVE,
    Event.HALF_CLOSE,
    Event.QUEUE,
    Event.BEGIN_WORK,
    Event.RESPOND,
    Event.SENT,
    Event.END,
)
# These transitions are the same in all states in which a call has not ended and no thread works on it.
_RESTING = {Event.END: State.ENDING, Event.ABORT: State.ABORTED, Event.OVER: State.DONE}

TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.NEW: {Event.ENTER: State.NEW, Event.REQUEST: State.WAITING, **_RESTING},
    State.WAITING: {Event.READ: State.RECEIVING, Event.SENT: State.WAITING, **_RESTING},
    State.RECEIVING: {
        Event.ARRIVE: State.WORKING,
        Event.HALF_CLOSE: State.WORKING,
        Event.SENT: State.RECEIVING,
        **_RESTING,
    },
    # The state WORKING has no transition for the event ABORT, because a call makes progress while the server works on
    # it.
    State.WORKING: {
        Event.QUEUE: State.QUEUED,
        Event.RESPOND: State.SENDING,
        Event.SENT: State.WORKING,
        Event.END: State.ENDING,
        Event.OVER: State.ABANDONED,
    },
    # If a queued call ends before a worker thread begins to process it, the event BEGIN_WORK does not change the state.
    State.QUEUED: {
        Event.GRANT: State.QUEUED,
        Event.BEGIN_WORK: State.WORKING,
        Event.SENT: State.QUEUED,
        **_RESTING,
    },
    State.SENDING: {Event.REQUEST: State.WAITING, Event.SENT: State.SENDING, **_RESTING},
    State.ENDING: {
        **dict.fromkeys(_LATE_EVENTS, State.ENDING),
        Event.ABORT: State.ABORTED,
        Event.OVER: State.DONE,
    },
    # After the first event ABORT, the handler sends an error. If the client does not receive this error, a second event
    # ABORT cancels the call.
    State.ABORTED: {
        **dict.fromkeys((*_LATE_EVENTS, Event.ABORT), State.ABORTED),
        Event.OVER: State.DONE,
    },
    # With QUEUE, RESPOND or END, the thread that works on an ABANDONED call reports that this work has ended.
    State.ABANDONED: {
        Event.QUEUE: State.DONE,
        Event.RESPOND: State.DONE,
        Event.END: State.DONE,
        Event.SENT: State.ABANDONED,
        Event.OVER: State.ABANDONED,
    },
    State.DONE: dict.fromkeys((*_LATE_EVENTS, Event.OVER), State.DONE),
}
"""The next state for each state and event. An event that a state does not list is not allowed in this state."""

WAITS = frozenset({State.NEW, State.WAITING, State.QUEUED})
"""The states in which a call waits for this server.

If a call is aborted in one of these states, the reason is SERVER_BUSY, not STALLED.
"""

RESTS = frozenset({State.WAITING, State.RECEIVING, State.QUEUED, State.SENDING})
"""The states in which a running call is neither being processed nor ending."""

WORKED_ON = frozenset({State.WORKING, State.ABANDONED})
"""The states in which the server works on a call, so that it has no stall timeout."""

_CLOSED = frozenset({State.ABANDONED, State.DONE})


class IllegalEventError(TensorReshapeError):
    """An event arrived that the state of the call does not allow. This is a bug of the server."""


class CallHandler:
    """The base class of handlers, whose methods do nothing.

    Handlers override these methods. All methods except `do_work` are actions that the engine requests. A worker thread
    calls `do_work`. Any thread may perform an action, without holding the engine's lock.
    """

    def start_read(self) -> None:
        """Begins to receive a message. The engine has already reserved memory for the message."""

    def start_send(self) -> None:
        """Begins to send the responses in the outbox.

        If a response is being sent, the next response waits for the event SENT.
        """

    def start_work(self) -> None:
        """Queues the received message for a worker thread, which calls `do_work`.

        The engine has already reserved memory.
        """

    def do_work(self) -> None:
        """Processes the queued message on a worker thread."""

    def abort(self, rejection: LimitError) -> None:
        """Aborts the call with an error."""

    def drop(self, rejection: LimitError | None) -> None:
        """Cancels the call at once, because its client reads no responses.

        The client would not receive the details of an error. `rejection` is None if the server stops.
        """


NOBODY = CallHandler()
"""The handler of a call that has no handler of its own."""

Actions: TypeAlias = Sequence[Callable[[], None]]
"""The actions that follow from an event, in the order in which they must be performed.

An action is a method of `CallHandler`, with its argument if it has one, or `CallInfo.leave`.
"""


class Journal(Protocol):
    """Records the events of calls."""

    def record(self, life: "Lifecycle", event: Event, before: State, size: int, result: CallResult | None) -> None:
        """Records an event of a call that was in the state `before`.

        The engine's lock is held, so this method must only record and return.
        """


@dataclass(eq=False)
class Lifecycle:
    """The state of one call.

    Attributes:
        handler: the handler, which performs the actions, or `NOBODY` as soon as the call is over.
        method: the full method path.
        source: the address and connection of the client. This attribute is set when the call is entered.
        info: the facts about the call, or None if no gate and no observer needs them. This attribute is set before the
            call is entered.
        state: the current state.
        journals: the journals that record the events of the call.
        reading: the bytes held for a message that is arriving, or that has arrived and has no response yet.
        reserved: the bytes held for the work on a received message, or for the response of a unary call.
        outbox: the responses of a stream that the transport has not taken yet. The engine adds the responses in the
            order of the events, so the order is correct even if several threads compute and send responses. The sender
            takes the first response and keeps no reference to it, because the transport has a copy. The memory of a
            sent response is thus freed at once, and can be used again while it is still in the caches of the processor.
        unsent: the number of responses in the outbox and in the transport.
        unsent_bytes: the size of these unsent responses in bytes.
        held: the bytes that a stream holds for a tensor with strides and its responses. The stream holds these bytes
            until the next tensor begins or the call is over.
        in_processing_pool: whether `reserved` and the unsent responses count towards the processing pool.
        holdings: the bytes that the call holds in the receive pool and in the processing pool, as the pools count them.
        arrived_bytes: the size of the message that is being processed.
        began: the time at which the call was entered, by the engine's clock.
        since: the time at which the call last made progress or began to wait, by the engine's clock.
        stalled_seconds: the time without progress before the call began to wait for this server.
        claim: the request for memory (`Claim`) for which the call waits, or None. Only a WAITING or QUEUED call has a
            claim.
    """

    handler: CallHandler
    method: str
    info: CallInfo | None = None
    journals: tuple[Journal, ...] = ()
    claim: "Claim[Lifecycle] | None" = None
    outbox: deque[bytes] = field(default_factory=deque)

    # These default values are class attributes, so that a call that is rejected at once does not have to set them.
    source = Source("", "")
    state = State.NEW
    reading = reserved = unsent = unsent_bytes = held = arrived_bytes = 0
    in_processing_pool = False
    holdings = (0, 0)
    began = since = stalled_seconds = 0.0

    def move(self, event: Event, size: int = 0, result: CallResult | None = None) -> bool:
        """Applies an event and returns whether the state changed.

        Args:
            event: the event.
            size: the number of bytes that the event received, produced or sent. Only the journals use this number.
            result: the result of the call. Only the journals use this result.

        Raises:
            IllegalEventError: `TRANSITIONS` does not list the event for this state. The event has not changed the
                state.
        """
        before = self.state
        after = TRANSITIONS[before].get(event)
        if after is None:
            raise IllegalEventError(f"a call that is {before.name} cannot {event.name}")
        self.state = after
        for journal in self.journals:
            journal.record(self, event, before, size, result)
        return after is not before

    @property
    def is_silent(self) -> bool:
        """Whether the call holds memory of the receive pool and waits only for its client."""
        return self.state in _SILENT and self.holdings[0] > 0

    @property
    def is_over(self) -> bool:
        """Whether the client no longer waits for the response."""
        return self.state in _CLOSED

    @property
    def ignores_rejections(self) -> bool:
        """Whether a detailed error would not reach the client, because responses or the status are still unsent."""
        return bool(self.unsent) or self.state in _ENDS

    def stop_clock(self, now: float) -> None:
        """Stops the clock of the stall timeout until `resume_clock`, because the call waits for this server."""
        self.stalled_seconds = now - self.since
        self.since = now

    def resume_clock(self, now: float) -> None:
        """Resumes the clock of the stall timeout, because the call waits for its client again."""
        self.since = now - self.stalled_seconds

    def advance(self, now: float, moved: int | None) -> None:
        """Moves `since` forward in proportion to `moved` bytes, up to `now`.

        If `moved` is None, sets `since` to `now`.
        """
        self.since = now if moved is None else min(now, self.since + max(moved, 0) / TRICKLE_BYTES_PER_SECOND)


_SILENT = frozenset({State.RECEIVING, State.SENDING, State.ENDING})
_ENDS = frozenset({State.ENDING, State.ABORTED})
