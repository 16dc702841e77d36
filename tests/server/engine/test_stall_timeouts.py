"""The calls that are aborted, and when. The test sets the clock."""

from math import nextafter

import pytest

from engine_calls import MESSAGE, Caller, Clock, call_all, make, name_peer
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls.sources import find_source
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.engine import MAX_ABORTS, MAX_READS, Engine
from tensor_reshape.server.engine.lifecycle import TRICKLE_BYTES_PER_SECOND, CallHandler, Lifecycle
from tensor_reshape.server.engine.stall_timeouts import (
    MIN_BYTES_PER_SECOND,
    MIN_PRESSURE_SECONDS,
    SHORT_SECONDS,
    StallTimeouts,
    choose_calls_to_abort,
    find_spare,
)

STALLED, BUSY = [str(Reason.STALLED)], [str(Reason.SERVER_BUSY)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Swept:
    """An engine that is swept whenever time has passed."""

    def __init__(self, clock: Clock, engine: Engine) -> None:
        self.clock, self.engine = clock, engine

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        self.engine.perform(self.engine.sweep())


def sweep_after(clock: Clock, reads: int, *, stall_timeout_seconds: float = 30.0, message: int = MESSAGE) -> Swept:
    return Swept(clock, make(reads, stall_timeout_seconds=stall_timeout_seconds, message=message, clock=clock))


def test_call_without_progress_is_aborted_after_the_stall_timeout(clock: Clock):
    swept = sweep_after(clock, 4, stall_timeout_seconds=5.0)
    stalled, other = call_all(swept.engine, range(2))
    swept.wait(4)
    other.arrive(1).respond(1)
    swept.wait(0.9)
    assert stalled.reasons == []
    swept.wait(0.6)
    assert (stalled.reasons, other.reasons) == (STALLED, [])


@pytest.mark.parametrize(
    ("pace", "times", "reasons"), [(100 / TRICKLE_BYTES_PER_SECOND, 4, STALLED), (1.6, 40, [])], ids=["below", "above"]
)
def test_stream_below_the_minimum_rate_is_aborted_without_waiting_calls(
    clock: Clock, pace: float, times: int, reasons: list[str]
):
    swept = sweep_after(clock, 4, stall_timeout_seconds=5.0)
    stream = Caller(swept.engine)
    for _ in range(times):
        swept.clock.now += 1.5
        stream.arrive(100).respond(moved=int(pace * TRICKLE_BYTES_PER_SECOND))
        swept.wait(0)
    assert stream.reasons == reasons


def test_waiting_for_memory_stops_the_stall_clock(clock: Clock):
    swept = sweep_after(clock, 1, stall_timeout_seconds=5.0)
    first, second = call_all(swept.engine, range(2))
    clock.now += 1.9
    first.leave()
    assert second.reads == 1
    swept.wait(4.9)
    assert second.reasons == []
    swept.wait(0.2)
    assert second.reasons == STALLED


def test_call_without_progress_is_busy_sooner_while_others_wait(clock: Clock):
    swept = sweep_after(clock, 1)
    stalled = Caller(swept.engine, name_peer(1))
    clock.now += MIN_PRESSURE_SECONDS - 0.1
    waiting = Caller(swept.engine, name_peer(2))
    swept.wait(0)
    assert stalled.reasons == []
    swept.wait(0.2)
    assert (stalled.reasons, waiting.reasons) == (BUSY, [])
    stalled.leave()
    assert waiting.reads == 1


def test_memory_request_above_its_share_aborts_no_other_call(clock: Clock):
    swept = sweep_after(clock, 100)
    slow = Caller(swept.engine, name_peer(1))
    silent = [Caller(swept.engine, name_peer(2)) for _ in range(MAX_READS + 1)]
    swept.wait(MIN_PRESSURE_SECONDS + 0.1)
    assert ([len(caller.rejections) for caller in silent], slow.reasons) == ([1] * (MAX_READS + 1), [])


def test_address_with_most_calls_gets_a_shorter_stall_timeout(clock: Clock):
    swept = Swept(clock, make(100, max_calls=16, clock=clock))
    greedy = [Caller(swept.engine, name_peer(1, port)) for port in range(12)]
    modest = [Caller(swept.engine, name_peer(2)) for _ in range(2)]
    swept.wait(MIN_PRESSURE_SECONDS + 0.1)
    assert [caller.reasons for caller in (*greedy, *modest)] == [BUSY] * 12 + [[]] * 2


def test_shortened_stall_timeout_still_allows_the_largest_message(clock: Clock):
    swept = sweep_after(clock, 1, stall_timeout_seconds=3000.0, message=100 * MIN_BYTES_PER_SECOND)
    slow, _ = call_all(swept.engine, range(2))
    swept.wait(99)
    assert slow.reasons == []
    swept.wait(2)
    assert slow.reasons == BUSY


def test_time_before_waiting_for_memory_is_not_counted(clock: Clock):
    swept = sweep_after(clock, 1)
    stream, other, _ = call_all(swept.engine, range(3))
    clock.now += MIN_PRESSURE_SECONDS - 0.5
    stream.arrive(1).respond(moved=0)
    assert (stream.waits, other.reads) == (True, 1)
    swept.wait(1)
    assert stream.reasons == []


def test_64_mib_may_take_eight_seconds_while_others_wait():
    assert StallTimeouts.of(Config(max_message_bytes=64 << 20)).pressure_seconds == 8.0


def test_call_that_waits_too_long_for_memory_is_rejected(clock: Clock):
    swept = sweep_after(clock, 1)
    running, waiting = call_all(swept.engine, range(2))
    clock.now += MIN_PRESSURE_SECONDS + 0.1
    running.arrive()
    late = Caller(swept.engine, name_peer(3))
    swept.wait(0)
    assert waiting.reasons == BUSY
    running.end().leave()
    assert (waiting.reads, late.reads) == (0, 1)


def test_aborted_call_keeps_its_memory_until_its_end(clock: Clock):
    swept = sweep_after(clock, 1)
    running, waiting = call_all(swept.engine, range(2))
    swept.wait(MIN_PRESSURE_SECONDS + 0.1)
    assert (running.reasons, waiting.reasons, swept.engine.used_bytes) == (BUSY, BUSY, MESSAGE)
    for caller in (waiting, running, waiting):
        caller.leave()
    assert (swept.engine.used_bytes, swept.engine.is_idle) == (0, True)


def test_calls_of_busy_addresses_are_aborted_for_new_addresses(clock: Clock):
    swept = sweep_after(clock, 24)
    crowds = {host: [Caller(swept.engine, name_peer(host, port)) for port in range(40)] for host in range(16)}
    polite = call_all(swept.engine, range(20, 22))
    assert [caller.reads for caller in polite] == [0, 0]
    swept.wait(SHORT_SECONDS + 0.01)
    aborted = [caller for callers in crowds.values() for caller in callers if caller.rejections]
    assert {caller.life.source.address for caller in aborted} == {"ipv4:10.0.0.0"}
    for caller in aborted:
        caller.leave()
    assert [caller.reads for caller in polite] == [1, 1]


@pytest.mark.parametrize(
    ("crowd", "seconds"),
    [((1, 1, 1, 1), SHORT_SECONDS + 0.01), ((4,), SHORT_SECONDS - 0.01)],
    ids=["an address keeps its last call", "a message has a moment to arrive"],
)
def test_recent_calls_and_last_calls_of_addresses_are_not_aborted(clock: Clock, crowd: tuple[int, ...], seconds: float):
    swept = sweep_after(clock, 4)
    there = [Caller(swept.engine, name_peer(host)) for host, count in enumerate(crowd) for _ in range(count)]
    call_all(swept.engine, range(10, 15))
    swept.wait(seconds)
    assert [caller.reasons for caller in there] == [[]] * 4


@pytest.mark.parametrize("host", [1, 2], ids=["another connection", "another address"])
def test_silent_call_makes_room_after_more_than_the_short_timeout(clock: Clock, host: int):
    clock.now = 0.0
    swept = sweep_after(clock, 4)
    crowd = [*silence(swept, 1), Caller(swept.engine, name_peer(9))]
    assert Caller(swept.engine, name_peer(host, 2)).reads == 0
    swept.wait(SHORT_SECONDS)
    assert [caller.reasons for caller in crowd] == [[]] * 4
    swept.wait(nextafter(SHORT_SECONDS, 1.0) - SHORT_SECONDS)
    assert sorted(caller.reasons for caller in crowd) == [[], [], [], BUSY]


@pytest.mark.parametrize("ports", [(2,), (2, 3)], ids=["a connection waits", "two connections wait"])
@pytest.mark.parametrize(("later", "reasons"), [(0.0, BUSY), (1e-9, [])], ids=["not before", "before"])
def test_slow_upload_has_more_time_after_a_short_timeout(
    clock: Clock, ports: tuple[int, ...], later: float, reasons: list[str]
):
    clock.now = 0.0
    swept = sweep_after(clock, 4)
    upload = Caller(swept.engine, name_peer(1, 1))
    clock.now = 2 * MIN_PRESSURE_SECONDS - SHORT_SECONDS
    for port in ports:
        silence(swept, port, 4)
    clock.now = 2 * MIN_PRESSURE_SECONDS + later
    swept.wait(0)
    assert upload.reasons == reasons


Row = tuple[int, int, float]
"""The host, the connection and the time of a silent call."""

NOW = 1.0


@pytest.mark.parametrize(
    ("rows", "newcomers", "starving", "chosen"),
    [
        # the address with the most silent calls gives up one, although calls of another address are older
        ([(1, 1, 0.0), (1, 1, 0.1), (2, 1, 0.2), (2, 1, 0.3), (2, 1, 0.4)], 1, {}, [2]),
        ([(1, 1, 0.0), (1, 1, 0.1), (2, 1, 0.2), (2, 1, 0.3), (2, 1, 0.4)], 3, {}, [2, 3, 0]),
        # an address keeps one call, which may be a recent one
        ([(1, 1, 0.0), (1, 1, NOW)], 2, {}, [0]),
        ([(1, 1, 0.0), (1, 2, 0.1)], 2, {}, [0]),
        # the connection with the most silent calls gives up one of them
        ([(1, 1, 0.0), (1, 1, 0.1), (1, 2, 0.2), (1, 2, 0.3), (1, 2, 0.4)], 0, {1: 1}, [2]),
        ([(1, 1, 0.0), (1, 1, 0.1), (1, 2, 0.2), (1, 2, 0.3), (1, 2, 0.4)], 0, {1: 3}, [2, 3, 0]),
        ([(1, 1, 0.0), (1, 1, 0.1), (2, 2, 0.2), (2, 2, 0.3)], 0, {2: 2}, [2]),
    ],
)
def test_clients_with_the_most_silent_calls_make_room(
    rows: list[Row], newcomers: int, starving: dict[int, int], chosen: list[int]
):
    silent = []
    for host, port, since in rows:
        life = Lifecycle(CallHandler(), "/a.service/Method")
        life.source, life.since = find_source(name_peer(host, port)), since
        silent.append(life)
    wanted = {find_source(name_peer(host)).address: count for host, count in starving.items()}
    found = choose_calls_to_abort(silent, find_spare(silent, ()), newcomers, wanted, NOW)
    assert [silent.index(life) for life in found] == chosen


def silence(swept: Swept, port: int, count: int = 3) -> list[Caller]:
    """Begins calls of a connection that send nothing."""
    return [Caller(swept.engine, name_peer(1, port)) for _ in range(count)]


def test_silent_call_makes_room_for_another_connection_of_its_address(clock: Clock):
    swept = sweep_after(clock, 6)
    silent = [caller for port in range(3) for caller in silence(swept, port)]
    polite = Caller(swept.engine, name_peer(1, 3))
    assert polite.reads == 0
    swept.wait(SHORT_SECONDS + 0.01)
    (aborted,) = [caller for caller in silent if caller.rejections]
    assert aborted.reasons == BUSY
    aborted.leave()
    assert polite.reads == 1


def test_connection_whose_call_made_room_gets_its_next_turn_last(clock: Clock):
    swept = sweep_after(clock, 6)
    crowd = [caller for port in range(5) for caller in silence(swept, port)]
    polite = Caller(swept.engine, name_peer(1, 9))
    swept.wait(SHORT_SECONDS + 0.01)
    for caller in crowd:
        if caller.rejections:
            caller.leave()
    assert polite.reads == 1


def test_slow_upload_on_a_connection_of_its_own_survives_a_crowd(clock: Clock):
    swept = sweep_after(clock, 6)
    upload = Caller(swept.engine, name_peer(1, 1))
    crowd = silence(swept, 2, 20)
    for port in range(10, 100):
        swept.wait(SHORT_SECONDS + 0.01)
        polite = Caller(swept.engine, name_peer(1, port))
        swept.wait(SHORT_SECONDS + 0.01)
        for caller in crowd:
            if caller.rejections:
                caller.leave()
        crowd = [caller for caller in crowd if not caller.rejections] + silence(swept, 2, 5)
        assert polite.reads == 1, port
        polite.arrive().end()
        polite.leave()
    assert (upload.reasons, upload.reads) == ([], 1)


def test_lone_slow_upload_of_an_address_has_no_more_time(clock: Clock):
    swept = sweep_after(clock, 4)
    upload, busy = Caller(swept.engine, name_peer(1, 1)), silence(swept, 2, 4)
    clock.now += MIN_PRESSURE_SECONDS
    for caller in busy:
        if caller.reads:
            caller.arrive(1).respond(1)
    swept.wait(SHORT_SECONDS / 2)
    assert upload.reasons == BUSY


def test_slow_upload_has_no_more_time_if_another_address_waits(clock: Clock):
    swept = sweep_after(clock, 6)
    upload, _ = Caller(swept.engine, name_peer(1, 1)), silence(swept, 2, 20)
    _ = [Caller(swept.engine, name_peer(2)) for _ in range(9)]
    swept.wait(MIN_PRESSURE_SECONDS + 0.1)
    assert upload.reasons == BUSY


def test_lone_calls_of_all_connections_make_room_after_the_pressure_timeout(clock: Clock):
    swept = sweep_after(clock, 4)
    lone = [Caller(swept.engine, name_peer(1, port)) for port in range(5)]
    swept.wait(MIN_PRESSURE_SECONDS - 0.1)
    assert not any(caller.rejections for caller in lone)
    swept.wait(0.2)
    assert [caller.reasons for caller in lone] == [BUSY] * 5


def test_connection_without_memory_ends_no_call_of_another_address(clock: Clock):
    swept = sweep_after(clock, 6)
    uploads = [Caller(swept.engine, name_peer(2)) for _ in range(2)]
    crowd = [Caller(swept.engine, name_peer(1, port)) for port in range(20)]
    swept.wait(SHORT_SECONDS + 0.01)
    assert not any(caller.rejections for caller in uploads)
    assert any(caller.rejections for caller in crowd) is False  # each is the only call of its connection


def test_sweep_aborts_a_limited_number_of_calls(clock: Clock):
    swept = sweep_after(clock, 100, stall_timeout_seconds=5.0)
    callers = call_all(swept.engine, range(64))
    swept.wait(5.1)
    assert sum(len(caller.rejections) for caller in callers) == MAX_ABORTS == 32
    swept.wait(0)
    assert [caller.reasons for caller in callers] == [STALLED] * 64


def test_call_being_processed_is_never_aborted_as_stalled(clock: Clock):
    swept = sweep_after(clock, 4, stall_timeout_seconds=5.0)
    caller = Caller(swept.engine).arrive()
    swept.wait(100)
    assert caller.reasons == []


def test_aborted_call_is_cancelled_if_the_client_reads_no_error(clock: Clock):
    swept = sweep_after(clock, 4, stall_timeout_seconds=5.0)
    caller = Caller(swept.engine)
    for seconds, rejections, drops in ((5.1, 1, 0), (4.8, 1, 0), (0.3, 1, 1)):
        swept.wait(seconds)
        assert (len(caller.rejections), caller.drops) == (rejections, drops)


def test_stalled_stream_with_unread_responses_is_cancelled_immediately(clock: Clock):
    swept = sweep_after(clock, 4, stall_timeout_seconds=5.0)
    caller = Caller(swept.engine).arrive(10).respond(10)
    swept.wait(5.1)
    assert (caller.rejections, caller.drops) == ([], 1)


def test_calls_waiting_for_a_thread_do_not_shorten_stall_timeouts(clock: Clock):
    swept = sweep_after(clock, 8)
    slow, queued = call_all(swept.engine, range(2))
    queued.arrive().work()
    swept.wait(MIN_PRESSURE_SECONDS + 1)
    assert (slow.reasons, queued.reasons) == ([], [])


def test_memory_wait_timeout_exceeds_the_shortened_stall_timeout(clock: Clock):
    engine = make(
        1, clock=clock, timeouts=StallTimeouts(stall_timeout_seconds=30.0, pressure_seconds=1.0, wait_seconds=5.0)
    )
    swept = Swept(clock, engine)
    silent, waiting = Caller(engine), Caller(engine)
    swept.wait(1.1)
    assert (silent.reasons, waiting.reasons) == (BUSY, [])
