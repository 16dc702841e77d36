"""The state machine of one call: states, events, and the memory that the call holds in each state.

A unary call goes from WORKING to ENDING. A stream repeats the cycle for each message::

    NEW -> WAITING -> RECEIVING -> WORKING -> SENDING -> WAITING ...
                                    | | |
                                    | | +-> QUEUED -> WORKING    slow work waits for a thread
                                    | +---> ENDING -> DONE       the end is decided
                                    +-----> ABANDONED -> DONE    the client is gone, a thread still works on the call

From every state except WORKING and ABANDONED, a call goes to DONE when gRPC has finished it, and can be aborted before.

- This module is pure: it has no lock, clock, thread or gRPC. Only the engine moves calls, one thread at a time, under
  its lock.
- `TRANSITIONS` is complete. An event that a state does not list is a bug and raises `IllegalEventError`.
- A call ends once. Events that arrive after the end is decided change nothing. They are not bugs, because threads, the
  transport and the client do not wait for each other.
- Handlers perform the effects of a move (`ServedCall`). They keep only the state that they need to use the transport.
- If there is a `Journal`, it records every move, in the order of the moves.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from tensor_reshape.rules.errors import LimitError, TensorReshapeError
from tensor_reshape.server.config import COST_FACTOR
from tensor_reshape.server.engine.call_info import CallInfo
from tensor_reshape.server.engine.fair_shares import Claim
from tensor_reshape.server.engine.sources import Source

TRICKLE_BYTES_PER_SECOND = 16 * 1024
"""A stream that is slower than this is aborted even if no other call waits."""

READ_BELOW_UNSENT = 3
"""A stream reads its next message only while it has fewer unsent responses. One message may have more responses."""


class State(Enum):
    """The states of a call, and the memory that it holds in each.

    From ENTER to DONE a call has a concurrency slot, unless it was rejected. In addition to the memory of its state, a
    stream holds its unsent responses, which count three times, or `Lifecycle.held`, which includes them.
    """

    NEW = auto()
    """The call has begun and has not requested memory. Holds nothing."""

    WAITING = auto()
    """The call waits for memory to receive its next message. Holds nothing else."""

    RECEIVING = auto()
    """A message is arriving, or has arrived and is processed at once. Holds memory for the largest message."""

    WORKING = auto()
    """The message is being processed, or the client watches a status. Holds what it held before."""

    QUEUED = auto()
    """The message needs long work and waits for memory, then for a thread. Holds the message, or that memory."""

    SENDING = auto()
    """A stream has responded to its message and does not read the next one yet. Holds nothing else."""

    ENDING = auto()
    """The response or error is being sent. Holds the response. If the call was not WORKING, it holds what it held."""

    ABORTED = auto()
    """The call was aborted and its error is being sent. Holds what it held: part of a message may have arrived."""

    ABANDONED = auto()
    """gRPC has finished the call, but a thread still works on it. Holds what it held as WORKING."""

    DONE = auto()
    """The call is over. Holds nothing."""

    __hash__ = object.__hash__  # by identity, like ==. Enum's own is a Python function, which every move would call


class Event(Enum):
    """The events of a call. The thread that reports each event is in brackets."""

    ENTER = auto()
    """The call requests a concurrency slot (the receiving thread; with the fallback server, the thread of the call)."""

    REQUEST = auto()
    """The call is due to read its next message (any thread)."""

    READ = auto()
    """The call has memory to receive (the thread that requested the memory, or that freed it)."""

    ARRIVE = auto()
    """A message has arrived. A small unary call also has its response by then (the thread that received it)."""

    HALF_CLOSE = auto()
    """The client half-closed the call instead of sending a message (the thread that would have received it)."""

    QUEUE = auto()
    """The message needs long work (the thread that received it)."""

    GRANT = auto()
    """The call has memory for that work (the thread that requested the memory, or that freed it)."""

    TAKE_UP = auto()
    """A worker thread begins the work (that thread)."""

    RESPOND = auto()
    """A message of a stream has its responses, and more messages may follow (the thread that processed it)."""

    SENT = auto()
    """The transport has taken a response of a stream (the receiving thread, or the sender of this stream)."""

    END = auto()
    """The end is decided (the thread that has the response or the error)."""

    ABORT = auto()
    """The call made no progress, or waited, for too long (the thread that sweeps)."""

    OVER = auto()
    """gRPC has finished the call: the status is sent, or the client is gone (the receiving thread; with the fallback
    server also the thread of the call, if the call is over before that thread begins)."""

    __hash__ = object.__hash__  # see State


_LATE_EVENTS = (
    Event.ARRIVE,
    Event.HALF_CLOSE,
    Event.QUEUE,
    Event.TAKE_UP,
    Event.RESPOND,
    Event.SENT,
    Event.END,
)
# Transitions of every state in which the call can be aborted.
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
    # No ABORT: a call that the server works on makes progress.
    State.WORKING: {
        Event.QUEUE: State.QUEUED,
        Event.RESPOND: State.SENDING,
        Event.SENT: State.WORKING,
        Event.END: State.ENDING,
        Event.OVER: State.ABANDONED,
    },
    # If the call is over, TAKE_UP does not move it, and the thread does nothing: see `move`.
    State.QUEUED: {
        Event.GRANT: State.QUEUED,
        Event.TAKE_UP: State.WORKING,
        Event.SENT: State.QUEUED,
        **_RESTING,
    },
    State.SENDING: {Event.REQUEST: State.WAITING, Event.SENT: State.SENDING, **_RESTING},
    State.ENDING: {
        **dict.fromkeys(_LATE_EVENTS, State.ENDING),
        Event.ABORT: State.ABORTED,
        Event.OVER: State.DONE,
    },
    # If the client does not receive the error either, a second ABORT cancels the call.
    State.ABORTED: {
        **dict.fromkeys((*_LATE_EVENTS, Event.ABORT), State.ABORTED),
        Event.OVER: State.DONE,
    },
    # Any event of the working thread means that it has finished.
    State.ABANDONED: {
        Event.QUEUE: State.DONE,
        Event.RESPOND: State.DONE,
        Event.END: State.DONE,
        Event.SENT: State.ABANDONED,
        Event.OVER: State.ABANDONED,
    },
    State.DONE: dict.fromkeys((*_LATE_EVENTS, Event.OVER), State.DONE),
}
"""All transitions."""

WAITS = frozenset({State.NEW, State.WAITING, State.QUEUED})
"""States in which a call waits for this server. If it is aborted there, the reason is SERVER_BUSY, not STALLED."""

RESTS = frozenset({State.WAITING, State.RECEIVING, State.QUEUED, State.SENDING})
"""States in which a running call is neither being processed nor ending."""

_WORKED_ON = frozenset({State.WORKING, State.ABANDONED})
_CLOSED = frozenset({State.ABANDONED, State.DONE})


class IllegalEventError(TensorReshapeError):
    """A bug: the state of the call does not allow the event."""


class CallResult(NamedTuple):
    """The result of a call.

    Attributes:
        code: the name of the gRPC status; "OK" for success.
        reason: the reason of a rejection, as in `rules.errors.Reason`; otherwise empty.
    """

    code: str
    reason: str = ""


GONE = CallResult("CANCELLED")
"""The client cancelled, reached its deadline or lost its connection. The server does not distinguish these."""


class ServedCall(Protocol):
    """The effects of moves on a call. Each method is called on any thread, without the engine's lock."""

    def start_read(self) -> None:
        """Begins to receive a message, for which memory is reserved."""

    def start_send(self) -> None:
        """Begins to send the outbox. If a message is being sent, sending continues after its `sent` event."""

    def start_work(self) -> None:
        """Starts a worker thread on the received message, for which memory is reserved."""

    def abort(self, rejection: LimitError, state: State) -> None:
        """Aborts the call with an error; `state` is its state before."""

    def drop(self, rejection: LimitError | None) -> None:
        """Cancels the call at once, because its client reads nothing and would not receive an error either.

        `rejection` is None if the server stops.
        """


class Journal(Protocol):
    """Records the moves of calls."""

    def record(self, life: "Lifecycle", event: Event, before: State, size: int, result: CallResult | None) -> None:
        """Records a move. The engine's lock is held, so this must do nothing else."""


_NO_SOURCE = Source("", "")


class Lifecycle:
    """The state of one call. Only `engine` and `budgets` change it, except outbox and info; other code may read it.

    Attributes:
        served: performs the effects; None as soon as the call is over.
        method: the full method path.
        source: the address and connection of the client, set when the call is entered.
        max_message_bytes: bytes that its next message may need, set when the call is entered.
        info: facts about the call, set before it is entered. None if neither a gate nor an observer needs them.
        state: the state.
        journals: record the moves.
        reading: bytes held for the message that is arriving, or has arrived and has no response yet.
        reserved: bytes held for work on that message, or for the response of a unary call.
        outbox: responses of a stream that the transport has not taken yet. The engine adds them in the order of the
            moves, so they stay in order whichever threads compute and send. The sender takes the first one and keeps no
            reference: the transport has a copy, and memory that is freed at once is still in the processor's caches.
        unsent, unsent_bytes: number and bytes of the responses in the outbox and the one in the transport.
        held: bytes that a stream holds for a tensor with strides, until the next tensor begins or the call is over.
            They include its responses.
        in_working_pool: whether `reserved` and the responses count in the processing pool.
        counted: the holdings that the two pools have counted; see `holdings`.
        arrived_bytes: size of the message that is being processed.
        began, since: seconds by the engine's clock: when the call was entered; when it last made progress, or began to
            wait.
        stalled_seconds: seconds without progress before the call began to wait for this server.
        claim: the memory that the call waits for in WAITING and QUEUED.
    """

    # Defaults are attributes of the class, so that a call which is rejected at once need not set them.
    source = _NO_SOURCE
    max_message_bytes = 0
    info: CallInfo | None = None
    state = State.NEW
    journals: "tuple[Journal, ...]" = ()
    reading = reserved = unsent = unsent_bytes = held = arrived_bytes = 0
    in_working_pool = False
    counted = (0, 0)
    began = since = stalled_seconds = 0.0
    claim: "Claim[Lifecycle] | None" = None

    def __init__(self, served: ServedCall, method: str) -> None:
        """Starts as NEW, without a concurrency slot."""
        self.served: ServedCall | None = served
        self.method = method
        self.outbox: deque[bytes] = deque()

    def move(self, event: Event, size: int = 0, result: CallResult | None = None) -> bool:
        """Applies an event and returns whether the state changed.

        Args:
            event: the event.
            size: bytes that arrived, were produced or were sent; for the journal.
            result: the result of the call; for the journal.

        Raises:
            IllegalEventError: the state does not list the event. The state is unchanged.
        """
        before = self.state
        after = TRANSITIONS[before].get(event)
        if after is None:
            message = f"a call that is {before.name} cannot {event.name}"
            raise IllegalEventError(message)
        self.state = after
        for journal in self.journals:
            journal.record(self, event, before, size, result)
        return after is not before

    @property
    def holdings(self) -> tuple[int, int]:
        """Bytes that the call holds in the receive pool and in the processing pool."""
        kept = self.reserved if self.held else self.reserved + COST_FACTOR * self.unsent_bytes
        if self.in_working_pool:
            return self.reading, self.held + kept
        return self.reading + kept, self.held

    @property
    def is_silent(self) -> bool:
        """Whether the call holds memory of the receive pool and waits only for its client."""
        return self.state in _SILENT and self.holdings[0] > 0

    @property
    def is_worked_on(self) -> bool:
        """Whether the server works on the call, so that it has no stall timeout."""
        return self.state in _WORKED_ON

    @property
    def is_over(self) -> bool:
        """Whether no client waits for the response any more."""
        return self.state in _CLOSED

    @property
    def may_read(self) -> bool:
        """Whether a stream may read its next message, because few responses are unsent."""
        return self.state is State.SENDING and self.unsent < READ_BELOW_UNSENT

    @property
    def ignores_rejections(self) -> bool:
        """Whether the client has not received an earlier response, so that it would not receive an error either."""
        return bool(self.unsent) or self.state in _ENDS

    def stop_clock(self, now: float) -> None:
        """Stops the stall clock while the call waits for this server, until `resume_clock`."""
        self.stalled_seconds = now - self.since
        self.since = now

    def resume_clock(self, now: float) -> None:
        """Resumes the stall clock, because the call waits for its client again."""
        self.since = now - self.stalled_seconds

    def advance(self, now: float, moved: int | None) -> None:
        """Records progress of `moved` bytes. None: full progress. Progress never moves `since` beyond `now`."""
        self.since = now if moved is None else min(now, self.since + max(moved, 0) / TRICKLE_BYTES_PER_SECOND)

    def forget(self) -> None:
        """Drops the handler at once, because its HTTP/2 stream stays open until the handler is freed."""
        self.served = None
        if self.info is not None:
            self.info.leave()


_SILENT = frozenset({State.RECEIVING, State.SENDING, State.ENDING})
_ENDS = frozenset({State.ENDING, State.ABORTED})
