"""Who may take memory, and when: events of calls come in, effects go out as data.

- How large a message is, nobody knows before it has arrived. So whoever begins to receive one must have room for the
  largest that it can be, once: the receiving pool. A small one is answered within that room, which is free when the
  answer has been taken. For others the answer, and what the transport sends of it, need room of the working pool. What
  arrives never keeps what has arrived from being answered, and so from giving its room back.
- Memory and places for calls are shared by one rule: see `ledger`. Where all room to receive is taken all the same,
  calls of the addresses that have most are given up.
- A call that makes no progress is aborted after `stall_timeout_seconds`. While other calls wait, it is aborted as soon
  as the largest message has had time to arrive at a moderate pace: see `stalls`. Received bytes count as progress in
  proportion to that pace, so a trickle only delays the abort. Time that a call waits for this server does not count.
- What waits for room or for a thread longer than that is refused.
- Gates are asked before a call takes a place: see `gates`.

Each method is an event. It takes the lock once, moves that call (`lifecycle`), settles what it holds, and returns what
follows, for that call and for others that have room because of it. Nothing is called under the lock but the journal,
which notes moves. Whoever brings an event performs its effects without a lock of the engine (`effects.perform`), in any
thread. So a list of events with their times explains all that the engine did: `tests/support/transcripts.py` keeps such
a list.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine import stalls
from tensor_reshape.server.engine.budgets import Budget
from tensor_reshape.server.engine.effects import Effect, Kind
from tensor_reshape.server.engine.gates import Gates
from tensor_reshape.server.engine.ledger import Pool
from tensor_reshape.server.engine.lifecycle import GONE, RESTS, WAITS, Ending, Event, Journal, Lifecycle, State
from tensor_reshape.server.engine.sources import Source
from tensor_reshape.server.engine.stalls import refuse_busy
from tensor_reshape.server.engine.statuses import OK

Effects = Sequence[Effect]

# What every small call comes by: to look up a member of an Enum costs as much as to move the call.
_ENTER, _ASK, _READ, _ARRIVE, _END, _OVER = Event.ENTER, Event.ASK, Event.READ, Event.ARRIVE, Event.END, Event.OVER
_WORKING, _ENDING, _DONE = State.WORKING, State.ENDING, State.DONE
_STOPPED = Ending("UNAVAILABLE")
_TAKEN_IN = (_ENTER, _ASK, _READ)
_RESERVED_PART = 8  # of the places a part in so many is left for addresses that have few calls
_START_READ, _FORGET = Kind.START_READ, Kind.FORGET


class End(NamedTuple):
    """What follows from an end.

    Attributes:
        is_first: whether this decided the end; else it was decided before, and there is nothing to send.
        effects: what follows.
    """

    is_first: bool
    effects: Effects


_LATE, _FIRST = End(is_first=False, effects=()), End(is_first=True, effects=())


class Engine:
    """The calls of one process; safe to use from any thread."""

    def __init__(
        self,
        config: Config,
        journal: Journal | None = None,
        gates: Gates | None = None,
        clock: Callable[[], float] = time.monotonic,
        patience: stalls.Patience | None = None,
    ) -> None:
        """Starts without calls, and with the whole budget.

        Args:
            config: what bounds callers.
            journal: in which calls that begin note their moves.
            gates: are asked for each call.
            clock: in seconds.
            patience: how long calls may make no progress; None: as `config` says.
        """
        self.journal = journal
        self._budget = Budget(config)
        self._receiving, self._working = self._budget.receiving, self._budget.working
        self._patience = patience or stalls.Patience.of(config)
        self._gates = gates or Gates()
        self.wants_heads = bool(journal or self._gates)  # of calls: somebody looks at them
        self._max_calls = config.max_calls
        self._clock = clock
        self._lock = threading.Lock()  # guards all that follows, and every call that has been entered
        self._lives: set[Lifecycle] = set()  # of the calls that have been entered and are not over
        self._places = Pool[Lifecycle](config.max_calls, config.max_calls // _RESERVED_PART)

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return not self._lives

    def list_calls(self) -> tuple[Lifecycle, ...]:
        """Returns the calls under way."""
        with self._lock:
            return tuple(self._lives)

    @property
    def is_waited_for(self) -> bool:
        """Whether calls wait for room."""
        return bool(self._receiving.waiting.queues or self._working.waiting.queues)

    @property
    def used_bytes(self) -> int:
        """What is set aside for all calls now."""
        return self._budget.used_bytes

    def enter(self, life: Lifecycle, source: Source, size: int | None = None) -> Effects:
        """A call begins, and is to receive a message when there is room. Whoever enters a call releases it in the end.

        Args:
            life: the call.
            source: whose it is.
            size: the most bytes that a message of it can have; None: as many as the largest.

        Raises:
            ReshapeError: a gate's, or SERVER_BUSY. The call has no place then; it is to be ended and released as ever.
        """
        refusal: ReshapeError | None = None
        if life.head is not None:
            life.head.address = source.address
            refusal = self._gates.find_refusal(life.head)
        with self._lock:
            if life.state is _DONE:  # it was over before it was entered: gates that have let it in hear of that
                return (Effect(_FORGET, life),)
            life.journal = self.journal  # also that of a call which is refused at once
            life.began = life.since = self._clock()
            life.source = source
            life.room = self._budget.read_cost if size is None else min(size, self._budget.read_cost)
            if refusal is None and not self._places.take(source, 1):
                taken = len(self._lives)
                refusal = refuse_busy(f"{taken} calls are under way; this server takes {self._max_calls}")
            if refusal is None:
                self._lives.add(life)
                if self._receiving.take(source, life.room):
                    life.reading = life.room
                    life.move(*_TAKEN_IN)
                    return (Effect(_START_READ, life),)
                life.move(_ENTER)
                return self._ask(life)
            life.move(_ENTER)
        raise refusal

    def message_received(self, life: Lifecycle, size: int | None) -> bool:
        """A message has arrived, None for the end of the caller's side; returns False where the call ends already.

        The call works from now on. What it holds stays as it is: room for the largest message.
        """
        with self._lock:
            works = life.move(Event.HALF_CLOSE if size is None else _ARRIVE, size=size or 0)
            if works:
                life.arrived_bytes = size or 0
                life.stop_clock(self._clock())
        return works

    def answer_at_once(self, life: Lifecycle, received: int, size: int) -> End:
        """A message has arrived and is answered: `message_received` and a good `end` in one step.

        So the call is RECEIVING until its answer is known: for the moment that the thread which received it needs.
        """
        with self._lock:
            if not life.move(_ARRIVE, size=received):
                return _LATE
            life.arrived_bytes = received
            life.move(_END, size=size, ending=OK)
            life.since = self._clock()
            self._budget.keep_answer(life, size)
            if self._receiving.waiting.queues or self._working.waiting.queues:
                return End(is_first=True, effects=self._grant())
            return _FIRST

    def fits(self, life: Lifecycle, size: int) -> bool:
        """Whether a stream's message of that size is answered within the room in which it came.

        Read without the lock: answers that are sent meanwhile only leave more of that room.
        """
        return COST_FACTOR * (life.unsent_bytes + size) <= life.room

    def request_work(self, life: Lifecycle, size: int | None = None) -> Effects:
        """The message that was received waits for room, and then for a thread; `take_up` follows.

        Args:
            life: the call.
            size: the bytes that come of the message; None: of the largest one. With 0 there is room already: what comes
                of it is within what the call has reserved.
        """
        with self._lock:
            life.move(Event.QUEUE)
            if life.state is State.QUEUED:
                return self._queue(life, self._budget.work_cost if size is None else size)
            if life.state is _DONE:
                return self._let_go(life)  # the thread that worked on it has found that nobody waits any more
            return []

    def take_up(self, life: Lifecycle) -> bool:
        """A thread begins to answer; returns False where the call ends already, and there is nothing to do."""
        with self._lock:
            return life.move(Event.TAKE_UP)

    def answer(self, life: Lifecycle, answers: Sequence[bytes], moved: int | None) -> Effects:
        """A stream's message is answered; the next one is asked for if it may be.

        Args:
            life: the call.
            answers: go to its outbox; `sent` follows for each.
            moved: how many bytes of progress that was; None: as much as there can be.
        """
        size = sum(map(len, answers))
        with self._lock:
            life.move(Event.ANSWER, size=size)
            if life.state is _DONE:
                return self._let_go(life)
            if life.state is not State.SENDING:
                return []
            now, before = self._clock(), life.holdings
            life.resume_clock(now)
            life.advance(now, moved)
            life.reading = life.reserved = 0
            life.outbox.extend(answers)
            life.unsent += len(answers)
            life.unsent_bytes += size
            self._budget.settle(life, before)
            effects = [Effect(Kind.START_SEND, life), *self._grant()]
            return [*effects, *self._ask(life)] if life.may_ask else effects

    def sent(self, life: Lifecycle, size: int) -> Effects:
        """An answer of that size has gone; the next message is asked for if that was due."""
        with self._lock:
            life.move(Event.SENT, size=size)
            if life not in self._lives:
                return []
            before = life.holdings
            life.unsent -= 1
            life.unsent_bytes -= size
            life.advance(self._clock(), size)
            self._budget.settle(life, before)
            effects = self._grant()
            return [*effects, *self._ask(life)] if life.may_ask else effects

    def reserve(self, life: Lifecycle, size: int) -> Effects:
        """A stream holds `size` bytes besides its messages; 0 gives them back.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            if life not in self._lives:
                return []
            if not self._budget.may_hold(life, size):
                message = f"the call takes {size} bytes of memory, which this server does not have now"
                raise refuse_busy(message)
            before, life.held = life.holdings, size
            self._budget.settle(life, before)
            return self._grant()

    def end(self, life: Lifecycle, ending: Ending, size: int = 0) -> End:
        """The end of a call is decided.

        Args:
            life: the call.
            ending: how it ends.
            size: of a unary call's answer, in bytes: room for it is kept until the call is over.
        """
        with self._lock:
            before = life.state
            life.move(_END, size=size, ending=ending)
            self._withdraw(life)  # a bug can end it while it waits: no room is to be granted to it until it is over
            if life.state is _DONE:
                return End(is_first=False, effects=self._let_go(life))  # nobody has waited for the end
            if before is not _WORKING:
                return End(is_first=life.state is not before and life.state is _ENDING, effects=[])
            # Only now the message is gone: in any other state, half of one may have been received.
            life.since = self._clock()
            self._budget.keep_answer(life, size)
            return End(is_first=True, effects=self._grant())

    def release(self, life: Lifecycle, *, gone: bool = False) -> Effects:
        """The transport is done with a call, also more than once: it gives back all that it has.

        Where a thread works on it, what that thread notes next does.

        Args:
            life: the call.
            gone: whether the caller is known to have gone before it was told how the call ends.
        """
        with self._lock:
            life.move(_OVER, ending=GONE if gone and life.state is _ENDING else None)
            return self._let_go(life) if life.state is _DONE else ()

    def sweep(self) -> Effects:
        """Time has passed: calls that make no progress, or have waited for too long, are given up."""
        with self._lock:
            now = self._clock()
            newcomers = self._receiving.newcomers
            stalled = stalls.find_stalled(self._lives, self._patience, now, newcomers, self._is_greedy)
            effects = [self._give_up(life, seconds, now) for life, seconds in stalled.items()]
            return effects + self._grant()

    def close(self) -> Effects:
        """The server stops: calls that wait for their callers, or for room, end. `Health` ends the watches."""
        with self._lock:
            resting = [life for life in self._lives if life.state in RESTS]
            for life in resting:
                life.move(Event.GIVE_UP, ending=_STOPPED)
                self._withdraw(life)
            return [Effect(Kind.DROP, life) for life in resting]

    def _is_greedy(self, address: str) -> bool:
        """Whether an address has more than its fair part of what others wait for, or of places that run short."""
        pools: tuple[Pool[Lifecycle], ...] = (self._receiving, self._working)
        return any(pool.waiting.queues and pool.is_greedy(address) for pool in pools) or (
            self._places.is_crowded and self._places.is_greedy(address)
        )

    def _give_up(self, life: Lifecycle, seconds: float, now: float) -> Effect:
        state = life.state
        refusal = stalls.refuse_waiting(seconds) if state in WAITS else stalls.refuse_stalled(seconds)
        cancels = life.ignores_refusals
        life.move(Event.GIVE_UP, ending=Ending("CANCELLED" if cancels else "RESOURCE_EXHAUSTED", str(refusal.reason)))
        life.since = now  # it has as long again to take its refusal
        self._withdraw(life)
        return Effect(Kind.DROP if cancels else Kind.GIVE_UP, life, refusal, state)

    def _ask(self, life: Lifecycle) -> Effects:
        """Has a call receive, or wait for room to."""
        life.move(_ASK)
        pool = self._receiving
        if pool.take(life.source, life.room):
            life.reading = life.room
            life.move(_READ)
            return [Effect(_START_READ, life)]
        life.stop_clock(self._clock())
        life.claim = pool.claim(life.source, life.room, life)
        return self._grant()  # who has little is not kept waiting by those who have much

    def _queue(self, life: Lifecycle, size: int) -> Effects:
        """Has a call work when there is room; until then its message takes no more than its own bytes."""
        before, life.reading = life.holdings, life.arrived_bytes
        now = self._clock()
        life.resume_clock(now)
        life.advance(now, life.arrived_bytes)
        life.stop_clock(now)
        self._budget.settle(life, before)
        if not size:
            return [Effect(Kind.START_WORK, life), *self._grant()]
        if self._working.take(life.source, size):
            return [self._begin_work(life, size), *self._grant()]
        life.claim = self._working.claim(life.source, size, life)
        return self._grant()

    def _begin_work(self, life: Lifecycle, size: int) -> Effect:
        """Grants room to work: all that the call has of messages is in that pool now."""
        before = life.holdings
        life.reading, life.reserved, life.in_working_pool = 0, size, True
        life.move(Event.ROOM)
        self._budget.change(life, before, given=size)
        return Effect(Kind.START_WORK, life)

    def _grant(self) -> list[Effect]:
        """Grants what there is room for: work first, since it gives room back in the receiving pool."""
        effects: list[Effect] = []
        while claim := self._working.grant():
            claim.owner.claim, claim.owner.since = None, self._clock()  # from now on it waits for a thread
            effects.append(self._begin_work(claim.owner, claim.size))
        while claim := self._receiving.grant():
            life = claim.owner
            life.claim, life.reading = None, life.room
            life.move(_READ)
            life.resume_clock(self._clock())
            effects.append(Effect(_START_READ, life))
        return effects

    def _let_go(self, life: Lifecycle) -> Effects:
        """Takes back all that a call has, also when it has nothing any more."""
        if life in self._lives:
            self._lives.discard(life)
            self._places.change(life.source, -1)
        if life.claim is not None:
            self._withdraw(life)
        self._budget.give_back(life)
        # Performed without the lock: what served the call may be freed by that, with all that the transport has of it.
        forget = Effect(_FORGET, life)
        if self._receiving.waiting.queues or self._working.waiting.queues:
            return [forget, *self._grant()]
        return (forget,)

    def _withdraw(self, life: Lifecycle) -> None:
        if life.claim is not None:
            life.claim.withdraw()
            life.claim = None
