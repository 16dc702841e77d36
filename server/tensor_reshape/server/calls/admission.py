"""Who may take memory, and when: one budget for all calls of a process, in two pools.

- How large a message is, nobody knows before it has arrived. So whoever begins to receive one must have room for the
  largest, once: the receiving pool. A small one is answered within that room, which is free when the answer has been
  taken. For others the answer, and what the transport sends of it, need room of the working pool. What arrives never
  keeps what has arrived from being answered, and so from giving its room back.
- One connection takes a share of each pool, and none keeps out those that have nothing: see `accounts`. Where all room
  to receive is taken all the same, calls of the connections that have most are given up.
- A connection may have many calls, but when most places for calls are taken, only a few more.
- A call that makes no progress is given up after `stall_seconds`, and while others wait, as soon as the largest message
  has had time to arrive at a moderate pace: see `stalls`. Bytes are progress at a pace, too: a trickle only puts off
  the end. While a call waits for this server, no time passes for its caller.
- What waits for room or for a thread longer than that is refused.

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
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls import stalls
from tensor_reshape.server.calls.budgets import Budget
from tensor_reshape.server.calls.lifecycle import GONE, WAITS, Ending, Event, Lifecycle, State
from tensor_reshape.server.calls.observers import Observer, ObserverJournal
from tensor_reshape.server.calls.resets import ResetBuckets
from tensor_reshape.server.config import COST_FACTOR, Config

CROWDED_CALLS = 8
"""How many calls a connection may have when most places are taken."""

_Actions = list[Callable[[], None]]
_LOGGER = logging.getLogger(__name__)


class Admission:
    """The budget of one process; safe to use from any thread. `resets` is told how calls end by what serves them."""

    def __init__(self, config: Config, observers: Sequence[Observer] = ()) -> None:
        """Starts with the whole budget; `observers` see every call."""
        self.resets = ResetBuckets(config.max_resets_per_second)
        self._budget = Budget(config)
        self._max_calls = config.max_calls
        self._crowd = config.max_calls - config.max_calls // 4
        self._patience = stalls.Patience.of(config)
        self._journal = ObserverJournal(observers) if observers else None
        self._lock = threading.Lock()  # guards all that follows, and every call that has been entered
        self._threads = 0  # that calls may hold while they wait for a message
        self._are_threads_short: Callable[[], bool] = bool  # until `limit_threads`: never
        self._paused: dict[str, list[Lifecycle]] = {}  # calls that wait, by connection: see `do_if_idle`
        self._lives: set[Lifecycle] = set()  # the calls that have been entered and are not over
        self._calls: Counter[str] = Counter()  # how many of these each connection has; none without a name

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return not self._lives

    @property
    def used_bytes(self) -> int:
        """What is set aside for all calls now."""
        return self._budget.used_bytes

    def enter(self, life: Lifecycle, peer: str = "") -> None:
        """Admits a call; without a `peer`, `identify` follows. Whoever enters a call releases it in the end.

        Raises:
            LimitError: SERVER_BUSY. The call has no place then, and is to be ended and released all the same.
        """
        life.journal = self._journal  # also that of a call which is refused at once
        with self._lock:
            life.since, life.peer = time.monotonic(), peer
            life.move(Event.ENTER)
            refusal = self._admit(life)
        self._follow(())
        if refusal is not None:
            raise refusal

    def identify(self, life: Lifecycle, peer: str) -> None:
        """Names the connection of a call that has entered without.

        Raises:
            LimitError: SERVER_BUSY. The call has lost its place.
        """
        with self._lock:
            refusal = None
            if life in self._lives:
                self._lives.discard(life)  # until it is known that it may stay
                life.peer = peer
                refusal = self._admit(life)
        if refusal is not None:
            raise refusal

    def request_read(self, life: Lifecycle) -> None:
        """Lets a call receive its first message, now or when there is room. `answer` and `sent` do so for the next."""
        with self._lock:
            paused = self._paused.get(life.peer)
            if paused is None or life.state is not State.NEW:
                actions = self._ask(life)
            else:
                actions = []
                paused.append(life)
        self._follow(actions)

    def message_received(self, life: Lifecycle, size: int | None) -> bool:
        """Notes that a message has arrived, None for the end of the caller's side; False: the call ends already.

        The call works from now on. What it holds stays as it is: room for the largest message.
        """
        with self._lock:
            event = Event.HALF_CLOSE if size is None else Event.ARRIVE
            works = life.move(event, size or 0)
            if works:
                life.arrived_bytes = size or 0
                life.stop_clock(time.monotonic())
        self._follow(())
        return works

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
            elif life.state is State.DONE:
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
            elif life.state is State.DONE:
                actions = self._let_go(life)
        self._follow(actions)

    def sent(self, life: Lifecycle, size: int) -> None:
        """Notes that an answer of that size has gone, and asks for the next message if that was due."""
        with self._lock:
            life.move(Event.SENT, size)
            actions: _Actions = []
            if life in self._lives:
                before = life.holdings
                life.unsent -= 1
                life.unsent_bytes -= size
                life.advance(time.monotonic(), size)
                actions = [*self._budget.settle(life, before), *self._ask(life)]
        self._follow(actions)

    def reserve(self, life: Lifecycle, size: int) -> None:
        """Has a stream hold `size` bytes besides its messages; 0 gives them back.

        Raises:
            LimitError: SERVER_BUSY.
        """
        with self._lock:
            if life not in self._lives:
                return
            if not self._budget.may_hold(life, size):
                message = f"the call takes {size} bytes of memory, which this server does not have now"
                raise stalls.refuse_busy(message)
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
            before, holdings = life.state, life.holdings
            life.move(Event.END, size, ending)
            ends = life.state is State.ENDING and before is not State.ENDING
            self._withdraw(life)  # a bug can end it while it waits: no room is to be granted to it until it is over
            actions: _Actions = []
            if life.state is State.DONE:
                actions = self._let_go(life)  # nobody has waited for the end
            elif before is State.WORKING:
                # Only then the message is gone: in any other state, half of one may have been received.
                life.reading, life.reserved = 0, COST_FACTOR * max(life.arrived_bytes, size) if size else 0
                life.since = time.monotonic()
                actions = self._budget.settle(life, holdings)
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
            life.move(Event.OVER, 0, GONE if gone and life.state is State.ENDING else None)
            actions = self._let_go(life) if life.state is State.DONE else []
        self._follow(actions)

    def do_if_idle(self, peer: str, action: Callable[[], bool]) -> None:
        """Does `action` when a connection has no call; call this again where it has some.

        So that there is such a moment, calls that begin meanwhile wait for their message until `action` says that it
        has been done, or until `resume`. The action is called with the lock: no call can begin to receive meanwhile.
        """
        with self._lock:
            paused = self._paused.setdefault(peer, [])
            if self._calls[peer] > len(paused) or not action():
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
        self._threads, self._are_threads_short = count, are_short

    def sweep(self) -> None:
        """Gives up calls that make no progress, or have waited for too long."""
        with self._lock:
            now = time.monotonic()
            actions = [self._give_up(life, seconds, now) for life, seconds in self._find_stalled(now).items()]
        self._follow(actions)

    def _find_stalled(self, now: float) -> dict[Lifecycle, float]:
        """Returns the calls to be given up, and after how many seconds without progress."""
        short = self._are_threads_short()
        pressed = short or self._budget.is_short or len(self._lives) >= self._crowd
        general = self._patience.pressure_seconds if pressed else self._patience.stall_seconds
        crowded = stalls.find_crowded(self._calls, self._threads) if short else ()
        find_limit = stalls.choose_limits(self._lives, general, self._patience.pressure_seconds, crowded)
        victims = stalls.choose_victims(self._lives, self._budget.receiving.newcomers, now - stalls.SHORT_SECONDS)
        return dict.fromkeys(victims, stalls.SHORT_SECONDS) | {
            life: limit
            for life in self._lives
            if not life.may_stand_still and life.since < now - (limit := find_limit(life))
        }

    def _give_up(self, life: Lifecycle, seconds: float, now: float) -> Callable[[], None]:
        state = life.state
        refusal = stalls.refuse_waiting(seconds) if state in WAITS else stalls.refuse_stalled(seconds)
        cancels = life.ignores_refusals
        life.move(Event.GIVE_UP, 0, Ending("CANCELLED" if cancels else "RESOURCE_EXHAUSTED", str(refusal.reason)))
        life.since = now  # it has as long again to take its refusal
        self._withdraw(life)
        return life.served.cancel if cancels else partial(life.served.give_up, refusal, state)

    def _admit(self, life: Lifecycle) -> LimitError | None:
        """Counts a call, which may have no name yet, or returns why not."""
        count = len(self._lives)
        if count >= self._max_calls:
            return stalls.refuse_busy(f"{count} calls are under way, as many as this server takes")
        if life.peer and count >= self._crowd and self._calls[life.peer] >= CROWDED_CALLS:
            return stalls.refuse_busy(f"{count} calls are under way; a connection may have {CROWDED_CALLS} of them now")
        self._lives.add(life)
        if life.peer:
            self._calls[life.peer] += 1
        return None

    def _forget_call_of(self, peer: str) -> None:
        self._calls[peer] -= 1
        if self._calls[peer] <= 0:  # also of the call without a name, which has not been counted
            del self._calls[peer]

    def _ask(self, life: Lifecycle) -> _Actions:
        """Has a call receive, or wait for room to, if it is time for that."""
        if not life.may_ask:
            return []
        life.move(Event.ASK)
        pool, size = self._budget.receiving, self._budget.read_cost
        if pool.take(life.peer, size):
            return [self._begin_read(life)]
        life.stop_clock(time.monotonic())
        life.claim = pool.claim(life.peer, size, partial(self._begin_read, life))
        return []

    def _begin_read(self, life: Lifecycle) -> Callable[[], None]:
        """Grants room to receive."""
        life.reading = self._budget.read_cost
        life.move(Event.READ)
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
        if life in self._lives:
            self._lives.discard(life)
            self._forget_call_of(life.peer)
        self._withdraw(life)
        if life in self._paused.get(life.peer, ()):
            self._paused[life.peer].remove(life)
        before = life.holdings
        life.reading = life.reserved = life.unsent = life.unsent_bytes = life.held = 0
        # Without the lock: what served the call may be freed by that, with all that grpcio has of it.
        return [life.forget, *self._budget.settle(life, before)]

    def _withdraw(self, life: Lifecycle) -> None:
        if life.claim is not None:
            life.claim.withdraw()
            life.claim = None

    def _follow(self, actions: Iterable[Callable[[], None]]) -> None:
        """Does what follows from a move; called without the lock."""
        if self._journal is not None:
            self._journal.deliver()
        for act in actions:
            try:
                act()
            except Exception:
                _LOGGER.exception("bug")  # of one call, which stalls; the others are not to blame
