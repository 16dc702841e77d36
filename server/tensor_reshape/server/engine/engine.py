"""Admission control: the engine takes events of calls and returns effects as data.

- The size of a message is unknown until it arrives. A call therefore reserves memory for the largest allowed message in
  the receive pool before it reads. A small response stays within that reservation, which ends when the transport has
  taken the response. The response to a larger message, and the transport's copy of it, need memory of the processing
  pool. Because the pools are separate, arriving messages never block the responses that would free memory.
- One rule shares memory and concurrency slots among clients: see `fair_shares`. If the receive pool is full all the
  same, the engine aborts calls of the addresses that hold the most.
- A call that makes no progress is aborted after `stall_timeout_seconds`. While other calls wait, it is aborted as soon
  as the largest message has had time to arrive at a moderate pace: see `stall_timeouts`. Received bytes count as
  progress in proportion to that pace, so a trickle only delays the abort. Time that a call waits for this server does
  not count.
- A call that waits longer than that for memory or for a thread is rejected.
- The gates check a call before it takes a concurrency slot: see `gates`.

Each method is an event. It takes the lock once, moves the call (`lifecycle`), updates the memory that the call holds,
and returns the effects for this call and for others that can now continue. Under the lock the engine calls only the
journal. The thread that reports an event performs its effects after the lock is released (`effects.perform`). A list of
events and times explains every decision of the engine: see `tests/support/transcripts.py`.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.budgets import Budget
from tensor_reshape.server.engine.effects import Effect, Effects, Kind
from tensor_reshape.server.engine.fair_shares import FairPool
from tensor_reshape.server.engine.gates import Gates
from tensor_reshape.server.engine.lifecycle import GONE, RESTS, CallResult, Event, Journal, Lifecycle, State
from tensor_reshape.server.engine.sources import Source
from tensor_reshape.server.engine.stall_timeouts import StallTimeouts, find_stalled, reject_busy, reject_idle
from tensor_reshape.server.engine.statuses import OK

# Used by every small call: looking up a member of an Enum costs as much as moving the call.
_ENTER, _REQUEST, _READ = Event.ENTER, Event.REQUEST, Event.READ
_ARRIVE, _END, _OVER = Event.ARRIVE, Event.END, Event.OVER
_WORKING, _ENDING, _DONE = State.WORKING, State.ENDING, State.DONE
_START_READ, _FORGET = Kind.START_READ, Kind.FORGET

_STOPPED = CallResult("UNAVAILABLE")
_RESERVED_PART = 8  # one eighth of the concurrency slots is reserved for addresses with few calls


class EndDecision(NamedTuple):
    """The outcome of `Engine.end`.

    Attributes:
        is_first: whether this event decided the end. If not, the end was decided before, and there is nothing to send.
        effects: the effects to perform.
    """

    is_first: bool
    effects: Effects


class Engine:
    """The calls of one process; safe to use from any thread.

    Attributes:
        journals: record the moves of each call that begins from now on.
        max_calls: number of calls that may run at the same time.
        needs_info: whether calls need a `CallInfo`, which gates and the journals of the constructor read.
    """

    def __init__(
        self,
        config: Config,
        journals: Sequence[Journal] = (),
        gates: Gates | None = None,
        clock: Callable[[], float] = time.monotonic,
        timeouts: StallTimeouts | None = None,
    ) -> None:
        """Starts without calls and with the whole memory budget free.

        Args:
            config: the limits of the server.
            journals: record the moves of each call that begins.
            gates: check each call. Default: none.
            clock: returns seconds.
            timeouts: how long calls may make no progress. Default: derived from `config`.
        """
        self.journals = tuple(journals)
        self.max_calls = config.max_calls
        self._budget = Budget(config)
        self._receiving, self._working = self._budget.receiving, self._budget.working
        self._waiting = (self._receiving.waiting.queues, self._working.waiting.queues)
        self._timeouts = timeouts or StallTimeouts.of(config)
        self._gates = gates or Gates()
        self.needs_info = bool(journals or self._gates)
        self._clock = clock
        self._lock = threading.Lock()  # guards the next two, the pools, and every call that has been entered
        self._lives: set[Lifecycle] = set()  # calls that have been entered and are not over
        self._slots = FairPool[Lifecycle](config.max_calls, config.max_calls // _RESERVED_PART)

    @property
    def is_idle(self) -> bool:
        """Whether no call is running."""
        return not self._lives

    def list_calls(self) -> tuple[Lifecycle, ...]:
        """Returns the running calls."""
        with self._lock:
            return tuple(self._lives)

    @property
    def has_waiting_calls(self) -> bool:
        """Whether calls wait for memory."""
        return any(self._waiting)

    @property
    def used_bytes(self) -> int:
        """Bytes that are reserved for all calls now."""
        return self._budget.used_bytes

    def enter(self, life: Lifecycle, source: Source, size: int | None = None) -> Effects:
        """Begins a call, which reads its first message as soon as there is memory. The handler must `release` it later.

        Args:
            life: the call.
            source: the address and connection of the client.
            size: the largest possible message of this call, in bytes. None: the largest allowed message.

        Raises:
            ReshapeError: the error of a gate, or SERVER_BUSY. The handler then ends and releases the call as usual.
        """
        rejection: ReshapeError | None = None
        if life.info is not None:
            life.info.address = source.address
            rejection = self._gates.find_rejection(life.info)
        with self._lock:
            if life.state is _DONE:  # over before it was entered; FORGET reports that to the gates that admitted it
                return (Effect(_FORGET, life),)
            life.journals = self.journals  # also for a call that is rejected at once
            life.began = life.since = self._clock()
            life.source = source
            life.max_message_bytes = self._budget.read_cost if size is None else min(size, self._budget.read_cost)
            if rejection is None and not self._slots.take(source, 1):
                message = f"{len(self._lives)} calls are running; the limit is {self.max_calls} (--max-calls)"
                rejection = reject_busy(message)
            life.move(_ENTER)
            if rejection is None:
                self._lives.add(life)
                return self._request_read(life)
        raise rejection

    def message_received(self, life: Lifecycle, size: int | None) -> bool:
        """Records that a message has arrived, or with size None that the client has half-closed the call.

        Returns False if the call is already ending. Otherwise the call is WORKING from now on and keeps its reservation
        for the largest message.
        """
        with self._lock:
            if not life.move(Event.HALF_CLOSE if size is None else _ARRIVE, size=size or 0):
                return False
            life.arrived_bytes = size or 0
            life.stop_clock(self._clock())
            return True

    def respond_at_once(self, life: Lifecycle, received: int, size: int) -> Effects | None:
        """Records that a message has arrived and has a response: `message_received` and a good `end` in one step.

        The call stays RECEIVING while the receiving thread computes the response, which takes microseconds.

        Returns:
            the effects. None: the end was decided before, and there is nothing to send.
        """
        with self._lock:
            if not life.move(_ARRIVE, size=received):
                return None
            life.arrived_bytes = received
            life.move(_END, size=size, result=OK)
            life.since = self._clock()
            self._budget.keep_response(life, size)
            return self._grant()

    def fits(self, life: Lifecycle, size: int) -> bool:
        """Whether the response to a stream's message of that size fits in the memory reserved for receiving it.

        This reads without the lock. A response that is sent at the same time only frees more of that memory.
        """
        return COST_FACTOR * (life.unsent_bytes + size) <= life.max_message_bytes

    def request_work(self, life: Lifecycle, size: int | None = None) -> Effects:
        """Queues the received message until there is memory and then a thread for it; `take_up` follows.

        Args:
            life: the call.
            size: bytes that the response needs. None: as many as for the largest message. 0: the response fits in what
                the call has already reserved.
        """
        with self._lock:
            life.move(Event.QUEUE)
            if life.state is State.QUEUED:
                return self._queue(life, self._budget.work_cost if size is None else size)
            # DONE: the thread that worked on it has found that the call is over.
            return self._release(life) if life.state is _DONE else ()

    def take_up(self, life: Lifecycle) -> bool:
        """Records that a thread begins to work. Returns False if the call is already ending: there is nothing to do."""
        with self._lock:
            return life.move(Event.TAKE_UP)

    def respond(self, life: Lifecycle, responses: Sequence[bytes], moved: int | None) -> Effects:
        """Adds the responses to a stream's message to its outbox and reads the next message if allowed.

        Args:
            life: the call.
            responses: the response messages; `sent` follows for each.
            moved: bytes of progress that the message made. None: full progress.
        """
        size = sum(map(len, responses))
        with self._lock:
            life.move(Event.RESPOND, size=size)
            if life.state is _DONE:
                return self._release(life)
            if life.state is not State.SENDING:
                return ()
            now = self._clock()
            life.resume_clock(now)
            life.advance(now, moved)
            life.reading = life.reserved = 0
            life.outbox.extend(responses)
            life.unsent += len(responses)
            life.unsent_bytes += size
            self._budget.update(life)
            return (Effect(Kind.START_SEND, life), *self._grant(), *self._read_if_due(life))

    def sent(self, life: Lifecycle, size: int) -> Effects:
        """Records that a response of that size was sent, and reads the stream's next message if that was due."""
        with self._lock:
            life.move(Event.SENT, size=size)
            if life not in self._lives:
                return ()
            life.unsent -= 1
            life.unsent_bytes -= size
            life.advance(self._clock(), size)
            self._budget.update(life)
            return (*self._grant(), *self._read_if_due(life))

    def reserve(self, life: Lifecycle, size: int) -> Effects:
        """Reserves `size` bytes for a stream in addition to its messages; 0 returns them.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            if life not in self._lives:
                return ()
            if not self._budget.may_hold(life, size):
                message = f"the call needs {size} bytes of memory, which this server does not have free now"
                raise reject_busy(message)
            life.held = size
            self._budget.update(life)
            return self._grant()

    def end(self, life: Lifecycle, result: CallResult, size: int = 0) -> EndDecision:
        """Decides the end of a call.

        Args:
            life: the call.
            result: the status.
            size: bytes of a unary call's response. Memory for it stays reserved until the call is over.
        """
        with self._lock:
            before = life.state
            has_moved = life.move(_END, size=size, result=result)
            self._withdraw(life)  # a bug can end a call that waits: it must not get memory after that
            if life.state is _DONE:
                return EndDecision(is_first=False, effects=self._release(life))  # the client had gone before
            if before is not _WORKING:
                return EndDecision(is_first=has_moved, effects=())
            # Only a WORKING call has no partly received message: its reservation can shrink to the response.
            life.since = self._clock()
            self._budget.keep_response(life, size)
            return EndDecision(is_first=True, effects=self._grant())

    def release(self, life: Lifecycle, *, gone: bool = False) -> Effects:
        """Returns everything that a call holds when the transport is done with it; may be repeated.

        If a thread still works on the call, the next event of that thread returns it.

        Args:
            life: the call.
            gone: whether the client had disconnected before it received the status.
        """
        with self._lock:
            life.move(_OVER, result=GONE if gone and life.state is _ENDING else None)
            return self._release(life) if life.state is _DONE else ()

    def sweep(self) -> Effects:
        """Aborts the calls that have made no progress, or have waited, for too long. Called at regular intervals."""
        with self._lock:
            now = self._clock()
            stalled = find_stalled(self._lives, self._timeouts, now, self._receiving.newcomers, self._is_greedy)
            return (*[self._abort(life, seconds, now) for life, seconds in stalled.items()], *self._grant())

    def close(self) -> Effects:
        """Ends the calls that wait for their clients or for memory, because the server stops. `Health` ends watches."""
        with self._lock:
            resting = [life for life in self._lives if life.state in RESTS]
            for life in resting:
                life.move(Event.ABORT, result=_STOPPED)
                self._withdraw(life)
            return [Effect(Kind.DROP, life, (None,)) for life in resting]

    def _is_greedy(self, address: str) -> bool:
        """Whether an address has more than its fair share of memory that others wait for, or of scarce slots."""
        pools = (self._receiving, self._working)
        return any(pool.is_greedy(address) and pool.is_waited_for for pool in pools) or (
            self._slots.is_crowded and self._slots.is_greedy(address)
        )

    def _abort(self, life: Lifecycle, seconds: float, now: float) -> Effect:
        state, rejection = life.state, reject_idle(life.state, seconds)
        cancels = life.ignores_rejections
        life.move(
            Event.ABORT, result=CallResult("CANCELLED" if cancels else "RESOURCE_EXHAUSTED", str(rejection.reason))
        )
        life.since = now  # the client has the same time again to receive the error
        self._withdraw(life)
        return Effect(Kind.DROP, life, (rejection,)) if cancels else Effect(Kind.ABORT, life, (rejection, state))

    def _read_if_due(self, life: Lifecycle) -> Effects:
        return self._request_read(life) if life.may_read else ()

    def _request_read(self, life: Lifecycle) -> Effects:
        """Lets a call read its next message, now or when there is memory."""
        life.move(_REQUEST)
        pool = self._receiving
        if pool.take(life.source, life.max_message_bytes):
            life.move(_READ)
            return (self._start_read(life),)
        life.stop_clock(self._clock())
        life.claim = pool.claim(life.source, life.max_message_bytes, life)
        return self._grant()  # an address that holds little may be served before others that already wait

    def _start_read(self, life: Lifecycle) -> Effect:
        """Records the memory that the receive pool has given to a call."""
        life.reading = life.max_message_bytes
        life.counted = (life.counted[0] + life.reading, life.counted[1])
        return Effect(_START_READ, life)

    def _queue(self, life: Lifecycle, size: int) -> Effects:
        """Lets a call work when there is memory. Until then it holds only the bytes of its message."""
        life.reading = life.arrived_bytes
        now = self._clock()
        life.resume_clock(now)
        life.advance(now, life.arrived_bytes)
        life.stop_clock(now)
        self._budget.update(life)
        if not size:
            return (Effect(Kind.START_WORK, life), *self._grant())
        if self._working.take(life.source, size):
            return (self._start_work(life, size), *self._grant())
        life.claim = self._working.claim(life.source, size, life)
        return self._grant()

    def _start_work(self, life: Lifecycle, size: int) -> Effect:
        """Records the memory that the processing pool has given to a call. That pool now holds all of its messages."""
        life.reading, life.reserved, life.in_working_pool = 0, size, True
        life.counted = (life.counted[0], life.counted[1] + size)
        life.move(Event.GRANT)
        self._budget.update(life)
        return Effect(Kind.START_WORK, life)

    def _grant(self) -> Effects:
        """Gives memory to waiting calls: to processing first, because that frees memory of the receive pool."""
        if not any(self._waiting):  # usually; every call gets here twice
            return ()
        effects: list[Effect] = []
        while claim := self._working.grant():
            claim.owner.claim, claim.owner.since = None, self._clock()  # the call waits for a thread from now on
            effects.append(self._start_work(claim.owner, claim.size))
        while claim := self._receiving.grant():
            life = claim.owner
            life.claim = None
            life.move(_READ)
            life.resume_clock(self._clock())
            effects.append(self._start_read(life))
        return effects

    def _release(self, life: Lifecycle) -> Effects:
        """Takes back everything that a call holds, which may be nothing."""
        if life in self._lives:
            self._lives.discard(life)
            self._slots.change(life.source, -1)
        self._withdraw(life)
        self._budget.return_all(life)
        # FORGET is performed after the lock is released: it may free the handler and all transport objects of the call.
        return (Effect(_FORGET, life), *self._grant())

    def _withdraw(self, life: Lifecycle) -> None:
        if life.claim is not None:
            life.claim.pool.withdraw(life.claim)
            life.claim = None
