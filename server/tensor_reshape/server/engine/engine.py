"""The engine decides when a call may begin, continue or end.

It takes the events of calls and returns the actions to perform.

- The size of a message is unknown until it arrives. Before a call reads a message, it therefore reserves memory in the
  receive pool for the largest allowed message. The response to a small message that is processed at once uses this
  reservation until the transport has taken the response. Any other response, and the transport's copy of it, needs
  memory of the processing pool. Because the pools are separate, arriving messages never block the responses that would
  free memory.
- `fair_shares` divides memory and concurrency slots among clients. If calls nevertheless wait for memory, the engine
  aborts calls that make no progress (see `stall_timeouts`).
- A call that makes no progress is aborted after `stall_timeout_seconds`. While other calls wait, the stall timeout is
  shorter, but long enough for the largest message at a moderate rate. Received bytes count as progress in proportion to
  their number, so a client that sends slowly only delays the abort. The time during which a call waits for this server
  does not count towards the stall timeout.
- A call that waits too long for memory or for a thread is rejected.
- Gates check a call before the call takes a concurrency slot (see `gates`).
- When a call is over, the observers that have chosen this call get its record (see `observers`), even if the call was
  rejected. A call that no observer chooses, or that was refused before it began (see `count_refusal`), has no record.

Most methods of `Engine` handle one event. The method of an event takes the lock, changes the state of the call
(`lifecycle`), and updates the memory that the call holds. The method returns actions for this call, and for other calls
that can now continue. Each action is a method of a call's handler. After the lock is released, the thread that reported
the event performs the actions (`perform`). While the engine holds its lock, it calls no other code except the journals
and the clock. The decisions of the engine depend only on the events and their times, so a test can replay the events
(`tests/support/engine_calls.py`).
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.observers import CallLog, begin_observers, choose_observers
from tensor_reshape.server.calls.results import GONE, CallResult, EndedCall
from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.fair_shares import FairPool
from tensor_reshape.server.engine.lifecycle import (
    NOBODY,
    READ_BELOW_UNSENT,
    RESTS,
    Actions,
    Event,
    Journal,
    Lifecycle,
    State,
)
from tensor_reshape.server.engine.stall_timeouts import StallTimeouts, find_stalled, reject_busy

# These global names avoid the slow lookup of Enum members, which would double the cost of each event of a small call.
_ENTER, _REQUEST, _READ = Event.ENTER, Event.REQUEST, Event.READ
_ARRIVE, _END, _OVER = Event.ARRIVE, Event.END, Event.OVER
_WORKING, _ENDING, _DONE = State.WORKING, State.ENDING, State.DONE
_BEFORE_READS = (State.NEW, State.SENDING)

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
# The connection share of the processing pool is at least this multiple of the largest message size. A tensor with
# strides on a stream can need memory for four copies of its elements.
_LEAST_SHARE = 4


class Budget:
    """The two memory pools of a process.

    Attributes:
        read_cost: the size of the largest message in bytes.
        work_cost: the number of bytes needed to process the largest message.
        receiving: the receive pool, which has the memory for arriving messages and small responses.
        processing: the processing pool, which has the memory for larger responses.
    """

    def __init__(self, config: Config) -> None:
        """Makes two unused pools of the same size (`count_pool_bytes`)."""
        self.read_cost = config.max_message_bytes
        self.work_cost = COST_FACTOR * config.max_message_bytes
        half = count_pool_bytes(config)
        reserve = half // _RESERVED_MEMORY_PART
        self.receiving = FairPool[Lifecycle](half, reserve, min(MAX_READS * self.read_cost, half))
        self.processing = FairPool[Lifecycle](half, reserve, max(half // 2, _LEAST_SHARE * self.read_cost))

    def may_hold(self, life: Lifecycle, size: int) -> bool:
        """Whether a stream may hold `size` bytes in addition to its messages.

        If no other call uses the processing pool, the stream may hold any number of bytes.
        """
        more = size - life.held
        return more <= 0 or self.processing.used == life.held or self.processing.fits(life.source, more)

    def update(self, life: Lifecycle) -> None:
        """Updates `holdings` of a call, and the counts of the pools, after the memory of the call has changed."""
        kept = life.reserved if life.held else life.reserved + COST_FACTOR * life.unsent_bytes
        receiving, processing = life.reading + kept, life.held
        if life.in_processing_pool:
            receiving, processing = life.reading, life.held + kept
            # When a call no longer uses the processing pool, the next message of the call uses the receive pool again.
            life.in_processing_pool = kept > 0
        counted_receiving, counted_processing = life.holdings
        # Most calls use only one of the two memory pools. This method runs twice for every call, so it skips the unused
        # pool to save time.
        if receiving != counted_receiving:
            self.receiving.change(life.source, receiving - counted_receiving)
        if processing != counted_processing:
            self.processing.change(life.source, processing - counted_processing)
        life.holdings = receiving, processing


def count_pool_bytes(config: Config) -> int:
    """Returns the size in bytes of each of the two memory pools."""
    # The rest of the memory budget is for the transport. The transport delivers one message at a time, and makes two
    # copies of each message.
    return (config.memory_budget_bytes - 2 * config.max_message_bytes) // 2


class CallRecord(EndedCall):
    """The record of one call for its observers.

    As a `Journal` of the call, it collects facts from the call's events.
    """

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        """Adds an event to the record. Ignores events that do not change the state of the call, except SENT."""
        after = life.state
        if before is State.DONE or (after is before and event is not Event.SENT):
            return
        name, since = before.name.lower(), self.began + sum(self.seconds.values())
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - since
        if event is Event.ARRIVE:
            self.request_messages += 1
            self.request_bytes += size
        # For a unary call, the event END contains the size of the response. If the client has disconnected, END leads
        # to the state DONE, and no response is sent.
        elif event is Event.SENT or (event is Event.END and size and after is State.ENDING):
            self.response_messages += 1
            self.response_bytes += size
        if event is Event.OVER:
            self.result = result or self.result or GONE
        elif self.result is None:
            self.result = result


class Engine:
    """The state of all calls of one process. Any thread may use the engine.

    Attributes:
        journals: the journals that record the events of each call. If this attribute changes, the new journals record
            only calls that begin later.
        max_calls: the number of calls that may run at the same time.
        has_room: a function that returns whether a client may begin another call now.
        has_checks: whether `prepare` must run before a call is entered, because there are gates or observers.
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
            observers: the logs of calls that are over. Each observer chooses the calls that it records.
        """
        self.journals = tuple(journals)
        self.max_calls = config.max_calls
        self._budget = Budget(config)
        self._receiving, self._processing = self._budget.receiving, self._budget.processing
        self._waiting = (self._receiving.waiting.queues, self._processing.waiting.queues)
        self._timeouts = timeouts or StallTimeouts.of(config)
        self._gates = gates or Gates()
        self._observers = tuple(observers)
        self._clock = clock
        self._lock = threading.Lock()  # this lock guards changes of `_lives`, `_slots`, the pools and all states
        # the running calls, in the order in which they began
        self._lives: dict[Lifecycle, None] = {}
        self._slots = FairPool[Lifecycle](config.max_calls, config.max_calls // _RESERVED_SLOTS_PART, config.max_calls)
        self.has_room = self._slots.fits
        self.has_checks = bool(self._gates or self._observers)

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
        return self._receiving.used + self._processing.used

    def count_refusal(self, method: str) -> None:
        """Records in the journals that a call was refused before it began."""
        life = Lifecycle(NOBODY, method)
        with self._lock:
            life.journals = self.journals
            life.began = self._clock()
            life.move(_ENTER)
            life.move(_END, result=_BUSY)
            life.move(_OVER)

    def prepare(self, life: Lifecycle, metadata: Metadata, find_info: Callable[[], CallInfo]) -> None:
        """Finds the observers that record a new call. The handler calls this method before `enter`.

        Sets `life.info` if an observer or gate needs it.
        """
        observers = choose_observers(self._observers, metadata)
        if observers or self._gates:
            life.info = info = find_info()
            if observers:
                record = CallRecord(info, time.monotonic())
                life.journals = (record,)
                begin_observers(observers, record)

    def enter(self, life: Lifecycle, source: Source) -> Actions:
        """Begins a call, which reads its first message as soon as there is memory.

        Args:
            life: the call. The handler must `release` the call later, even if this method raises an error.
            source: the address and connection of the client.

        Raises:
            ReshapeError: a gate or the limit of running calls rejects the call. After this error, the handler must end
                the call.
        """
        rejection = None
        if life.info is not None:
            life.info.address = source.address
            rejection = self._gates.find_rejection(life.info)
        with self._lock:
            life.journals = self.journals + life.journals  # journals must also record a call that is rejected
            life.began = life.since = self._clock()
            life.source = source
            if rejection is None and not self._slots.take(source, 1):
                message = f"{len(self._lives)} calls are running; the limit is {self.max_calls} (--max-calls)"
                rejection = reject_busy(message)
            life.move(_ENTER)
            if rejection is None:
                self._lives[life] = None
                return self._read_if_due(life)
        try:
            raise rejection
        finally:
            # The error refers to this frame. If the frame also referred to the error, this cycle would keep the handler
            # in memory.
            del rejection

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

    def fits(self, life: Lifecycle, size: int) -> bool:
        """Whether a stream's message of `size` bytes can be processed within the memory reserved for receiving it.

        This method takes no lock, because a response that another thread sends at the same time only frees more memory.
        """
        return COST_FACTOR * (life.unsent_bytes + size) <= self._budget.read_cost

    def request_work(self, life: Lifecycle, size: int | None = None) -> Actions:
        """Queues the received message until there is memory to process it. A worker thread then calls `begin_work`.

        Args:
            life: the call.
            size: the number of bytes that the response needs. None stands for the number of bytes that the largest
                message needs. 0 means that the call has already reserved enough memory.
        """
        with self._lock:
            life.move(Event.QUEUE)
            if life.state is not State.QUEUED:
                # If the state is now DONE, the client has disconnected, and no thread works on the call any longer.
                return self._release(life) if life.state is _DONE else ()
            size = self._budget.work_cost if size is None else size
            life.reading = life.arrived_bytes  # until the work starts, the call only holds memory for its message
            now = self._clock()
            life.resume_clock(now)
            life.advance(now, life.arrived_bytes)
            life.stop_clock(now)
            self._budget.update(life)
            if not size:
                return (life.handler.start_work, *self._grant())
            if self._processing.take(life.source, size):
                return (self._start_work(life, size), *self._grant())
            life.claim = self._processing.claim(life.source, size, life)
            return self._grant()

    def begin_work(self, life: Lifecycle) -> bool:
        """Records that a thread begins to work on the call. Returns False if the call is ending and needs no work."""
        with self._lock:
            return life.move(Event.BEGIN_WORK)

    def respond(self, life: Lifecycle, responses: Sequence[bytes], moved: int | None) -> Actions:
        """Puts the next responses of a stream into its outbox. Reads the next message if the stream may receive it now.

        Args:
            life: the call.
            responses: the response messages. For each response, the method `sent` must be called later.
            moved: the number of bytes that the message has added to an unfinished tensor, or None if the tensor is
                complete.
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
            return (life.handler.start_send, *self._grant(), *self._read_if_due(life))

    def sent(self, life: Lifecycle, size: int) -> Actions:
        """Records that a stream's response of `size` bytes was sent.

        Reads the next message if the stream may receive it now.
        """
        with self._lock:
            life.move(Event.SENT, size=size)
            if life not in self._lives:
                return ()
            life.unsent -= 1
            life.unsent_bytes -= size
            life.advance(self._clock(), size)
            self._budget.update(life)
            return (*self._grant(), *self._read_if_due(life))

    def reserve(self, life: Lifecycle, size: int) -> Actions:
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

    def end(
        self, life: Lifecycle, result: CallResult, size: int = 0, received: int | None = None
    ) -> tuple[bool, Actions]:
        """Decides the result with which a call ends.

        Args:
            life: the call.
            result: the status.
            size: the size of a unary call's response in bytes. The memory of the response stays reserved until the call
                is over.
            received: the size of the message in bytes if its arrival has not been recorded yet, otherwise None. The
                receiving thread computes a small response within microseconds, and then records the arrival of the
                message and the end of the call together. The state of the call is RECEIVING until then.

        Returns:
            A pair of two values. The first value is True if this event decided the end of the call. If an earlier event
            decided the end, the response must not be sent. The second value contains the actions to perform.
        """
        with self._lock:
            if received is not None:
                if not life.move(_ARRIVE, size=received):
                    return False, ()
                life.arrived_bytes = received
            before = life.state
            has_moved = life.move(_END, size=size, result=result)
            self._withdraw(life)  # if a bug ends a call that waits for memory, the call must not get memory later
            if life.state is _DONE:
                return False, self._release(life)  # the client disconnected before this event
            if before is not _WORKING:
                return has_moved, ()
            # A WORKING call has received its whole message, so it now only needs to reserve memory for the response.
            life.since = self._clock()
            life.reading = 0
            life.reserved = COST_FACTOR * max(life.arrived_bytes, size) if size else 0
            self._budget.update(life)
            return True, self._grant()

    def release(self, life: Lifecycle, *, gone: bool = False) -> Actions:
        """Frees everything that a call holds, after the transport has finished the call.

        This method may be called more than once. If a thread still works on the call, the memory is freed when that
        thread reports its next event.

        Args:
            life: the call.
            gone: whether the client disconnected before it received the status.
        """
        with self._lock:
            life.move(_OVER, result=GONE if gone and life.state is _ENDING else None)
            return self._release(life) if life.state is _DONE else ()

    def sweep(self) -> Actions:
        """Aborts calls that have waited or made no progress for too long. The server runs this method regularly."""
        with self._lock:
            now = self._clock()
            pool = self._receiving
            starving = pool.count_starving_connections()
            stalled = find_stalled(self._lives, self._timeouts, now, pool.newcomers, starving, self._is_greedy)
            aborted = []
            for life, error in islice(stalled.items(), MAX_ABORTS):
                pool.postpone(life.source)  # other connections get the memory of this call first
                aborted.append(self._abort(life, error, now))
            return (*aborted, *self._grant())

    def close(self) -> Actions:
        """Ends the calls that wait for their client or for memory, because the server stops.

        `Health` ends the health watches.
        """
        with self._lock:
            resting = [life for life in self._lives if life.state in RESTS]
            for life in resting:
                life.move(Event.ABORT, result=_STOPPED)
                self._withdraw(life)
            return [partial(life.handler.drop, None) for life in resting]

    def perform(self, actions: Actions) -> None:
        """Performs the actions of an event, on the thread that reported the event."""
        for action in actions:
            try:
                action()
            except Exception:
                # If an action fails, the affected call makes no progress, so its stall timeout will end it. The
                # remaining actions, which belong to other calls, must still be performed.
                _LOGGER.exception("bug")

    def _is_greedy(self, address: str) -> bool:
        """Whether an address holds more than its fair share of scarce slots, or of memory that other calls wait for."""
        pools = (self._receiving, self._processing)
        return any(pool.is_greedy(address) and pool.is_waited_for for pool in pools) or (
            self._slots.is_crowded and self._slots.is_greedy(address)
        )

    def _abort(self, life: Lifecycle, rejection: LimitError, now: float) -> Callable[[], None]:
        end = life.handler.drop if life.ignores_rejections else life.handler.abort
        life.move(Event.ABORT, result=CallResult(rejection.code_name, str(rejection.reason)))
        life.since = now  # the stall timeout restarts, because the client needs time to receive the error
        self._withdraw(life)
        return partial(end, rejection)

    def _read_if_due(self, life: Lifecycle) -> Actions:
        """Lets a new call, or a stream with few unsent responses, read a message as soon as there is memory."""
        if life.state not in _BEFORE_READS or life.unsent >= READ_BELOW_UNSENT:
            return ()
        life.move(_REQUEST)
        pool = self._receiving
        if pool.take(life.source, self._budget.read_cost):
            return (self._start_read(life),)
        life.stop_clock(self._clock())
        life.claim = pool.claim(life.source, self._budget.read_cost, life)
        return self._grant()  # this call may get memory at once, because clients without memory come first

    def _start_read(self, life: Lifecycle) -> Callable[[], None]:
        """Records the memory that the receive pool has given to a call."""
        life.move(_READ)
        life.reading = self._budget.read_cost
        life.holdings = (life.holdings[0] + life.reading, life.holdings[1])
        return life.handler.start_read

    def _start_work(self, life: Lifecycle, size: int) -> Callable[[], None]:
        """Records the memory that the processing pool gave to a call.

        The pool now also counts the memory of the call's message.
        """
        life.reading, life.reserved, life.in_processing_pool = 0, size, True
        life.holdings = (life.holdings[0], life.holdings[1] + size)
        life.move(Event.GRANT)
        self._budget.update(life)
        return life.handler.start_work

    def _grant(self) -> Actions:
        """Gives memory to waiting calls.

        The processing pool comes first, because a call that gets memory from this pool frees memory of the receive
        pool.
        """
        if not any(self._waiting):  # this check saves time, because usually no call waits for memory
            return ()
        actions: list[Callable[[], None]] = []
        while claim := self._processing.grant():
            claim.owner.claim, claim.owner.since = None, self._clock()  # the call now waits for a thread
            actions.append(self._start_work(claim.owner, claim.size))
        while claim := self._receiving.grant():
            claim.owner.claim = None
            claim.owner.resume_clock(self._clock())
            actions.append(self._start_read(claim.owner))
        return actions

    def _release(self, life: Lifecycle) -> Actions:
        """Frees the concurrency slot and the memory that a call holds.

        Does nothing if the call holds no slot and no memory.
        """
        if life in self._lives:
            del self._lives[life]
            self._slots.change(life.source, -1)
        self._withdraw(life)
        life.reading = life.reserved = life.unsent = life.unsent_bytes = life.held = 0
        self._budget.update(life)
        # The HTTP/2 stream of the call stays open until Python frees the handler. When this reference is removed,
        # Python can free the handler as soon as the method that has reported the event returns.
        life.handler = NOBODY
        return self._grant() if life.info is None else (life.info.leave, *self._grant())

    def _withdraw(self, life: Lifecycle) -> None:
        """Withdraws the claim of a call that waits for memory."""
        if life.claim is not None:
            life.claim.pool.withdraw(life.claim)
            life.claim = None
