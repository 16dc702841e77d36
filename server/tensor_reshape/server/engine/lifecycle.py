"""The life of one call: its states, the events that move it, and what it holds of the budget meanwhile.

A unary call goes from WORKING to ENDING; a stream goes around once for each message::

    NEW -> WAITING -> RECEIVING -> WORKING -> SENDING -> WAITING ...
                                    | | |
                                    | | +-> QUEUED -> WORKING    what takes long, for a thread
                                    | +---> ENDING -> DONE       the end is decided
                                    +-----> ABANDONED -> DONE    the caller is gone, a thread still works on the call

From any state but WORKING and ABANDONED a call goes to DONE when gRPC is done with it, and can be given up until then.

- Pure: no lock, no clock, no thread, no gRPC. Only the engine moves calls, under its lock: one thread at a time.
- `TRANSITIONS` is all there is: an event that a state does not list is a bug, and raises `IllegalEventError`.
- A call ends once. Whatever comes when its end is decided is listed as leading nowhere: threads, the transport and the
  caller do not wait for each other, so events that cross are no bugs.
- Handlers perform what follows from a move (`ServedCall`). They keep only what they need to talk to the transport.
- A `Journal`, if there is one, is told of every move, in the order of the moves.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from tensor_reshape.rules.errors import LimitError, TensorReshapeError
from tensor_reshape.server.config import COST_FACTOR
from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.ledger import Claim
from tensor_reshape.server.engine.sources import Source

TRICKLE_BYTES_PER_SECOND = 16 * 1024
"""The pace of a stream below which it is given up also when nobody waits."""

ASK_BELOW_UNSENT = 3
"""A stream's next message is asked for while fewer answers are on their way. One message may be answered by more."""


class State(Enum):
    """What a call is doing, and what it holds of the budget meanwhile.

    From ENTER to DONE it has a place among the calls, unless it is refused one. Besides what is said of a state, a
    stream holds its answers that are on their way, which count three times, or `Lifecycle.held`, which includes them.
    """

    NEW = auto()
    """It has begun, and has not asked for room yet. Holds nothing."""

    WAITING = auto()
    """For room to receive its next message. Holds nothing else."""

    RECEIVING = auto()
    """Its message is on its way, or has come and is answered at once. Holds room for the largest message."""

    WORKING = auto()
    """Its message is answered, or its caller watches for news. Holds what it held: it need not wait in between."""

    QUEUED = auto()
    """Its message takes long, and waits for room to be answered, then for a thread. Holds the message, or that room."""

    SENDING = auto()
    """Of a stream: what has come is answered, and its next message not asked for. Holds nothing else."""

    ENDING = auto()
    """Its end, an answer or a refusal, is on its way. Holds that answer, or as GIVEN_UP where it was not WORKING."""

    GIVEN_UP = auto()
    """As ENDING, but for want of progress or of room. Holds what it held: half a message may have been received."""

    ABANDONED = auto()
    """For gRPC it is over, but a thread still works on it. Holds what it held as WORKING."""

    DONE = auto()
    """It is over. Holds nothing."""

    __hash__ = object.__hash__  # by identity, as members compare: that of Enum is a Python function, called per move


class Event(Enum):
    """What happens to a call. The thread that moves it so is said in brackets."""

    ENTER = auto()
    """It asks for a place among the calls (the one that receives calls; with the stock server, its own)."""

    ASK = auto()
    """It is to receive its next message (any: the one that found that it may)."""

    READ = auto()
    """There is room to receive (the one that asked for it, or gave it back)."""

    ARRIVE = auto()
    """A message has arrived; of a small unary call, also its answer is known then (the one that received it)."""

    HALF_CLOSE = auto()
    """The caller's side has ended instead (the one that would have received a message)."""

    QUEUE = auto()
    """The message takes long (the one that received it)."""

    ROOM = auto()
    """There is room to answer it (the one that asked for it, or gave it back)."""

    TAKE_UP = auto()
    """A thread begins to answer it (that thread)."""

    ANSWER = auto()
    """A message of a stream is answered, and more may follow (the one that answered it)."""

    SENT = auto()
    """The transport has taken an answer of a stream (the one that receives calls, or sends for this stream)."""

    END = auto()
    """Its end is decided (the one that answers or refuses it, or met a bug)."""

    GIVE_UP = auto()
    """It has made no progress, or waited, for too long (the one that sweeps)."""

    OVER = auto()
    """gRPC is done with it: the end is sent, or the caller is gone (the one that receives calls; with the stock server
    also the call's own, if the call is over when that thread begins)."""

    __hash__ = object.__hash__  # as that of State


_COMING_LATE = (
    Event.ARRIVE,
    Event.HALF_CLOSE,
    Event.QUEUE,
    Event.TAKE_UP,
    Event.ANSWER,
    Event.SENT,
    Event.END,
)
# Of a state in which the call waits or rests: it can be given up there.
_RESTING = {Event.END: State.ENDING, Event.GIVE_UP: State.GIVEN_UP, Event.OVER: State.DONE}

TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.NEW: {Event.ENTER: State.NEW, Event.ASK: State.WAITING, **_RESTING},
    State.WAITING: {Event.READ: State.RECEIVING, Event.SENT: State.WAITING, **_RESTING},
    State.RECEIVING: {
        Event.ARRIVE: State.WORKING,
        Event.HALF_CLOSE: State.WORKING,
        Event.SENT: State.RECEIVING,
        **_RESTING,
    },
    # Not given up: what this server works on makes progress.
    State.WORKING: {
        Event.QUEUE: State.QUEUED,
        Event.ANSWER: State.SENDING,
        Event.SENT: State.WORKING,
        Event.END: State.ENDING,
        Event.OVER: State.ABANDONED,
    },
    # A thread that takes up a call which is over finds so, and does nothing: see `move`.
    State.QUEUED: {
        Event.ROOM: State.QUEUED,
        Event.TAKE_UP: State.WORKING,
        Event.SENT: State.QUEUED,
        **_RESTING,
    },
    State.SENDING: {Event.ASK: State.WAITING, Event.SENT: State.SENDING, **_RESTING},
    State.ENDING: {
        **dict.fromkeys(_COMING_LATE, State.ENDING),
        Event.GIVE_UP: State.GIVEN_UP,
        Event.OVER: State.DONE,
    },
    # A refusal that is not taken either is given up once more: the call is then cancelled.
    State.GIVEN_UP: {
        **dict.fromkeys((*_COMING_LATE, Event.GIVE_UP), State.GIVEN_UP),
        Event.OVER: State.DONE,
    },
    # The thread is done with it by whatever it says.
    State.ABANDONED: {
        Event.QUEUE: State.DONE,
        Event.ANSWER: State.DONE,
        Event.END: State.DONE,
        Event.SENT: State.ABANDONED,
        Event.OVER: State.ABANDONED,
    },
    State.DONE: dict.fromkeys((*_COMING_LATE, Event.OVER), State.DONE),
}
"""Every move that there is."""

WAITS = frozenset({State.NEW, State.WAITING, State.QUEUED})
"""Where a call waits for this server: what is given up there is refused for want of room, not for want of progress."""

RESTS = frozenset({State.WAITING, State.RECEIVING, State.QUEUED, State.SENDING})
"""Where a call has begun, nothing of it is being answered, and no end is on its way."""

_WORKED_ON = frozenset({State.WORKING, State.ABANDONED})
_CLOSED = frozenset({State.ABANDONED, State.DONE})


class IllegalEventError(TensorReshapeError):
    """A bug: an event of a call that cannot happen in its state."""


class Ending(NamedTuple):
    """How a call ends.

    Attributes:
        code: the name of the gRPC status, "OK" for a good end.
        reason: of a refusal, as `rules.errors.Reason`; else empty.
    """

    code: str
    reason: str = ""


GONE = Ending("CANCELLED")
"""The caller has cancelled, run out of time or lost its connection: to this server, all one."""


class ServedCall(Protocol):
    """What follows from the moves of a call. Each is called without the lock of the engine, on any thread."""

    def start_read(self) -> None:
        """Begins to receive a message, for which there is room."""

    def start_send(self) -> None:
        """Begins to send what is in the outbox, unless something is being sent: then `sent` is what begins."""

    def start_work(self) -> None:
        """Has a thread answer the message that has been received, for which there is room."""

    def give_up(self, refusal: LimitError, state: State) -> None:
        """Ends the call, whatever it is doing: in `state` it was until now."""

    def drop(self, refusal: LimitError | None) -> None:
        """Ends the call at once: its caller takes nothing that is sent, so it would not get the refusal either.

        None: the server stops, which is nobody's fault.
        """


class Journal(Protocol):
    """Where the moves of calls are noted."""

    def note(self, life: "Lifecycle", event: Event, before: State, size: int, ending: Ending | None) -> None:
        """Notes a move; called with the lock of the engine, so it does nothing else."""


_NOBODY = Source("", "")


class Lifecycle:
    """One call. `engine` and `budgets` alone change it, but for outbox and head; others may look at it.

    Attributes:
        served: performs what follows.
        method: in full, as a path.
        source: whose it is; nobody's until it is entered.
        room: what its next message may take, in bytes; likewise.
        head: what is known of it at its beginning, set before it is entered; None where nobody looks at it.
        state: what the call is doing.
        journal: is told of the moves; None costs nothing.
        reading: bytes held for the message that it receives, or has received and not answered yet.
        reserved: bytes held for the work on that message, or for the one answer of a unary call.
        outbox: the answers of a stream that the transport does not have yet. The engine adds them, in the order of
            the moves: so whichever threads answer and send, none overtakes another. Whoever sends takes the first, and
            keeps no reference: the transport has a copy, and memory that is free at once is still in the caches.
        unsent, unsent_bytes: how many answers are on their way, these and the one that the transport has; their bytes.
        held: bytes that a stream holds for a tensor with strides, until the next tensor begins or the call is over;
            while it does, its answers are within them.
        in_working_pool: whether `reserved` and the answers are in the working pool, where room was claimed for them.
        arrived_bytes: of the message that is being answered.
        began, since: by the clock of the engine: when it was entered; when it last made progress, or began to wait.
        stalled_seconds: how long it had made no progress when it began to wait for this server.
        claim: the room that it waits for, in WAITING and QUEUED.
    """

    # How a call begins: of the class, so that one which gets no further has none of these to set.
    source = _NOBODY
    room = 0
    head: CallHead | None = None
    state = State.NEW
    journal: "Journal | None" = None
    reading = reserved = unsent = unsent_bytes = held = arrived_bytes = 0
    in_working_pool = False
    began = since = stalled_seconds = 0.0
    claim: "Claim[Lifecycle] | None" = None

    def __init__(self, served: ServedCall, method: str) -> None:
        """Starts as NEW, without a place among the calls."""
        self.served = served
        self.method = method
        self.outbox: deque[bytes] = deque()

    def move(self, *events: Event, size: int = 0, ending: Ending | None = None) -> bool:
        """Moves the call, and returns whether that led to another state.

        Args:
            events: what happens, in this order.
            size: the bytes that arrived, were answered or sent: for the journal.
            ending: how it ends, likewise.

        Raises:
            IllegalEventError: the state does not list the event. The call stays as it is.
        """
        first = self.state
        for event in events:
            before = self.state
            after = TRANSITIONS[before].get(event)
            if after is None:
                message = f"a call that is {before.name} cannot {event.name}"
                raise IllegalEventError(message)
            self.state = after
            if self.journal is not None:
                self.journal.note(self, event, before, size, ending)
        return self.state is not first

    @property
    def holdings(self) -> tuple[int, int]:
        """What it has of the receiving pool, and of the working pool: all of its bytes, each in one of them."""
        kept = self.reserved if self.held else self.reserved + COST_FACTOR * self.unsent_bytes
        if self.in_working_pool:
            return self.reading, self.held + kept
        return self.reading + kept, self.held

    @property
    def is_silent(self) -> bool:
        """Whether it holds room to receive, and nothing but its caller keeps it from giving that back."""
        return self.state in _SILENT and self.holdings[0] > 0

    @property
    def may_stand_still(self) -> bool:
        """Whether it is never given up, however long it makes no progress: this server works on it."""
        return self.state in _WORKED_ON

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for its answer any more."""
        return self.state in _CLOSED

    @property
    def may_ask(self) -> bool:
        """Whether a message is to be received: the first, or the next of a stream when few answers are left to send."""
        return self.state is State.NEW or (self.state is State.SENDING and self.unsent < ASK_BELOW_UNSENT)

    @property
    def ignores_refusals(self) -> bool:
        """Whether the caller does not take what was sent before, so that it would not take a refusal either."""
        return bool(self.unsent) or self.state in _ENDS

    def stop_clock(self, now: float) -> None:
        """Notes that it waits for this server: until `resume_clock`, the caller neither stalls nor makes progress."""
        self.stalled_seconds = now - self.since
        self.since = now

    def resume_clock(self, now: float) -> None:
        """Notes that it waits for its caller again."""
        self.since = now - self.stalled_seconds

    def advance(self, now: float, moved: int | None) -> None:
        """Notes the progress of so many bytes; None: as much as there can be. Progress is not saved up."""
        self.since = now if moved is None else min(now, self.since + max(moved, 0) / TRICKLE_BYTES_PER_SECOND)

    def forget(self) -> None:
        """Lets go of what serves it: one that waits for the garbage collector keeps its stream, and these are few."""
        self.served = _GONE
        if self.head is not None:
            self.head.leave()


_SILENT = frozenset({State.RECEIVING, State.SENDING, State.ENDING})
_ENDS = frozenset({State.ENDING, State.GIVEN_UP})


class _Gone:
    """A call that is over: nothing follows any more."""

    def start_read(self) -> None:
        pass

    start_send = start_work = start_read

    def give_up(self, refusal: LimitError, state: State) -> None:
        pass

    def drop(self, refusal: LimitError | None) -> None:
        pass


_GONE = _Gone()
