"""The engine without a server: memory of calls and its limits, waiting and rejected calls, actions, and observers."""

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from engine_calls import MESSAGE, METHOD, PEER, WORK, Caller, call_all, make, name_peer
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError, UnauthenticatedError
from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.results import GONE, OK, CallResult, EndedCall
from tensor_reshape.server.calls.sources import Source, find_source
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.engine import Budget, Engine
from tensor_reshape.server.engine.lifecycle import NOBODY, READ_BELOW_UNSENT, Event, Journal, Lifecycle, State

OTHER, THIRD = name_peer(2), name_peer(3)
BUDGET = 82 * MESSAGE
HALF = (BUDGET - 2 * MESSAGE) // 2
SOURCE, OTHER_SOURCE = Source("a", "a1"), Source("b", "b1")
BEGINS = [Event.ENTER, Event.REQUEST, Event.READ]


def test_call_waits_for_memory_until_another_call_ends():
    engine = make(1)
    first, second = call_all(engine, range(2))
    assert (second.reads, second.waits, second.life.state) == (0, True, State.WAITING)
    first.leave()
    assert (second.reads, second.waits, second.life.state) == (1, False, State.RECEIVING)


def test_engine_reports_whether_calls_wait_for_memory():
    engine = make(1)
    first, _ = call_all(engine, range(2))
    assert engine.has_waiting_calls
    first.leave()
    assert not engine.has_waiting_calls


def make_config(max_calls: int = 1024) -> Config:
    return Config(max_message_bytes=MESSAGE, memory_budget_bytes=BUDGET, max_calls=max_calls)


def respond_at_once(caller: Caller) -> None:
    is_first, actions = caller.engine.end(caller.life, OK, 8, received=10)
    assert is_first
    caller.perform(actions)


@pytest.mark.parametrize("answer", [respond_at_once, lambda caller: caller.arrive(10).end(8)], ids=["one step", "two"])
def test_small_response_uses_the_memory_reserved_for_its_request(answer: Callable[[Caller], None]):
    engine = make(1)
    first, second = call_all(engine, range(2))
    answer(first)
    assert (second.reads, engine.used_bytes, first.life.state) == (0, COST_FACTOR * 10, State.ENDING)
    first.leave()
    assert (second.reads, engine.used_bytes) == (1, MESSAGE)


def test_unread_responses_stay_within_the_reserved_memory():
    engine = make(10)
    streams = [Caller(engine, name_peer(number % 5)) for number in range(100)]
    for _ in range(5):
        for stream in streams:
            if stream.life.state is State.RECEIVING:
                stream.arrive(MESSAGE // 7)
                assert engine.fits(stream.life, MESSAGE // 7) == (stream.life.unsent < 2)
                stream.respond(MESSAGE // 7) if engine.fits(stream.life, MESSAGE // 7) else stream.work()
    assert engine.used_bytes <= 10 * MESSAGE


def test_arriving_messages_do_not_delay_responses_of_other_calls():
    engine = make(4)
    arrived, *silent = call_all(engine, range(10))
    arrived.arrive()
    assert (sum(caller.reads for caller in silent), arrived.work().works) == (3, 1)
    assert sum(caller.reads for caller in silent) == 4  # the memory of its message now belongs to its response


def test_call_without_extra_memory_needs_waits_only_for_a_thread():
    engine = make(4)
    Caller(engine, OTHER).arrive().work()
    caller = Caller(engine).arrive(10).work(0)
    assert (caller.works, engine.used_bytes) == (1, WORK + 10)


@pytest.mark.parametrize("go", [Caller.leave, Caller.end])
def test_call_cancelled_while_waiting_to_read_gets_no_memory(go: Callable[[Caller], object]):
    engine = make(1)
    first, second, third = call_all(engine, range(3))
    go(second)
    first.leave()
    assert (second.reads, third.reads, engine.used_bytes) == (0, 1, MESSAGE)


def test_call_ended_while_queued_gets_no_memory():
    engine = make(4)
    first, second = (caller.arrive().work() for caller in call_all(engine, range(2)))
    second.end()
    first.leave()
    assert (second.works, engine.used_bytes) == (0, MESSAGE)
    second.leave()
    assert engine.used_bytes == 0


def test_call_engine_accepts_only_the_first_end_of_a_call():
    engine = make(1)
    caller = Caller(engine).arrive()
    assert [engine.end(caller.life, OK, 5)[0] for _ in range(2)] == [True, False]
    assert engine.end(caller.life, OK, 5, received=5) == (False, ())


def test_ended_call_starts_no_work():
    engine = make(2)
    caller, queued = Caller(engine).end(), Caller(engine, OTHER).arrive().work()
    queued.end()
    assert not engine.message_received(caller.life, 5)
    assert not engine.begin_work(queued.life)


def test_memory_reservation_above_the_pool_is_rejected():
    engine = make(4)
    other, caller = call_all(engine, range(2))
    other.reserve(10)
    caller.reserve(100)
    with pytest.raises(LimitError) as caught:
        caller.reserve(4 * MESSAGE)
    assert (caught.value.reason, engine.used_bytes) == (Reason.SERVER_BUSY, 2 * MESSAGE + 110)


def test_finished_call_holds_no_memory():
    engine = make(2)
    caller = Caller(engine)
    caller.leave()
    caller.arrive().work().begin_work().respond(10).sent(10).reserve(10).end(10)
    assert (caller.reads, caller.works, engine.used_bytes, engine.is_idle) == (1, 0, 0, True)


@pytest.mark.parametrize("tell", [lambda caller: caller.end(10), lambda caller: caller.respond(10), Caller.work])
def test_abandoned_call_frees_memory_when_its_thread_ends(tell: Callable[[Caller], object]):
    engine = make(4)
    caller = Caller(engine).arrive().work().begin_work()
    caller.leave()
    assert (engine.used_bytes, engine.is_idle) == (WORK, False)
    tell(caller)
    assert (engine.used_bytes, engine.is_idle) == (0, True)


def test_stream_responses_are_sent_in_order():
    stream = Caller(make(8)).arrive(3).respond(1, 2).arrive(4).respond(4)
    assert (stream.sends, [len(answer) for answer in stream.life.outbox]) == (2, [1, 2, 4])


def test_stream_with_unsent_responses_reads_no_further_message():
    stream = Caller(make(8))
    for _ in range(READ_BELOW_UNSENT):
        stream.arrive(1).respond(1)
    assert (stream.life.state, stream.reads) == (State.SENDING, READ_BELOW_UNSENT)
    stream.sent(1)
    assert (stream.life.state, stream.reads) == (State.RECEIVING, READ_BELOW_UNSENT + 1)


def test_error_of_a_rejected_call_is_freed_without_the_garbage_collector():
    engine = make(4, max_calls=1)
    Caller(engine)
    life = Lifecycle(NOBODY, METHOD)
    gc.disable()
    try:
        with pytest.raises(LimitError) as caught:
            engine.enter(life, find_source(OTHER))
        error = weakref.ref(caught.value)
        del caught
        assert error() is None
    finally:
        gc.enable()


def test_call_above_max_calls_is_rejected_until_one_ends():
    engine = make(100, max_calls=2)
    first, _ = call_all(engine, range(2))
    rejected = Lifecycle(first, METHOD)
    with pytest.raises(LimitError) as caught:
        engine.enter(rejected, find_source(THIRD))
    assert caught.value.reason == Reason.SERVER_BUSY
    engine.end(rejected, OK)
    engine.release(rejected)
    with pytest.raises(LimitError):
        Caller(engine, THIRD)
    first.leave()
    assert Caller(engine, THIRD).reads == 1


def test_one_connection_may_use_seven_eighths_of_max_calls():
    engine = make(100, max_calls=64)
    for _ in range(56):
        Caller(engine, name_peer(1))
    with pytest.raises(LimitError):
        Caller(engine, name_peer(1))
    for port in range(4):
        Caller(engine, name_peer(1, 2 + port))
    with pytest.raises(LimitError):
        Caller(engine, name_peer(1, 9))
    assert [Caller(engine, name_peer(2)).reads for _ in range(4)] == [1] * 4


def test_connection_above_its_memory_share_does_not_block_other_calls():
    engine = make(16)
    Caller(engine, OTHER).arrive().work(13 * MESSAGE // 2)
    working, waiting, growing = (Caller(engine, PEER) for _ in range(3))
    working.arrive().work()
    waiting.arrive().work()
    growing.reserve(2 * MESSAGE + 100)  # together with the waiting memory, more than half of the pool
    small = Caller(engine, name_peer(1, port=2)).arrive().work(100)
    assert (small.works, waiting.works) == (1, 0)
    working.leave()
    assert waiting.works == 1


def test_engine_close_drops_calls_without_running_work_once():
    engine = make(3)
    receiving, working, waiting = Caller(engine), Caller(engine).arrive(1), Caller(engine)
    for _ in range(2):
        engine.perform(engine.close())
    assert [caller.drops for caller in (receiving, working, waiting)] == [1, 0, 1]
    receiving.leave()
    waiting.leave()
    working.end(1).leave()
    assert (engine.used_bytes, engine.is_idle) == (0, True)


@pytest.fixture
def budget() -> Budget:
    return Budget(make_config())


@pytest.fixture
def life() -> Lifecycle:
    """A call of a connection that holds no memory."""
    life = Caller(make(1)).life
    life.source, life.reading, life.holdings = SOURCE, 0, (0, 0)
    return life


def test_receive_and_work_pools_each_have_half_the_memory_budget(budget: Budget):
    for pool in (budget.receiving, budget.processing):
        assert pool.take(SOURCE, HALF)
        assert not pool.take(OTHER_SOURCE, 1)
    assert (budget.receiving.used, budget.processing.used) == (HALF, HALF)


def test_quarter_of_each_memory_pool_is_reserved_for_other_addresses(budget: Budget):
    for pool in (budget.receiving, budget.processing):
        pool.change(SOURCE, HALF * 3 // 4)
        assert [pool.take(source, HALF // 4) for source in (Source("a", "a2"), OTHER_SOURCE)] == [False, True]


def test_connection_receives_a_limited_number_of_messages_concurrently(budget: Budget):
    assert [budget.receiving.take(SOURCE, MESSAGE) for _ in range(17)] == [True] * 16 + [False]


@pytest.mark.parametrize(
    ("size", "kept"), [(0, 0), (10, COST_FACTOR * 20), (30, COST_FACTOR * 30)], ids=["none", "small", "large"]
)
def test_response_memory_is_based_on_larger_of_request_and_response(size: int, kept: int):
    caller = Caller(make(1)).arrive(20).end(size)
    assert caller.life.holdings == (caller.engine.used_bytes, 0) == (kept, 0)


@pytest.mark.parametrize("held", [0, 100])
def test_only_active_stream_may_hold_any_amount_of_memory(budget: Budget, life: Lifecycle, held: int):
    life.held = held
    budget.update(life)
    assert budget.may_hold(life, 2**60)
    budget.processing.take(OTHER_SOURCE, 1)
    assert not budget.may_hold(life, 2**60)


def test_stream_may_always_reduce_its_memory_reservation(budget: Budget, life: Lifecycle):
    life.held = 100
    budget.update(life)
    budget.processing.change(OTHER_SOURCE, HALF)
    assert [budget.may_hold(life, size) for size in (101, 100, 99)] == [False, True, True]


def test_connection_may_always_process_four_messages_of_the_largest_size():
    pool = Budget(Config(max_message_bytes=MESSAGE, memory_budget_bytes=14 * MESSAGE)).processing
    assert [pool.take(SOURCE, size) for size in (1, 4 * MESSAGE - 1, 1)] == [True, True, False]


def test_budget_updates_only_the_pool_whose_count_changes(
    budget: Budget, life: Lifecycle, monkeypatch: pytest.MonkeyPatch
):
    changes: list[tuple[str, int]] = []
    monkeypatch.setattr(budget.receiving, "change", lambda _source, size: changes.append(("receiving", size)))
    monkeypatch.setattr(budget.processing, "change", lambda _source, size: changes.append(("processing", size)))
    for life.reading, life.held in ((MESSAGE, 0), (MESSAGE, 100), (MESSAGE, 100), (0, 0)):
        budget.update(life)
    assert changes == [("receiving", MESSAGE), ("processing", 100), ("receiving", -MESSAGE), ("processing", -100)]


def fail(*_: object) -> None:
    message = "a secret"
    raise RuntimeError(message)


@pytest.mark.parametrize("fails_at", ["action", "gate"])
def test_exception_in_one_engine_action_does_not_stop_others(fails_at: str, caplog: pytest.LogCaptureFixture):
    other, info = Caller(make(4)), CallInfo("/a/B", (), at_end=[fail])
    with caplog.at_level(logging.ERROR):
        other.engine.perform([fail if fails_at == "action" else info.leave, other.start_work])
    assert other.works == 1
    assert [(record.message, record.exc_info is not None) for record in caplog.records] == [("bug", True)]


def test_state_of_a_call_that_is_over_keeps_no_handler():
    caller = Caller(make(4))
    assert caller.life.handler is caller
    caller.leave()
    assert caller.life.handler is NOBODY


class Recorder:
    """An observer that keeps the records of calls, and calls `react` after each."""

    def __init__(self) -> None:
        self.records: list[EndedCall] = []
        self.react: Callable[[], object] = lambda: None

    def chooses(self, metadata: Metadata) -> bool:
        del metadata
        return True

    def begin(self, info: CallInfo) -> None:
        pass

    def write(self, call: EndedCall) -> None:
        self.records.append(call)
        self.react()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_unary_call_is_observed_when_it_is_over(recorder: Recorder):
    caller = Caller(make(4, observers=[recorder])).arrive(100).end(30)
    assert recorder.records == []
    caller.leave()
    (record,) = recorder.records
    assert (record.info.method, record.result) == (METHOD, OK)
    assert (record.request_messages, record.request_bytes) == (1, 100)
    assert (record.response_messages, record.response_bytes) == (1, 30)


def test_observed_stream_counts_the_responses_that_were_sent(recorder: Recorder):
    Caller(make(4, observers=[recorder])).arrive(100).respond(10, 20, 40).sent(10).sent(20).leave()
    assert (recorder.records[0].response_messages, recorder.records[0].response_bytes) == (2, 30)
    assert (recorder.records[0].request_messages, recorder.records[0].request_bytes) == (1, 100)


def test_observed_seconds_per_state_add_up_to_the_call_duration(recorder: Recorder):
    begin = time.monotonic()
    Caller(make(4, observers=[recorder])).arrive().work().begin_work().end(1).leave()
    seconds = recorder.records[0].seconds
    assert set(seconds) == {"new", "waiting", "receiving", "working", "queued", "ending"}
    assert min(seconds.values()) >= 0
    assert sum(seconds.values()) <= time.monotonic() - begin


def test_immediately_rejected_call_is_observed(recorder: Recorder):
    engine = make(4, max_calls=1, observers=[recorder])
    life = Lifecycle(Caller(engine), METHOD)
    engine.prepare(life, (), lambda: CallInfo(METHOD, ()))
    with pytest.raises(LimitError):
        engine.enter(life, find_source(name_peer(2)))
    engine.perform(engine.end(life, CallResult("RESOURCE_EXHAUSTED"))[1])
    engine.perform(engine.release(life))
    assert [record.result for record in recorder.records] == [("RESOURCE_EXHAUSTED", "")]


@pytest.mark.parametrize(
    ("ended", "gone", "result"),
    [(False, False, GONE), (False, True, GONE), (True, False, OK), (True, True, GONE)],
    ids=["not ended", "gone", "ended", "gone before the end was sent"],
)
def test_call_disconnected_before_its_status_is_observed_as_cancelled(
    recorder: Recorder, ended: bool, gone: bool, result: CallResult
):
    caller = Caller(make(4, observers=[recorder])).arrive()
    if ended:
        caller.end(5)
    caller.perform(caller.engine.release(caller.life, gone=gone))
    caller.end(5)  # from the thread that worked on the call
    assert recorder.records[0].result == result
    assert recorder.records[0].response_messages == ended


def test_events_after_the_end_of_a_call_are_not_observed(recorder: Recorder):
    caller = Caller(make(4, observers=[recorder])).arrive().end(5)
    caller.arrive(7).respond(3).begin_work().end(7)
    caller.leave()
    caller.leave()
    (record,) = recorder.records
    assert (record.request_messages, record.response_messages, record.response_bytes) == (1, 1, 5)


@pytest.mark.parametrize("method", ["chooses", "begin", "write"])
def test_call_observer_exception_is_logged_and_isolated(
    method: str, recorder: Recorder, caplog: pytest.LogCaptureFixture
):
    broken = Recorder()
    setattr(broken, method, fail)
    engine = make(4, observers=[broken, recorder])
    with caplog.at_level(logging.ERROR):
        Caller(engine).arrive(10).end(5).leave()
    assert len(recorder.records) == 1
    assert [(record.message, record.exc_info is not None) for record in caplog.records] == [("bug", True)]
    assert engine.is_idle


def test_call_that_no_observer_chooses_has_no_record(recorder: Recorder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recorder, "chooses", lambda _: False)
    caller = Caller(make(4, observers=[recorder]))
    assert (caller.life.info, caller.life.journals) == (None, ())
    caller.arrive(10).end(5).leave()
    assert recorder.records == []


def test_call_observer_runs_without_the_engine_lock(recorder: Recorder):
    engine = make(4, observers=[recorder])
    other = Caller(engine, PEER).arrive(10)
    recorder.react = partial(other.end, 1)  # would deadlock if a lock were held
    Caller(engine, name_peer(2)).leave()
    assert (len(recorder.records), other.life.state) == (1, State.ENDING)


def test_thread_does_not_wait_for_a_running_call_observer(recorder: Recorder):
    reached, goes_on = threading.Event(), threading.Event()

    def wait_at_first_call() -> None:
        if len(recorder.records) == 1:
            reached.set()
            assert goes_on.wait(60)

    recorder.react = wait_at_first_call
    engine = make(4, observers=[recorder])
    thread = threading.Thread(target=Caller(engine).leave)
    thread.start()
    assert reached.wait(60)
    Caller(engine, name_peer(2)).leave()
    assert len(recorder.records) == 2
    goes_on.set()
    thread.join(60)


def test_begin_of_an_observed_call_is_reported_before_its_gates(recorder: Recorder):
    begun: list[tuple[CallInfo, str]] = []
    recorder.begin = lambda info: begun.append((info, info.address))  # type: ignore[method-assign]
    engine = make(4, observers=[recorder])
    first, second = (Caller(engine, name_peer(host)) for host in (1, 2))
    assert begun == [(first.life.info, ""), (second.life.info, "")]
    assert [caller.life.info and caller.life.info.address for caller in (first, second)] == [
        *("ipv4:10.0.0.1", "ipv4:10.0.0.2")
    ]


class Gate:
    """A gate that admits calls until a test sets an error, and records them."""

    def __init__(self) -> None:
        self.error: ReshapeError | None = None
        self.seen: list[str] = []

    def admit(self, info: CallInfo) -> None:
        self.seen.append(f"admit {info.address}")
        if self.error is not None:
            raise self.error

    def leave(self, info: CallInfo) -> None:
        self.seen.append(f"leave {info.address}")


def test_call_that_a_gate_rejects_takes_no_slot():
    gate, notes = Gate(), list[str]()
    engine = Engine(make_config(max_calls=1), [Notes("one", notes)], Gates([gate]))
    gate.error = UnauthenticatedError("no", reason=Reason.UNAUTHENTICATED)
    life = Lifecycle(NOBODY, METHOD)
    engine.prepare(life, (), lambda: CallInfo(METHOD, ()))
    with pytest.raises(UnauthenticatedError):
        engine.enter(life, SOURCE)
    engine.end(life, CallResult("UNAUTHENTICATED"))
    engine.perform(engine.release(life))
    gate.error = None
    Caller(engine, PEER).leave()
    assert gate.seen == ["admit a", "admit ipv4:10.0.0.1", "leave ipv4:10.0.0.1"]
    assert notes == [f"one {event}" for event in ("ENTER", "END", "OVER", "ENTER", "REQUEST", "READ", "OVER")]


def test_engine_without_gates_and_observers_needs_no_facts_about_calls(recorder: Recorder):
    config = make_config()
    engines = [Engine(config), Engine(config, gates=Gates([Gate()])), Engine(config, observers=[recorder])]
    assert [engine.has_checks for engine in engines] == [False, True, True]
    for engine in engines:
        life = Caller(engine).life
        assert (life.info is not None) == engine.has_checks
        assert len(life.journals) == (engine is engines[2])


def test_refused_call_is_recorded_as_busy():
    events: list[tuple[object, ...]] = []

    class Journal:
        def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
            events.append((life.method, life.began, event, before, life.state, size, result))

    engine = make(1, journals=[Journal()], clock=lambda: 7.0)
    engine.count_refusal("/a/B")
    busy = CallResult("RESOURCE_EXHAUSTED", "SERVER_BUSY")
    moves = [
        (Event.ENTER, State.NEW, State.NEW, 0, None),
        (Event.END, State.NEW, State.ENDING, 0, busy),
        (Event.OVER, State.ENDING, State.DONE, 0, None),
    ]
    assert events == [("/a/B", 7.0, *move) for move in moves]
    assert engine.is_idle


class Notes:
    """A journal that records its name and the events."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self._name, self._notes = name, notes

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        del life, before, size, result
        self._notes.append(f"{self._name} {event.name}")


def test_every_event_journal_records_each_call_event():
    notes: list[str] = []
    journals: list[Journal] = [Notes(name, notes) for name in ("one", "other")]
    Caller(make(1, journals=journals))
    assert notes == [f"{name} {event.name}" for event in BEGINS for name in ("one", "other")]
