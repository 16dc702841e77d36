"""The engine without a server: memory of calls, receiving, waiting and rejected calls."""

import json
from collections.abc import Callable

import pytest

from engine_calls import MESSAGE, METHOD, PEER, WORK, Caller, RecordedEngine, call_all, make, name_peer
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.results import OK
from tensor_reshape.server.calls.sources import find_source
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.lifecycle import READ_BELOW_UNSENT, Lifecycle, State

OTHER, THIRD = name_peer(2), name_peer(3)


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


class AddressGate:
    """A gate that records the addresses of calls."""

    def __init__(self) -> None:
        self.addresses: list[str] = []

    def admit(self, info: CallInfo) -> None:
        self.addresses.append(info.address)

    def leave(self, info: CallInfo) -> None:
        pass


def test_gate_gets_the_address_of_the_client():
    gate = AddressGate()
    Caller(Engine(Config(), gates=Gates([gate])), "ipv4:192.0.2.7:1")
    assert gate.addresses == ["ipv4:192.0.2.7"]


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
def test_abandoned_call_frees_memory_when_its_thread_ends(
    tell: Callable[[Caller], object],
):
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
    engine = RecordedEngine(Config(max_message_bytes=MESSAGE, memory_budget_bytes=34 * MESSAGE))  # 16 in each pool
    Caller(engine, OTHER).arrive().work(13 * MESSAGE // 2)
    working, waiting, growing = (Caller(engine, PEER) for _ in range(3))
    working.arrive().work()
    waiting.arrive().work()
    growing.reserve(2 * MESSAGE + 100)  # together with the waiting memory, more than half of the pool
    Caller(engine, name_peer(1, port=2)).arrive().work(100)
    working.leave()
    outcomes = [json.loads(line)["outcome"] for line in engine.lines if "start_work" in line]
    assert outcomes == [["0 start_work"], ["1 start_work"], ["4 start_work"], ["2 start_work"]]


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
