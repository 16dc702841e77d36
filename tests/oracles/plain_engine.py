"""Oracle for the engine. It counts all memory after each event, and keeps its queues in plain lists.

The states that follow events, and the timeouts, are those of the product, which `test_lifecycle` and
`test_stall_timeouts` test.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls.results import GONE, CallResult
from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.lifecycle import TRANSITIONS, Event, State
from tensor_reshape.server.engine.stall_timeouts import StallTimeouts

_NOBODY = Source("", "")
_TRICKLE = 16 * 1024  # bytes per second
_SHORT_SECONDS = 0.05
_FACTOR = 3  # the bytes that a response needs for each of its bytes
_MAX_UNSENT = 3
_MAX_ABORTS = 32
_SILENT = (State.RECEIVING, State.SENDING, State.ENDING)
_WAITS = (State.NEW, State.WAITING, State.QUEUED)

Action = tuple[int, str]
"""The number of a call and an action of its handler, with the reason and the seconds of a rejection."""


class PlainBusyError(Exception):
    """The engine rejects an event because it is busy."""


@dataclass(eq=False)
class PlainCall:
    """A call, with the memory that it holds for a message, for its response, and for a tensor."""

    number: int
    source: Source = _NOBODY
    state: State = State.NEW
    is_running: bool = False
    has_handler: bool = True
    since: float = 0.0
    stalled: float = 0.0
    arrived: int = 0
    reading: int = 0
    reserved: int = 0
    held: int = 0
    unsent: list[int] = field(default_factory=list)
    works: bool = False  # whether its messages and responses belong to the processing pool
    asks: int | None = None  # the bytes for which it waits

    @property
    def kept(self) -> int:
        return self.reserved + (0 if self.held else _FACTOR * sum(self.unsent))

    @property
    def receiving(self) -> int:
        return self.reading + (0 if self.works else self.kept)

    @property
    def processing(self) -> int:
        return self.held + (self.kept if self.works else 0)


class PlainPool:
    """A pool that asks each running call what it holds. Each waiting call has its place in the lists of turns."""

    def __init__(
        self, limit: int, reserve: int, share: int, list_holdings: Callable[[], list[tuple[Source, int]]]
    ) -> None:
        self._limit, self._reserve, self._share = limit, reserve, share
        self._list_holdings = list_holdings
        self.turns: list[tuple[str, list[tuple[Source, list[PlainCall]]]]] = []
        self._new: list[str] = []  # addresses that wait and hold nothing, in the order in which they began to

    def count(self, matches: Callable[[Source], bool] = lambda _: True) -> int:
        return sum(size for source, size in self._list_holdings() if matches(source))

    def count_connection(self, source: Source) -> int:
        return self.count(lambda other: other == source)

    def count_address(self, address: str) -> int:
        return self.count(lambda other: other.address == address)

    @property
    def fair_share(self) -> int:
        return self._limit // (1 + len({source.address for source, size in self._list_holdings() if size}))

    @property
    def is_full(self) -> bool:
        """Whether only the reserve, or a part of it, is free."""
        return self.count() >= self._limit - self._reserve

    def is_greedy(self, address: str) -> bool:
        return self.count_address(address) > self.fair_share

    def exceeds_share(self, source: Source, size: int) -> bool:
        has = self.count_connection(source)
        return has > 0 and has + size > self._share and not source.connection.startswith("unix")

    def fits(self, source: Source, size: int) -> bool:
        used, has = self.count(), self.count_address(source.address)
        if not used:
            return True
        if self.exceeds_share(source, size):
            return False
        most = self._limit - self._reserve
        if not self.count_connection(source):
            most = self._limit - self._reserve // 2
        if not has or has + size <= self.fair_share:
            most = self._limit
        return used + size <= most

    def list_first(self, address: str) -> list[PlainCall]:
        """Returns the next waiting call of each connection of an address, in the order of their turns."""
        return next(([calls[0] for _, calls in sources] for name, sources in self.turns if name == address), [])

    def is_waited_for(self) -> bool:
        """Whether a call waits whose connection may have more."""
        firsts = [call for address, _ in self.turns for call in self.list_first(address)]
        return any(not self.exceeds_share(call.source, call.asks or 0) for call in firsts)

    def may_take(self, source: Source, size: int) -> bool:
        return not self.is_waited_for() and self.fits(source, size)

    def find_sources(self, source: Source) -> list[tuple[Source, list[PlainCall]]]:
        return next((sources for address, sources in self.turns if address == source.address), [])

    def push(self, call: PlainCall, size: int) -> None:
        call.asks = size
        if not self.find_sources(call.source):
            self.turns.append((call.source.address, []))
        sources = self.find_sources(call.source)
        if call.source not in [source for source, _ in sources]:
            sources.append((call.source, []))
        next(calls for source, calls in sources if source == call.source).append(call)

    def remove(self, call: PlainCall) -> None:
        call.asks = None
        for _, sources in self.turns:
            for _, calls in sources:
                if call in calls:
                    calls.remove(call)
            sources[:] = [(source, calls) for source, calls in sources if calls]
        self.turns[:] = [(address, sources) for address, sources in self.turns if sources]

    def postpone(self, source: Source) -> None:
        """Gives a connection the last turn of its address."""
        self.find_sources(source).sort(key=lambda pair: pair[0] == source)

    def update_new(self) -> None:
        """Updates the order of the addresses that wait and hold nothing, after a change of what calls hold."""
        now = [address for address, _ in self.turns if not self.count_address(address)]
        self._new = [address for address in self._new if address in now]
        self._new += [address for address in now if address not in self._new]

    @property
    def newcomers(self) -> int:
        return len(self._new)

    def count_starving(self, address: str) -> int:
        return sum(not self.count_connection(call.source) for call in self.list_first(address))

    def choose(self) -> PlainCall | None:
        """Returns the call that gets its memory next."""
        for address in self._new or [address for address, _ in self.turns]:
            firsts = self.list_first(address)
            chosen = [call for call in firsts if not self.count_connection(call.source)] or [
                call for call in firsts if not self.exceeds_share(call.source, call.asks or 0)
            ]
            if chosen and self.fits(chosen[0].source, chosen[0].asks or 0):
                return chosen[0]
        return None

    def serve(self, call: PlainCall) -> None:
        """Ends the wait of a call, whose connection and address then get the last turn."""
        source, sources = call.source, self.find_sources(call.source)
        self.postpone(source)
        self.turns.sort(key=lambda pair: pair[1] is sources)
        self.remove(call)


class PlainEngine:
    """The rules of the engine. Its methods have the names and the results of the engine's methods."""

    def __init__(self, config: Config, timeouts: StallTimeouts) -> None:
        self.now = 0.0
        self.timeouts = timeouts
        self.notes: list[tuple[int, Event, State, int, CallResult | None]] = []  # what a journal records
        self.message = config.max_message_bytes
        self.calls: list[PlainCall] = []  # the running calls
        half = (config.memory_budget_bytes - 2 * self.message) // 2
        most = config.max_calls
        self.receiving = PlainPool(
            half,
            half // 4,
            min(16 * self.message, half),
            lambda: [(call.source, call.receiving) for call in self.calls],
        )
        self.processing = PlainPool(
            half,
            half // 4,
            max(half // 2, 4 * self.message),
            lambda: [(call.source, call.processing) for call in self.calls],
        )
        self.slots = PlainPool(most, most // 8, most, lambda: [(call.source, 1) for call in self.calls])

    def enter(self, call: PlainCall, source: Source) -> list[Action]:
        call.source, call.since = source, self.now
        is_rejected = not self.slots.fits(source, 1)
        self._move(call, Event.ENTER)
        if is_rejected:
            raise PlainBusyError
        call.is_running = True
        self.calls.append(call)
        return self._read_if_due(call)

    def message_received(self, call: PlainCall, size: int | None) -> bool:
        if not self._move(call, Event.HALF_CLOSE if size is None else Event.ARRIVE, size or 0):
            return False
        call.arrived, call.stalled, call.since = size or 0, self.now - call.since, self.now
        return True

    def fits(self, call: PlainCall, size: int) -> bool:
        return _FACTOR * (sum(call.unsent) + size) <= self.message

    def request_work(self, call: PlainCall, size: int | None) -> list[Action]:
        self._move(call, Event.QUEUE)
        if call.state is not State.QUEUED:
            return self._free_if_done(call)
        size = _FACTOR * self.message if size is None else size
        call.reading = call.arrived
        call.stalled, call.since = max(0.0, call.stalled - call.arrived / _TRICKLE), self.now
        self._settle(call)
        if not size:
            return [(call.number, "start_work"), *self._grant()]
        if self.processing.may_take(call.source, size):
            return [self._start_work(call, size), *self._grant()]
        self._wait(call, self.processing, size)
        return self._grant()

    def begin_work(self, call: PlainCall) -> bool:
        return self._move(call, Event.BEGIN_WORK)

    def respond(self, call: PlainCall, sizes: Sequence[int], moved: int | None) -> list[Action]:
        self._move(call, Event.RESPOND, sum(sizes))
        if call.state is not State.SENDING:
            return self._free_if_done(call)
        call.since = self.now - call.stalled
        self._advance(call, moved)
        call.reading = call.reserved = 0
        call.unsent.extend(sizes)
        self._settle(call)
        return [(call.number, "start_send"), *self._grant(), *self._read_if_due(call)]

    def sent(self, call: PlainCall, size: int) -> list[Action]:
        self._move(call, Event.SENT, size)
        if not call.is_running:
            return []
        call.unsent.remove(size)
        self._advance(call, size)
        self._settle(call)
        return [*self._grant(), *self._read_if_due(call)]

    def reserve(self, call: PlainCall, size: int) -> list[Action]:
        if not call.is_running:
            return []
        more, used = size - call.held, self.processing.count()
        if more > 0 and used != call.held and not self.processing.fits(call.source, more):
            raise PlainBusyError
        call.held = size
        self._settle(call)
        return self._grant()

    def end(self, call: PlainCall, result: CallResult, size: int, received: int | None) -> tuple[bool, list[Action]]:
        if received is not None:
            if not self._move(call, Event.ARRIVE, received):
                return False, []
            call.arrived = received
        before = call.state
        has_moved = self._move(call, Event.END, size, result)
        self._stop_waiting(call)
        if call.state is State.DONE:
            return False, self._free_if_done(call)
        if before is not State.WORKING:
            return has_moved, []
        call.since, call.reading = self.now, 0
        call.reserved = _FACTOR * max(call.arrived, size) if size else 0
        self._settle(call)
        return True, self._grant()

    def release(self, call: PlainCall, *, gone: bool) -> list[Action]:
        self._move(call, Event.OVER, 0, GONE if gone and call.state is State.ENDING else None)
        return self._free_if_done(call)

    def sweep(self) -> list[Action]:
        actions = []
        for call, reason, seconds in list(self._list_stalled())[:_MAX_ABORTS]:
            self.receiving.postpone(call.source)
            way = "drop" if call.unsent or call.state in {State.ENDING, State.ABORTED} else "abort"
            self._move(call, Event.ABORT, 0, CallResult("RESOURCE_EXHAUSTED", str(reason)))
            call.since = self.now
            self._stop_waiting(call)
            actions.append((call.number, f"{way} {reason} {seconds}"))
        return [*actions, *self._grant()]

    def close(self) -> list[Action]:
        resting = [
            call for call in self.calls if call.state in {State.WAITING, State.RECEIVING, State.QUEUED, State.SENDING}
        ]
        for call in resting:
            self._move(call, Event.ABORT, 0, CallResult("UNAVAILABLE"))
            self._stop_waiting(call)
        return [(call.number, "drop") for call in resting]

    def _move(self, call: PlainCall, event: Event, size: int = 0, result: CallResult | None = None) -> bool:
        before, call.state = call.state, TRANSITIONS[call.state][event]
        self.notes.append((call.number, event, before, size, result))
        return call.state is not before

    def _advance(self, call: PlainCall, moved: int | None) -> None:
        call.since = self.now if moved is None else min(self.now, call.since + moved / _TRICKLE)

    def _settle(self, call: PlainCall) -> None:
        """Lets the next message of a call use the receive pool again, if the call no longer holds any for messages."""
        call.works = call.works and call.kept > 0
        self.receiving.update_new()
        self.processing.update_new()

    def _read_if_due(self, call: PlainCall) -> list[Action]:
        if call.state not in {State.NEW, State.SENDING} or len(call.unsent) >= _MAX_UNSENT:
            return []
        self._move(call, Event.REQUEST)
        if self.receiving.may_take(call.source, self.message):
            return [self._start_read(call)]
        call.stalled, call.since = self.now - call.since, self.now
        self._wait(call, self.receiving, self.message)
        return self._grant()

    def _start_read(self, call: PlainCall) -> Action:
        self._move(call, Event.READ)
        call.reading = self.message
        self.receiving.update_new()
        return call.number, "start_read"

    def _start_work(self, call: PlainCall, size: int) -> Action:
        call.reading, call.reserved, call.works = 0, size, True
        self._move(call, Event.GRANT)
        self._settle(call)
        return call.number, "start_work"

    def _grant(self) -> list[Action]:
        actions = []
        while call := self.processing.choose():
            size = call.asks or 0
            self.processing.serve(call)
            call.since = self.now
            actions.append(self._start_work(call, size))
        while call := self.receiving.choose():
            self.receiving.serve(call)
            call.since = self.now - call.stalled
            actions.append(self._start_read(call))
        return actions

    def _wait(self, call: PlainCall, pool: PlainPool, size: int) -> None:
        pool.push(call, size)
        pool.update_new()

    def _stop_waiting(self, call: PlainCall) -> None:
        for pool in (self.receiving, self.processing):
            pool.remove(call)
            pool.update_new()

    def _free_if_done(self, call: PlainCall) -> list[Action]:
        if call.state is not State.DONE:
            return []
        if call.is_running:
            self.calls.remove(call)
        call.is_running = call.has_handler = False
        self._stop_waiting(call)
        call.reading = call.reserved = call.held = 0
        call.unsent.clear()
        self._settle(call)
        return self._grant()

    def _is_pressed(self, address: str) -> bool:
        """Whether an address waits, or holds too much of something that others wait for."""
        pools = (self.receiving, self.processing)
        return (
            any(call.asks and call.source.address == address for call in self.calls)
            or any(pool.is_greedy(address) and pool.is_waited_for() for pool in pools)
            or (self.slots.is_full and self.slots.is_greedy(address))
        )

    def _list_stalled(self) -> Iterator[tuple[PlainCall, Reason, float]]:
        silent = [call for call in self.calls if call.state in _SILENT and call.receiving]
        silent.sort(key=lambda call: call.since)
        crowded = {call.source for call in self.calls if call.asks}  # connections that wait
        newest = {call.source: call for call in silent}
        spare = [call for call in silent if call.source in crowded or newest[call.source] is not call]
        chosen = list(
            dict.fromkeys([*self._choose_for_addresses(silent, spare), *self._choose_for_connections(silent, spare)])
        )
        yield from ((call, Reason.SERVER_BUSY, _SHORT_SECONDS) for call in chosen)
        waiting = {source.address for source in crowded}
        patient = {call.source.address for call in spare if self._is_short(call)} if len(waiting) < 2 else set()
        for call in sorted(self.calls, key=lambda call: call.since):
            address = call.source.address
            limit, is_busy = self.timeouts.stall_timeout_seconds, call.state in _WAITS
            if self._is_pressed(address) and not (address in patient and call in silent and call not in spare):
                limit = self.timeouts.wait_seconds if is_busy else self.timeouts.pressure_seconds
            is_overdue = call.since < self.now - limit and call.state not in {State.WORKING, State.ABANDONED}
            if is_overdue and call not in chosen:
                is_busy = is_busy or limit < self.timeouts.stall_timeout_seconds
                yield call, Reason.SERVER_BUSY if is_busy else Reason.STALLED, limit

    def _is_short(self, call: PlainCall) -> bool:
        return call.since < self.now - _SHORT_SECONDS

    def _choose_for_addresses(self, silent: list[PlainCall], spare: list[PlainCall]) -> list[PlainCall]:
        """Returns a call for each address that holds nothing, of the addresses with the most silent calls."""
        chosen: list[PlainCall] = []
        counts: dict[str, int] = {}
        for call in silent:
            counts[call.source.address] = counts.get(call.source.address, 0) + 1
        for address in sorted(counts, key=lambda address: -counts[address]):
            if len(chosen) < self.receiving.newcomers:
                own = [call for call in silent if call.source.address == address and self._is_short(call)]
                own.sort(key=lambda call: call not in spare)
                chosen += own[: counts[address] - 1]
        return chosen[: self.receiving.newcomers]

    def _choose_for_connections(self, silent: list[PlainCall], spare: list[PlainCall]) -> list[PlainCall]:
        """Returns a call of the same address for each connection that holds nothing."""
        chosen: list[PlainCall] = []
        for address, _ in self.receiving.turns:
            own = [call for call in spare if call.source.address == address and self._is_short(call)]
            own.sort(key=lambda call: -sum(other.source == call.source for other in silent))
            chosen += own[: self.receiving.count_starving(address)]
        return chosen
