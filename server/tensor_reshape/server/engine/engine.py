"""Admission control: the engine takes events of calls and returns effects as data.

- The size of a message is unknown until it arrives. Before a call reads a message, it therefore reserves memory for the
  largest allowed message in the receive pool. A small response uses the reservation of its request until the transport
  has taken the response. A larger response and the transport's copy of it need memory of the processing pool. Because
  the pools are separate, arriving messages never block the responses that would free memory.
- `fair_shares` divides memory and concurrency slots among clients. If the receive pool is still full, the engine aborts
  calls that make no progress (see `stall_timeouts`).
- A call that makes no progress is aborted after `stall_timeout_seconds`. While other calls wait, the stall timeout is
  only the time in which the largest message arrives at a moderate rate (see `stall_timeouts`). Received bytes count as
  progress in proportion to their number, so a client that sends slowly only delays the abort. The time during which a
  call waits for this server does not count towards the stall timeout.
- A call that waits too long for memory or for a thread is rejected.
- Gates check a call before the call takes a concurrency slot (see `gates`).

Most methods of `Engine` handle one event. Such a method takes the lock, changes the state of the call (`lifecycle`),
and updates the memory that the call holds. It returns effects, which describe actions for this call and for other calls
that can now continue. After the lock is released, the thread that reported the event carries out the actions
(`perform`). While the engine holds its lock, it calls no other code except the journals and the clock. The decisions of
the engine depend only on the events and their times, so a test can replay the events (`tests/support/engine_calls.py`).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.results import GONE, OK, CallLog, CallResult
from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.fair_shares import FairPool
from tensor_reshape.server.engine.lifecycle import (
    READ_BELOW_UNSENT,
    RESTS,
    Effect,
    EffectKind,
    Effects,
    EndDecision,
    Event,
    Journal,
    Lifecycle,
    State,
)
from tensor_reshape.server.engine.observers import CallRecord, attempt
from tensor_reshape.server.engine.stall_timeouts import StallTimeouts, find_stalled, reject_busy

# These global names avoid the slow lookup of Enum members, which would double the cost of each event of a small call.
_ENTER, _REQUEST, _READ = Event.ENTER, Event.REQUEST, Event.READ
_ARRIVE, _END, _OVER = Event.ARRIVE, Event.END, Event.OVER
_WORKING, _ENDING, _DONE = State.WORKING, State.ENDING, State.DONE
_START_READ, _START_SEND, _START_WORK = EffectKind.START_READ, EffectKind.START_SEND, EffectKind.START_WORK
_ABORT, _FORGET = EffectKind.ABORT, EffectKind.FORGET

_LOGGER = logging.getLogger(__name__)
_STOPPED = CallResult("UNAVAILABLE")
_BUSY = CallResult("RESOURCE_EXHAUSTED", str(Reason.SERVER_BUSY))

MAX_ABORTS = 32
"""The number of calls that one sweep aborts, because thousands of aborts would delay other calls."""

MAX_READS = 16
"""The number of messages that a connection may receive at the same time. Further messages wait for memory.

A connection of a proxy carries calls of several client addresses. The limit applies to each client address separately.
"""

_RESERVED_SLOTS_PART = 8  # one eighth of the concurrency slots is reserved for client addresses that have few calls
_RESERVED_MEMORY_PART = 4  # a quarter of each memory pool is reserved for client addresses that hold little memory
# The smallest connection share in the processing pool, as a multiple of the largest message size. A tensor with strides
# on a stream can need memory for four copies of its elements.
_LEAST_SHARE = 4


class Budget:
    """The two memory pools of a process.

    Attributes:
        read_cost: the size of the largest message in bytes.
        work_cost: the number of bytes needed to process the largest message.
        receiving: the receive pool, which has the memory for arriving messages and small responses.
        working: the processing pool, which has the memory for larger responses.
    """

    def __init__(self, config: Config) -> None:
        """Starts with two empty pools. Each pool has half of the budget."""
        self.read_cost = config.max_message_bytes
        self.work_cost = COST_FACTOR * config.max_message_bytes
        half = count_pool_bytes(config)
        reserve = half // _RESERVED_MEMORY_PART
        self.receiving = FairPool[Lifecycle](half, reserve, min(MAX_READS * self.read_cost, half))
        self.working = FairPool[Lifecycle](half, reserve, max(half // 2, _LEAST_SHARE * self.read_cost))

    @property
    def used_bytes(self) -> int:
        """The number of bytes that are currently reserved for all calls together."""
        return self.receiving.used + self.working.used

    def may_hold(self, life: Lifecycle, size: int) -> bool:
        """Whether a stream may hold `size` bytes in addition to its messages.

        If no other call uses the processing pool, the stream may hold any number of bytes.
        """
        more = size - life.held
        return more <= 0 or self.working.used == life.held or self.working.fits(life.source, more)

    def update(self, life: Lifecycle) -> None:
        """Updates the counts of the pools after the holdings of a call have changed."""
        receiving, working = life.holdings
        counted_receiving, counted_working = life.counted
        # Most calls use only one of the two memory pools. This method runs twice for every call, so it skips the unused
        # pool to save time.
        if receiving != counted_receiving:
            self.receiving.change(life.source, receiving - counted_receiving)
        if working != counted_working:
            self.working.change(life.source, working - counted_working)
        life.counted = receiving, working
        # When a call no longer uses the processing pool, the next message of the call uses the receive pool again.
        if life.in_working_pool:
            life.in_working_pool = working > life.held

    def keep_response(self, life: Lifecycle, size: int) -> None:
        """Frees the memory that is reserved for a request, and reserves memory for its response of `size` bytes."""
        life.reading = 0
        life.reserved = COST_FACTOR * max(life.arrived_bytes, size) if size else 0
        self.update(life)

    def return_all(self, life: Lifecycle) -> None:
        """Frees all memory that a call holds. Does nothing if the call holds no memory."""
        life.reading = life.reserved = life.unsent = life.unsent_bytes = life.held = 0
        self.update(life)


def count_pool_bytes(config: Config) -> int:
    """Returns the size in bytes of each of the two memory pools."""
    # The rest of the memory budget is for the transport. The transport delivers one message at a time, and makes two
    # copies of each message.
    return (config.memory_budget_bytes - 2 * config.max_message_bytes) // 2


class Engine:
    """The state of all calls of one process. Any thread may use the engine.

    Attributes:
        journals: the journals that record the events of each call. A change affects only calls that begin later.
        max_calls: the number of calls that may run at the same time.
    """

    def __init__(
        self,
        config: Config,
        journals: Sequence[Journal] = (),
        gates: Gates | None = None,
        clock: Callable[[], float] = time.monotonic,
        timeouts: StallTimeouts | None = None,
        observers: Sequence[CallLog] = (),
    ) -> None:
        """Starts without calls and with the whole memory budget free.

        Args:
            config: the limits of the server.
            journals: the journals that record the events of each call.
            gates: the gates that check each call. Default: no gates.
            clock: a function that returns the current time in seconds.
            timeouts: the timeouts of calls without progress. By default, the timeouts follow from `config`.
            observers: the logs of calls that are over, which choose the calls that they record.
        """
        self.journals = tuple(journals)
        self.max_calls = config.max_calls
        self._budget = Budget(config)
        self._receiving, self._working = self._budget.receiving, self._budget.working
        self._waiting = (self._receiving.waiting.queues, self._working.waiting.queues)
        self._timeouts = timeouts or StallTimeouts.of(config)
        self._gates = gates or Gates()
        self._has_gates = bool(self._gates)  # each call reads it, and a method would take longer
        self._observers = tuple(observers)
        self._ended: deque[CallRecord] = deque()  # the records of calls that the observers do not have yet
        self._clock = clock
        self._lock = threading.Lock()  # this lock guards changes of `_lives`, `_slots`, the pools and all states
        self._lives: set[Lifecycle] = set()  # the calls that have begun and have not ended
        self._slots = FairPool[Lifecycle](config.max_calls, config.max_calls // _RESERVED_SLOTS_PART, config.max_calls)

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
        """The number of bytes that are currently reserved for all calls together."""
        return self._budget.used_bytes

    def has_room(self, source: Source) -> bool:
        """Whether a client may begin another call now."""
        return self._slots.fits(source, 1)

    def count_refusal(self, method: str) -> None:
        """Records in the journals that a call was refused before it began."""
        life = Lifecycle(None, method)
        with self._lock:
            life.journals = self.journals
            life.began = self._clock()
            life.move(_ENTER)
            life.move(_END, result=_BUSY)
            life.move(_OVER)

    def prepare(self, life: Lifecycle, metadata: Metadata, find_info: Callable[[], CallInfo]) -> None:
        """Lets observers choose a new call, before `enter`. Sets `life.info` if an observer or a gate needs it."""
        observers = tuple([one for one in self._observers if attempt(one.chooses, metadata)]) if self._observers else ()
        if observers or self._has_gates:
            life.info = info = find_info()
            info.observers = observers
            for observer in observers:
                attempt(observer.begin, info)

    def enter(self, life: Lifecycle, source: Source) -> Effects:
        """Begins a call, which reads its first message as soon as there is memory.

        Args:
            life: the call. The handler must `release` the call later, even if this method raises an error.
            source: the address and connection of the client.

        Raises:
            ReshapeError: a gate or the limit of running calls rejects the call. The handler must then end the call.
        """
        rejection, journals = None, self.journals
        if life.info is not None:
            life.info.address = source.address
            rejection = self._gates.find_rejection(life.info)
            if life.info.observers:
                journals = (*journals, CallRecord(life.info, self._ended.append))
        with self._lock:
            life.journals = journals  # journals must also record a call that is rejected
            life.began = life.since = self._clock()
            life.source = source
            if rejection is None and not self._slots.take(source, 1):
                message = f"{len(self._lives)} calls are running; the limit is {self.max_calls} (--max-calls)"
                rejection = reject_busy(message)
            life.move(_ENTER)
            if rejection is None:
                self._lives.add(life)
                return self._request_read(life)
        raise rejection

    def message_received(self, life: Lifecycle, size: int | None) -> bool:
        """Records that a message of `size` bytes has arrived, or that the client half-closed the call (`size` is None).

        Returns False if the call is already ending. Otherwise the call becomes WORKING and keeps its reserved memory.
        """
        with self._lock:
            if not life.move(Event.HALF_CLOSE if size is None else _ARRIVE, size=size or 0):
                return False
            life.arrived_bytes = size or 0
            life.stop_clock(self._clock())
            return True

    def respond_at_once(self, life: Lifecycle, received: int, size: int) -> Effects | None:
        """Records in one step that a message has arrived (`message_received`) and that its response is ready (`end`).

        During processing the call is RECEIVING, because the receiving thread computes the response within microseconds.

        Returns:
            the effects, or None if an earlier event decided the end of the call and there is nothing to send.
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
        """Whether a stream's message of `size` bytes can be processed within the memory reserved for receiving it.

        This method takes no lock, because a response that another thread sends at the same time only frees more memory.
        """
        return COST_FACTOR * (life.unsent_bytes + size) <= self._budget.read_cost

    def request_work(self, life: Lifecycle, size: int | None = None) -> Effects:
        """Queues the received message until memory for the message is free. A worker thread then calls `begin_work`.

        Args:
            life: the call.
            size: the number of bytes that the response needs. None means as many bytes as for the largest message. 0
                means that the memory that the call has already reserved is enough.
        """
        with self._lock:
            life.move(Event.QUEUE)
            if life.state is State.QUEUED:
                return self._queue(life, self._budget.work_cost if size is None else size)
            # If the state is now DONE, the client has disconnected, and no thread works on the call any longer.
            return self._release(life) if life.state is _DONE else ()

    def begin_work(self, life: Lifecycle) -> bool:
        """Records that a thread begins to work on the call. Returns False if the call is ending and needs no work."""
        with self._lock:
            return life.move(Event.BEGIN_WORK)

    def respond(self, life: Lifecycle, responses: Sequence[bytes], moved: int | None) -> Effects:
        """Adds the responses to a stream's message to the outbox, and reads the next message if that is allowed.

        Args:
            life: the call.
            responses: the response messages. For each response, the method `sent` must be called later.
            moved: the bytes that the message has added to an unfinished tensor, or None if the tensor is complete.
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
            return (Effect(_START_SEND, life), *self._grant(), *self._read_if_due(life))

    def sent(self, life: Lifecycle, size: int) -> Effects:
        """Records that a stream's response of `size` bytes was sent, and reads the next message if that is now due."""
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
        """Reserves `size` bytes for a stream in addition to its messages. 0 frees this reservation.

        Raises:
            LimitError: the reason is SERVER_BUSY.
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
            size: the size of a unary call's response in bytes. Its memory stays reserved until the call is over.
        """
        with self._lock:
            before = life.state
            has_moved = life.move(_END, size=size, result=result)
            self._withdraw(life)  # if a bug ends a call that waits for memory, the call must not get the memory later
            if life.state is _DONE:
                return EndDecision(is_first=False, effects=self._release(life))  # the client had disconnected before
            if before is not _WORKING:
                return EndDecision(is_first=has_moved, effects=())
            # A WORKING call has received its whole message, so it now only needs to reserve memory for the response.
            life.since = self._clock()
            self._budget.keep_response(life, size)
            return EndDecision(is_first=True, effects=self._grant())

    def release(self, life: Lifecycle, *, gone: bool = False) -> Effects:
        """Frees everything that a call holds after the transport has finished it. This method may be called repeatedly.

        If a thread still works on the call, the memory is freed when that thread reports its next event.

        Args:
            life: the call.
            gone: whether the client disconnected before it received the status.
        """
        with self._lock:
            life.move(_OVER, result=GONE if gone and life.state is _ENDING else None)
            return self._release(life) if life.state is _DONE else ()

    def sweep(self) -> Effects:
        """Aborts calls that have waited or made no progress for too long. The server runs this method regularly."""
        with self._lock:
            now = self._clock()
            pool = self._receiving
            starving = pool.count_starving_connections()
            stalled = find_stalled(self._lives, self._timeouts, now, pool.newcomers, starving, self._is_greedy)
            aborted = []
            for life, error in islice(stalled.items(), MAX_ABORTS):
                pool.postpone(life.source)  # so that clients that wait get the memory of the call, not its own client
                aborted.append(self._abort(life, error, now))
            return (*aborted, *self._grant())

    def close(self) -> Effects:
        """Ends the calls that wait for clients or memory, because the server stops. `Health` ends health watches."""
        with self._lock:
            resting = [life for life in self._lives if life.state in RESTS]
            for life in resting:
                life.move(Event.ABORT, result=_STOPPED)
                self._withdraw(life)
            return [Effect(EffectKind.DROP, life) for life in resting]

    def perform(self, effects: Effects) -> None:
        """Performs the effects of an event, on the thread that reported the event. Writes records of calls before.

        After the effect FORGET of a call, further effects for this call are skipped.
        """
        while self._ended:
            try:
                record = self._ended.popleft()
            except IndexError:  # another thread has taken the record
                break
            for observer in record.info.observers:
                attempt(observer.write, record)
        for kind, life, rejection in effects:
            call = life.served
            try:
                if kind is _FORGET:
                    life.forget()
                elif call is None:
                    continue
                elif kind is _START_READ:
                    call.start_read()
                elif kind is _START_SEND:
                    call.start_send()
                elif kind is _START_WORK:
                    call.start_work()
                elif kind is _ABORT and rejection is not None:
                    call.abort(rejection)
                else:
                    call.drop(rejection)
            except Exception:
                # If performing an effect fails, the affected call makes no progress, so its stall timeout will end it.
                # The remaining effects, which are actions for other calls, must still be performed.
                _LOGGER.exception("bug")

    def _is_greedy(self, address: str) -> bool:
        """Whether an address holds more than its fair share of memory that other calls wait for, or of scarce slots."""
        pools = (self._receiving, self._working)
        return any(pool.is_greedy(address) and pool.is_waited_for for pool in pools) or (
            self._slots.is_crowded and self._slots.is_greedy(address)
        )

    def _abort(self, life: Lifecycle, rejection: LimitError, now: float) -> Effect:
        cancels = life.ignores_rejections
        life.move(Event.ABORT, result=CallResult(rejection.code_name, str(rejection.reason)))
        life.since = now  # the stall timeout restarts, because the client needs time to receive the error
        self._withdraw(life)
        return Effect(EffectKind.DROP if cancels else _ABORT, life, rejection)

    def _read_if_due(self, life: Lifecycle) -> Effects:
        """Reads the next message of a stream that has few unsent responses."""
        is_due = life.state is State.SENDING and life.unsent < READ_BELOW_UNSENT
        return self._request_read(life) if is_due else ()

    def _request_read(self, life: Lifecycle) -> Effects:
        """Lets a call read its next message as soon as there is memory."""
        life.move(_REQUEST)
        pool = self._receiving
        if pool.take(life.source, self._budget.read_cost):
            life.move(_READ)
            return (self._start_read(life),)
        life.stop_clock(self._clock())
        life.claim = pool.claim(life.source, self._budget.read_cost, life)
        return self._grant()  # the call may get memory at once, because clients without memory come first

    def _start_read(self, life: Lifecycle) -> Effect:
        """Records the memory that the receive pool has given to a call."""
        life.reading = self._budget.read_cost
        life.counted = (life.counted[0] + life.reading, life.counted[1])
        return Effect(_START_READ, life)

    def _queue(self, life: Lifecycle, size: int) -> Effects:
        """Starts the work on a message when there is memory. Until then the call only holds memory for its message."""
        life.reading = life.arrived_bytes
        now = self._clock()
        life.resume_clock(now)
        life.advance(now, life.arrived_bytes)
        life.stop_clock(now)
        self._budget.update(life)
        if not size:
            return (Effect(_START_WORK, life), *self._grant())
        if self._working.take(life.source, size):
            return (self._start_work(life, size), *self._grant())
        life.claim = self._working.claim(life.source, size, life)
        return self._grant()

    def _start_work(self, life: Lifecycle, size: int) -> Effect:
        """Records the memory that the processing pool gave to a call. This pool now also counts the call's messages."""
        life.reading, life.reserved, life.in_working_pool = 0, size, True
        life.counted = (life.counted[0], life.counted[1] + size)
        life.move(Event.GRANT)
        self._budget.update(life)
        return Effect(_START_WORK, life)

    def _grant(self) -> Effects:
        """Gives memory to waiting calls. The processing pool comes first, because its work frees the receive pool."""
        if not any(self._waiting):  # this check saves time, because usually no call waits for memory
            return ()
        effects: list[Effect] = []
        while claim := self._working.grant():
            claim.owner.claim, claim.owner.since = None, self._clock()  # the call now waits for a thread
            effects.append(self._start_work(claim.owner, claim.size))
        while claim := self._receiving.grant():
            life = claim.owner
            life.claim = None
            life.move(_READ)
            life.resume_clock(self._clock())
            effects.append(self._start_read(life))
        return effects

    def _release(self, life: Lifecycle) -> Effects:
        """Frees the concurrency slot and the memory that a call holds. Does nothing if the call holds neither."""
        if life in self._lives:
            self._lives.discard(life)
            self._slots.change(life.source, -1)
        self._withdraw(life)
        self._budget.return_all(life)
        # FORGET frees handler and transport objects. It is an effect, because the engine's lock must not be held
        # meantime.
        return (Effect(_FORGET, life), *self._grant())

    def _withdraw(self, life: Lifecycle) -> None:
        if life.claim is not None:
            life.claim.pool.withdraw(life.claim)
            life.claim = None
