"""Who may take memory, and when: one budget for all calls of a process, in two pools.

- How large a message is, nobody knows before it has arrived. So whoever begins to receive one must have room for the
  largest, once: the receiving pool. A small one is answered within that room, which is free when the answer has been
  taken. For others the answer, and what the transport sends of it, need room of the working pool. What arrives never
  keeps what has arrived from being answered, and so from giving its room back.
- One connection takes a share of each pool, and none keeps out those that have nothing: see `accounts`. Where all room
  to receive is taken all the same, calls of the connections that have most are given up.
- A connection may have many calls, but when most places for calls are taken, only a few more: see `places`.
- A call that makes no progress is given up after `stall_seconds`, and while others wait, as soon as the largest message
  has had time to arrive at a moderate pace: see `stalls`. Bytes are progress at a pace, too: a trickle only puts off
  the end. While a call waits for this server, no time passes for its caller.
- What waits for room or for a thread longer than that is refused.
- Gates are asked before a call takes a place, or a name where it has its place without: see `gates`.

A method that notes an event of a call takes the lock once, moves that call (`lifecycle`), settles what it holds, and
moves the calls that have room because of that. `sweep` moves many calls so; `do_if_idle` and `resume` move one after
another, and take the lock for each. What follows for all of them (`ServedCall`) is done without the lock, on the thread
that called. So whoever holds a lock of a call's own may call any method. Under this lock nothing is called but what
`do_if_idle` and `limit_threads` are given, which must neither block nor call a method of this class, and what notes
moves for observers. All clients of one unix socket have one name, so they are one connection.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

from tensor_reshape.server.calls import stalls
from tensor_reshape.server.calls.budgets import Budget
from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.lifecycle import GONE, WAITS, Ending, Event, Journal, Lifecycle, State
from tensor_reshape.server.calls.observers import Observer, ObserverJournal
from tensor_reshape.server.calls.places import Places, refuse_busy
from tensor_reshape.server.calls.resets import ResetBuckets
from tensor_reshape.server.calls.statuses import OK
from tensor_reshape.server.config import COST_FACTOR, Config

_Actions = list[Callable[[], None]]
_LOGGER = logging.getLogger(__name__)

# What every small call comes by: to look up a member of an Enum costs as much as to move the call.
_ENTER, _ASK, _READ, _ARRIVE, _END, _OVER = Event.ENTER, Event.ASK, Event.READ, Event.ARRIVE, Event.END, Event.OVER
_NEW, _WORKING, _ENDING, _DONE = State.NEW, State.WORKING, State.ENDING, State.DONE


class Admission:
    """The budget of one process; safe to use from any thread. `resets` is told how calls end by what serves them."""

    def __init__(self, config: Config, observers: Sequence[Observer] = (), gates: Gates | None = None) -> None:
        """Starts with the whole budget; `observers` see every call, `gates` are asked for each."""
        self.resets = ResetBuckets(config.max_resets_per_second)
        self._budget = Budget(config)
        self._stalls = stalls.Stalls(config)
        self._observers = ObserverJournal(observers) if observers else None
        self.journal: Journal | None = self._observers  # in which calls that begin note their moves
        self._gates = gates or Gates()
        self.wants_heads = bool(observers or self._gates)  # of calls: somebody looks at them
        self._lock = threading.Lock()  # guards all that follows, and every call that has been entered
        self._paused: dict[str, list[Lifecycle]] = {}  # calls that wait, by connection: see `do_if_idle`
        self._places = Places(config.max_calls)  # of the calls that have been entered and are not over

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return not self._places.lives

    @property
    def used_bytes(self) -> int:
        """What is set aside for all calls now."""
        return self._budget.used_bytes

    def enter(self, life: Lifecycle, peer: str | None = None, *, asks: bool = False) -> None:
        """Admits a call; without a `peer`, `identify` follows. Whoever enters a call releases it in the end.

        Args:
            life: the call.
            peer: the name of its connection; None: it is not known yet, and no gate is asked.
            asks: whether it receives its message as soon as there is room: `request_read` in the same step.

        Raises:
            ReshapeError: a gate's, or SERVER_BUSY. The call has no place then; it is to be ended and released as ever.
        """
        actions: _Actions = []
        refusal = self._gates.find_refusal(life.head) if peer is not None and life.head is not None else None
        with self._lock:
            life.journal = self.journal  # also that of a call which is refused at once
            life.began, life.peer = time.monotonic(), peer or ""
            life.since = life.began
            life.move(_ENTER)
            refusal = self._places.take(life) if refusal is None else refusal
            if asks and refusal is None:
                actions = self._ask_first(life) if self._paused else self._ask(life)
        self._follow(actions)
        if refusal is not None:
            raise refusal

    def identify(self, life: Lifecycle, peer: str) -> None:
        """Names the connection of a call that has entered without, also of one that was refused a place.

        Raises:
            ReshapeError: a gate's refusal, or SERVER_BUSY. The call has lost its place.
        """
        refusal = None if life.head is None else self._gates.find_refusal(life.head)
        with self._lock:
            if life in self._places.lives:
                self._places.give_back(life)  # until it is known that it may stay
                life.peer = peer
                refusal = self._places.take(life) if refusal is None else refusal
        if life.state is _DONE:  # read without the lock: one that is over later tells the gates itself
            life.forget()
        if refusal is not None:
            raise refusal

    def request_read(self, life: Lifecycle) -> None:
        """Lets a call receive its first message, now or when there is room. `answer` and `sent` do so for the next."""
        with self._lock:
            actions = self._ask_first(life)
        self._follow(actions)

    def message_received(self, life: Lifecycle, size: int | None) -> bool:
        """Notes that a message has arrived, None for the end of the caller's side; False: the call ends already.

        The call works from now on. What it holds stays as it is: room for the largest message.
        """
        with self._lock:
            works = life.move(Event.HALF_CLOSE if size is None else _ARRIVE, size or 0)
            if works:
                life.arrived_bytes = size or 0
                life.stop_clock(time.monotonic())
        self._follow(())
        return works

    def answer_at_once(self, life: Lifecycle, received: int, size: int) -> bool:
        """Does what `message_received` and a good `end` do, in one step, for a message that is answered by then.

        So the call is RECEIVING until its answer is known: for the moment that the thread which received it needs.
        """
        actions: _Actions = []
        with self._lock:
            ends = life.move(_ARRIVE, received)
            if ends:
                life.arrived_bytes = received
                life.move(_END, size, OK)
                life.since = time.monotonic()
                actions = self._budget.keep_answer(life, size)
        self._follow(actions)
        return ends

    def fits(self, life: Lifecycle, size: int) -> bool:
        """Whether a stream's message of that size is answered within the room in which it came.

        Read without the lock: answers that are sent meanwhile only leave more of that room.
        """
        return COST_FACTOR * (life.unsent_bytes + size) <= self._budget.read_cost

    def request_work(self, life: Lifecycle, size: int | None = None) -> None:
        """Has the message that was received wait for room, and then for a thread; `take_up` follows.

        Args:
            life: the call.
            size: the bytes that come of the message; None: of the largest one. With 0 there is room already: what comes
                of it is within what the call has reserved.
        """
        with self._lock:
            life.move(Event.QUEUE)
            actions: _Actions = []
            if life.state is State.QUEUED:
                actions = self._queue(life, self._budget.work_cost if size is None else size)
            elif life.state is _DONE:
                actions = self._let_go(life)  # the thread that worked on it has found that nobody waits any more
        self._follow(actions)

    def take_up(self, life: Lifecycle) -> bool:
        """Notes that a thread begins to answer; False: the call ends already, and there is nothing to do."""
        with self._lock:
            works = life.move(Event.TAKE_UP)
        self._follow(())
        return works

    def answer(self, life: Lifecycle, answers: Sequence[bytes], moved: int | None) -> None:
        """Notes that a stream's message is answered, and asks for the next one if it may.

        Args:
            life: the call.
            answers: go to its outbox; `sent` follows for each.
            moved: how many bytes of progress that was; None: as much as there can be.
        """
        size = sum(map(len, answers))
        with self._lock:
            life.move(Event.ANSWER, size)
            actions: _Actions = []
            if life.state is State.SENDING:
                now, before = time.monotonic(), life.holdings
                life.resume_clock(now)
                life.advance(now, moved)
                life.reading = life.reserved = 0
                life.outbox.extend(answers)
                life.unsent += len(answers)
                life.unsent_bytes += size
                actions = [
                    life.served.start_send,
                    *self._budget.settle(life, before),
                    *(self._ask(life) if life.may_ask else ()),
                ]
            elif life.state is _DONE:
                actions = self._let_go(life)
        self._follow(actions)

    def sent(self, life: Lifecycle, size: int) -> None:
        """Notes that an answer of that size has gone, and asks for the next message if that was due."""
        with self._lock:
            life.move(Event.SENT, size)
            actions: _Actions = []
            if life in self._places.lives:
                before = life.holdings
                life.unsent -= 1
                life.unsent_bytes -= size
                life.advance(time.monotonic(), size)
                actions = [*self._budget.settle(life, before), *(self._ask(life) if life.may_ask else ())]
        self._follow(actions)

    def reserve(self, life: Lifecycle, size: int) -> None:
        """Has a stream hold `size` bytes besides its messages; 0 gives them back.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            if life not in self._places.lives:
                return
            if not self._budget.may_hold(life, size):
                message = f"the call takes {size} bytes of memory, which this server does not have now"
                raise refuse_busy(message)
            before, life.held = life.holdings, size
            actions = self._budget.settle(life, before)
        self._follow(actions)

    def end(self, life: Lifecycle, ending: Ending, size: int = 0) -> bool:
        """Notes that the end of a call is decided; False: it was already, and there is nothing to send.

        Args:
            life: the call.
            ending: how it ends.
            size: of a unary call's answer, in bytes: room for it is kept until the call is over.
        """
        with self._lock:
            ends, actions = self._end(life, ending, size)
        self._follow(actions)
        return ends

    def release(self, life: Lifecycle, *, gone: bool = False) -> None:
        """Notes that gRPC is done with a call, also more than once: it gives back all that it has.

        Where a thread works on it, what that thread notes next does.

        Args:
            life: the call.
            gone: whether the caller is known to have gone before it was told how the call ends.
        """
        with self._lock:
            life.move(_OVER, 0, GONE if gone and life.state is _ENDING else None)
            actions = self._let_go(life) if life.state is _DONE else []
        self._follow(actions)

    def do_if_idle(self, peer: str, action: Callable[[], bool]) -> None:
        """Does `action` when a connection has no call; call this again where it has some.

        So that there is such a moment, calls that begin meanwhile wait for their message until `action` says that it
        has been done, or until `resume`. The action is called with the lock: no call can begin to receive meanwhile.
        """
        with self._lock:
            paused = self._paused.setdefault(peer, [])
            if self._places.calls[peer] > len(paused) or not action():
                return
            del self._paused[peer]
        for life in paused:
            self.request_read(life)

    def resume(self) -> None:
        """Has all calls that have waited for an action receive their messages."""
        with self._lock:
            waiting, self._paused = list(self._paused.values()), {}
        for life in chain.from_iterable(waiting):
            self.request_read(life)

    def limit_threads(self, count: int, are_short: Callable[[], bool]) -> None:
        """Notes that a call which waits for its message holds one of `count` threads, and how to ask for a lack."""
        self._stalls.limit_threads(count, are_short)

    def sweep(self) -> None:
        """Gives up calls that make no progress, or have waited for too long."""
        with self._lock:
            now = time.monotonic()
            stalled = self._stalls.find(now, self._budget, self._places)
            actions = [self._give_up(life, seconds, now) for life, seconds in stalled.items()]
        self._follow(actions)

    def _give_up(self, life: Lifecycle, seconds: float, now: float) -> Callable[[], None]:
        state = life.state
        refusal = stalls.refuse_waiting(seconds) if state in WAITS else stalls.refuse_stalled(seconds)
        cancels = life.ignores_refusals
        life.move(Event.GIVE_UP, 0, Ending("CANCELLED" if cancels else "RESOURCE_EXHAUSTED", str(refusal.reason)))
        life.since = now  # it has as long again to take its refusal
        self._withdraw(life)
        return partial(life.served.drop, refusal) if cancels else partial(life.served.give_up, refusal, state)

    def _ask_first(self, life: Lifecycle) -> _Actions:
        """Has a call receive its first message, unless its connection is to be idle first."""
        if life.state is not _NEW:
            return []
        if self._paused and life.peer in self._paused:
            self._paused[life.peer].append(life)
            return []
        return self._ask(life)

    def _end(self, life: Lifecycle, ending: Ending, size: int) -> tuple[bool, _Actions]:
        """Ends a call; returns whether that is to be sent, and what follows."""
        before = life.state
        life.move(_END, size, ending)
        self._withdraw(life)  # a bug can end it while it waits: no room is to be granted to it until it is over
        if life.state is _DONE:
            return False, self._let_go(life)  # nobody has waited for the end
        if before is not _WORKING:
            return life.state is not before and life.state is _ENDING, []
        # Only now the message is gone: in any other state, half of one may have been received.
        life.since = time.monotonic()
        return True, self._budget.keep_answer(life, size)

    def _ask(self, life: Lifecycle) -> _Actions:
        """Has a call receive, or wait for room to."""
        life.move(_ASK)
        pool, size = self._budget.receiving, self._budget.read_cost
        if pool.take(life.peer, size):
            return [self._begin_read(life)]
        life.stop_clock(time.monotonic())
        life.claim = pool.claim(life.peer, size, partial(self._begin_read, life))
        return []

    def _begin_read(self, life: Lifecycle) -> Callable[[], None]:
        """Grants room to receive."""
        life.reading = self._budget.read_cost
        life.move(_READ)
        if life.claim is not None:
            life.claim = None
            life.resume_clock(time.monotonic())
        return life.served.start_read

    def _queue(self, life: Lifecycle, size: int) -> _Actions:
        """Has a call work when there is room; until then its message takes no more than its own bytes."""
        before, life.reading = life.holdings, life.arrived_bytes
        now = time.monotonic()
        life.resume_clock(now)
        life.advance(now, life.arrived_bytes)
        life.stop_clock(now)
        actions = self._budget.settle(life, before)
        if not size:
            return [*actions, life.served.start_work]
        if self._budget.working.take(life.peer, size):
            return [*actions, self._begin_work(life, size), *self._budget.grant()]  # room to receive was given back
        life.claim = self._budget.working.claim(life.peer, size, partial(self._begin_work, life, size))
        return actions

    def _begin_work(self, life: Lifecycle, size: int) -> Callable[[], None]:
        """Grants room to work: all that the call has of messages is in that pool now."""
        before = life.holdings
        life.reading, life.reserved, life.in_working_pool = 0, size, True
        life.move(Event.ROOM)
        self._budget.change(life, before, given=size)
        if life.claim is not None:
            life.claim, life.since = None, time.monotonic()  # from now on it waits for a thread
        return life.served.start_work

    def _let_go(self, life: Lifecycle) -> _Actions:
        """Takes back all that a call has, also when it has nothing any more."""
        self._places.give_back(life)
        self._withdraw(life)
        if self._paused and life in self._paused.get(life.peer, ()):
            self._paused[life.peer].remove(life)
        # Without the lock: what served the call may be freed by that, with all that grpcio has of it.
        return [life.forget, *self._budget.give_back(life)]

    def _withdraw(self, life: Lifecycle) -> None:
        if life.claim is not None:
            life.claim.withdraw()
            life.claim = None

    def _follow(self, actions: Iterable[Callable[[], None]]) -> None:
        """Does what follows from a move; called without the lock."""
        if self._observers is not None:
            self._observers.deliver()
        for act in actions:
            try:
                act()
            except Exception:
                _LOGGER.exception("bug")  # of one call, which stalls; the others are not to blame
