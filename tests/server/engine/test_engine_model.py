"""For random events of calls that are possible, the engine decides like an oracle that counts all memory each time."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_calls import RecordedEngine, replay
from hypothesis_profiles import examples
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.results import GONE, OK, CallResult
from tensor_reshape.server.calls.sources import find_source
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.engine import CallRecord, Engine
from tensor_reshape.server.engine.lifecycle import (
    NOBODY,
    TRANSITIONS,
    Actions,
    CallHandler,
    Event,
    Lifecycle,
    State,
)
from tensor_reshape.server.engine.stall_timeouts import StallTimeouts
from tests.oracles.plain_engine import Action, PlainBusyError, PlainCall, PlainEngine

MESSAGE = 1024
PEERS = [*(f"ipv4:10.0.0.{host}:{port}" for host in (1, 1, 2, 3) for port in (1, 2, 3)), "unix:"]
SIZES = [0, 1, 10, MESSAGE // 9, MESSAGE // 6, MESSAGE // 3, MESSAGE // 3 + 1, MESSAGE]
TIMEOUTS = StallTimeouts(stall_timeout_seconds=8.0, pressure_seconds=2.0, wait_seconds=3.0)
TICK = 2.0**-20  # seconds
STEPS = 160


@dataclass(eq=False)
class Pair(CallHandler):
    """A call of the engine and of the oracle."""

    plain: PlainCall
    done: list[Action]

    def __post_init__(self) -> None:
        self.record = CallRecord(CallInfo("/a.service/Method", ()), time.monotonic())
        self.life = Lifecycle(self, "/a.service/Method", journals=(self.record,))

    def start_read(self) -> None:
        self.done.append((self.plain.number, "start_read"))

    def start_send(self) -> None:
        self.done.append((self.plain.number, "start_send"))

    def start_work(self) -> None:
        self.done.append((self.plain.number, "start_work"))

    def abort(self, rejection: LimitError) -> None:
        self.done.append((self.plain.number, f"abort {describe(rejection)}"))

    def drop(self, rejection: LimitError | None) -> None:
        self.done.append((self.plain.number, "drop" if rejection is None else f"drop {describe(rejection)}"))

    def describe(self) -> tuple[object, ...]:
        life, plain = self.life, self.plain
        have = life.state, life.since, life.holdings, life.unsent, life.unsent_bytes, life.handler is not NOBODY
        want = plain.state, plain.since, (plain.receiving, plain.processing), len(plain.unsent), sum(plain.unsent)
        assert have == (*want, plain.has_handler), plain.number
        assert (life.claim and life.claim.size) == plain.asks, plain.number
        assert life.ignores_rejections == (bool(plain.unsent) or plain.state in {State.ENDING, State.ABORTED})
        assert life.is_over == (plain.state in {State.ABANDONED, State.DONE})
        return have

    def check_record(self, notes: list[Any]) -> None:
        """Checks what an observer sees of a call that is over, or that was rejected at once."""
        changes = [
            note for note in notes if note[1] is not State.DONE and (note[1] is not note[2] or note[0] is Event.SENT)
        ]
        arrived = [size for event, _, _, size, _ in changes if event is Event.ARRIVE]
        sent = [
            size
            for event, _, after, size, _ in changes
            if event is Event.SENT or (event is Event.END and size and after is State.ENDING)
        ]
        result = None
        for event, *_, decided in changes:
            result = (decided or result or GONE) if event is Event.OVER else result or decided
        record = self.record
        have = record.request_messages, record.request_bytes, record.response_messages, record.response_bytes
        assert (*have, record.result) == (len(arrived), sum(arrived), len(sent), sum(sent), result)
        assert record.seconds.keys() == {before.name.lower() for _, before, *_ in changes}
        assert min(record.seconds.values(), default=0.0) >= 0.0
        assert sum(record.seconds.values()) <= time.monotonic() - record.began


def describe(rejection: LimitError) -> str:
    seconds = re.findall(r"\d+\.\d+", rejection.message)[0]
    assert rejection.metadata == ({"seconds": seconds} if rejection.reason is Reason.STALLED else {})
    return f"{rejection.reason} {seconds}"


class Play:
    """Random events of calls, which the engine and the oracle handle."""

    def __init__(
        self, random: Random, make_engine: Callable[["Play"], Engine], *, messages: int, max_calls: int
    ) -> None:
        self.random = random
        self.is_lawful = random.random() < 0.5  # whether a handler checks that the memory of a message suffices
        self.now, self.done = 0.0, list[Action]()
        config = Config(max_message_bytes=MESSAGE, memory_budget_bytes=100 * MESSAGE, max_calls=max_calls)
        object.__setattr__(config, "memory_budget_bytes", 2 * (messages + 1) * MESSAGE)  # less than is valid
        self.config, self.timeouts = config, TIMEOUTS
        self.engine = make_engine(self)
        self.plain = PlainEngine(config, self.timeouts)
        self.pairs: list[Pair] = []
        self.notes: list[tuple[int, Event, State, int, CallResult | None]] = []
        self.history: list[tuple[int, Event, State, State, int, CallResult | None]] = []

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        number = next(pair.plain.number for pair in self.pairs if pair.life is life)
        self.notes.append((number, event, before, size, result))
        self.history.append((number, event, before, life.state, size, result))

    def compare(self, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
        """Lets both handle an event, and compares the results, the actions, the records and the states."""
        self.plain.now = self.now
        try:
            have: object = ours()
        except LimitError as error:
            have = str(error.reason)
        try:
            want: object = theirs()
        except PlainBusyError:
            want = "SERVER_BUSY"
        assert (have, self.done) == ((None, want) if isinstance(want, list) else (want, []))
        assert self.notes == self.plain.notes
        for pair in self.pairs:
            pair.describe()
        pools = self.plain.receiving, self.plain.processing
        assert self.engine.used_bytes == sum(pool.count() for pool in pools)
        # Every claim that fits has been granted.
        assert (self.engine._receiving.grant(), self.engine._processing.grant()) == (None, None)
        assert self.engine.has_waiting_calls == any(pool.turns for pool in pools)
        running = tuple(pair.life for pair in self.pairs if pair.plain.is_running)
        assert (self.engine.list_calls(), self.engine.is_idle) == (running, not running)
        self.done.clear()
        self.notes.clear()
        self.plain.notes.clear()

    def perform(self, actions: Actions) -> None:
        self.engine.perform(actions)

    def enter(self) -> None:
        pair = Pair(PlainCall(len(self.pairs)), self.done)
        self.pairs.append(pair)
        source = find_source(self.random.choice(PEERS))
        assert self.engine.has_room(source) == self.plain.slots.fits(source, 1)
        self.compare(
            lambda: self.perform(self.engine.enter(pair.life, source)), lambda: self.plain.enter(pair.plain, source)
        )

    def sweep(self) -> None:
        self.compare(lambda: self.perform(self.engine.sweep()), self.plain.sweep)

    def sweep_at_a_bound(self) -> None:
        """Sweeps exactly when a timeout of a call ends, and a moment later."""
        since = self.random.choice([pair.life.since for pair in self.pairs])
        self.now = max(self.now, since + self.random.choice(self.plain.timeouts))
        self.sweep()
        self.now += TICK
        self.sweep()

    def step(self) -> None:
        self.now += self.random.choice((0.0, TICK, TICK, TICK, 2.0**-6, 2.0**-4))
        share = self.random.random()
        if share < 0.25 or not self.pairs:
            self.enter()
        elif share < 0.35:
            self.sweep()
        elif share < 0.36:
            self.sweep_at_a_bound()
        elif share < 0.362:
            self.compare(lambda: self.perform(self.engine.close()), self.plain.close)
        else:
            running = [pair for pair in self.pairs if pair.plain.is_running]
            self.act(self.random.choice(running if running and self.random.random() < 0.9 else self.pairs))

    def act(self, pair: Pair) -> None:
        """Lets a random event happen to a call, also one that comes late."""
        is_ending = pair.plain.state in {State.ENDING, State.ABORTED, State.DONE}
        acts: dict[Event, list[Callable[[Pair], None]]] = {
            Event.ARRIVE: [*[self.receive] * 8, self.end_at_once],
            Event.QUEUE: [self.work] * 4,
            Event.BEGIN_WORK: [self.begin_work] * 8,
            Event.RESPOND: [self.respond] * 12,
            Event.SENT: [self.send] * 4,
            Event.END: [self.end],
            Event.OVER: [self.release] * (20 if is_ending else 1),
        }
        legal = TRANSITIONS[pair.life.state].keys() - ({Event.BEGIN_WORK} if pair.plain.asks else set())
        choices = [act for event, several in acts.items() for act in several if event in legal]
        self.random.choice([*choices, self.reserve])(pair)

    def receive(self, pair: Pair) -> None:
        size = self.random.choice([*SIZES, None])
        self.compare(
            lambda: self.engine.message_received(pair.life, size), lambda: self.plain.message_received(pair.plain, size)
        )
        for fitting in SIZES:
            assert self.engine.fits(pair.life, fitting) == self.plain.fits(pair.plain, fitting)

    def work(self, pair: Pair) -> None:
        size = self.random.choice([None, None, 0, 1, MESSAGE, 5 * MESSAGE])
        self.compare(
            lambda: self.perform(self.engine.request_work(pair.life, size)),
            lambda: self.plain.request_work(pair.plain, size),
        )

    def begin_work(self, pair: Pair) -> None:
        self.compare(lambda: self.engine.begin_work(pair.life), lambda: self.plain.begin_work(pair.plain))

    def respond(self, pair: Pair) -> None:
        sizes = [self.random.choice(SIZES) for _ in range(self.random.choice((0, 1, 1, 1, 2, 4)))]
        if self.is_lawful and not pair.plain.works and not self.plain.fits(pair.plain, sum(sizes)):
            sizes = []
        moved = self.random.choice((None, 0, 1, 2**12, 2**14, 2**16))
        responses = [bytes(size) for size in sizes]
        self.compare(
            lambda: self.perform(self.engine.respond(pair.life, responses, moved)),
            lambda: self.plain.respond(pair.plain, sizes, moved),
        )
        if pair.life.state is State.SENDING:
            assert [*map(len, pair.life.outbox)][-len(sizes) :] == sizes[-len(pair.life.outbox) :] or not sizes

    def send(self, pair: Pair) -> None:
        if pair.plain.unsent or not pair.plain.is_running:
            size = self.random.choice(pair.plain.unsent or [5])
            self.compare(
                lambda: self.perform(self.engine.sent(pair.life, size)), lambda: self.plain.sent(pair.plain, size)
            )

    def reserve(self, pair: Pair) -> None:
        size = self.random.choice((0, 0, pair.plain.held, pair.plain.held + 1, 100, MESSAGE, 3 * MESSAGE, 20 * MESSAGE))
        self.compare(
            lambda: self.perform(self.engine.reserve(pair.life, size)), lambda: self.plain.reserve(pair.plain, size)
        )

    def end(self, pair: Pair, received: int | None = None) -> None:
        size, result = self.random.choice(SIZES), self.random.choice((OK, CallResult("INTERNAL", "WHY")))
        most = max(size, pair.plain.arrived if received is None else received)
        if self.is_lawful and not pair.plain.works and not self.plain.fits(pair.plain, most):
            size = 0
        first: list[bool] = []

        def end() -> None:
            if size or received is not None:
                is_first, actions = self.engine.end(pair.life, result, size, received)
            else:
                is_first, actions = self.engine.end(pair.life, result)
            first.append(is_first)
            self.perform(actions)

        def end_plainly() -> list[Action]:
            is_first, actions = self.plain.end(pair.plain, result, size, received)
            assert first == [is_first]
            return actions

        self.compare(end, end_plainly)

    def end_at_once(self, pair: Pair) -> None:
        self.end(pair, self.random.choice(SIZES))

    def release(self, pair: Pair) -> None:
        gone = self.random.random() < 0.5
        options = {"gone": True} if gone else {}
        self.compare(
            lambda: self.perform(self.engine.release(pair.life, **options)),
            lambda: self.plain.release(pair.plain, gone=gone),
        )


def make_engine(play: Play) -> Engine:
    return Engine(play.config, [play], clock=lambda: play.now, timeouts=play.timeouts)


def play(
    seed: int, make_engine: Callable[[Play], Engine] = make_engine, *, messages: int = 8, max_calls: int = 40
) -> Play:
    """Plays random events until all calls are over."""
    one = Play(Random(seed), make_engine, messages=messages, max_calls=max_calls)
    for _ in range(STEPS):
        one.step()
    for pair in one.pairs:
        if pair.life.state is State.WORKING:
            one.release(pair)
        if pair.life.state is State.ABANDONED:
            one.end(pair)
        if pair.life.state is not State.NEW or pair.plain.is_running:
            one.release(pair)
    assert (one.engine.used_bytes, one.engine.is_idle, one.engine.has_waiting_calls) == (0, True, False)
    for pair in one.pairs:
        pair.check_record([note for number, *note in one.history if number == pair.plain.number])
    return one


@pytest.mark.parametrize(("messages", "max_calls"), [(3, 40), (8, 40), (17, 40), (40, 16)])
def test_engine_decides_like_the_oracle_for_random_events(messages: int, max_calls: int):
    for seed in range(12):
        play(seed, messages=messages, max_calls=max_calls)


@examples(20)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 40))
def test_engine_decides_like_the_oracle_for_any_seed(seed: int, messages: int, max_calls: int):
    play(seed, messages=messages, max_calls=max_calls)


def test_transcript_of_an_engine_can_be_replayed():
    def make_recorded(play: Play) -> RecordedEngine:
        play.timeouts = StallTimeouts.of(play.config)
        return RecordedEngine(play.config, lambda: play.now, [play])

    one = play(1, make_recorded)
    assert isinstance(one.engine, RecordedEngine)
    assert len(one.engine.lines) > STEPS // 2
    assert replay(one.engine.lines, one.config) == one.engine.lines
