"""Headers that take more than they may before gRPC's core says so: how they are refused, and what is made of them."""

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import grpc
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from http2 import HEALTH_CHECK, Connection, End, grpc_message
from in_process import ANY_PORT, run_runner, run_stock
from tensor_reshape.server.calls import header_lists, resets, serving_loops
from tensor_reshape.server.calls.header_lists import LEAST_OFFENCE_BYTES, MOST_DEPTH, OFFENCE, HeaderBound
from tensor_reshape.server.calls.resets import ResetBuckets
from tensor_reshape.server.calls.unread_calls import SenderFinder
from tensor_reshape.server.config import Config
from tensor_reshape.server.process import housekeeping
from tensor_reshape.server.runner import Runner
from tensor_reshape.wire.methods import INFER_SHAPE

MAX_BYTES = 4096
SECONDS = 60.0
REFUSED = End("8", f"the metadata takes more than {MAX_BYTES} bytes")
QUESTION = b"\x08\x01\x10\x00\x1a\x02\x12\x00\x22\x00"
PAIRS = [("x", "y")] * 119  # of 34 bytes
AT_THE_BOUND = [*PAIRS, ("z" * 9, "z" * 9)]
ABOVE = [*PAIRS, ("z" * 9, "z" * 10)]
JUST_NO_OFFENCE = [("x", "")] * (LEAST_OFFENCE_BYTES // 33)
MANY_PAIRS = [("x", "")] * (LEAST_OFFENCE_BYTES // 32 + 1)
LARGE_VALUES = [("x", "y" * 1000)] * (LEAST_OFFENCE_BYTES // 1000 + 1)
GARBAGE = cast("str", b"\xff" * 10)  # which is no text, and is sent as it is
MANY = 16_000  # a byte each, in one frame


def configure(serving: str) -> Config:
    return Config(
        listen=(ANY_PORT,),
        health_listen=ANY_PORT,
        max_metadata_bytes=MAX_BYTES,
        serving=serving,
        drain_seconds=0,
        grace_seconds=0,
    )


@pytest.fixture(autouse=True)
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has offenders closed soon; how long they are silenced is tested in `test_resets`."""
    monkeypatch.setattr(resets, "ACCUSED_SILENCE_SECONDS", 0.3)


@pytest.fixture(params=["inline", "threads"])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    with run_runner(configure(request.param)) as runner:
        yield runner


@pytest.fixture
def early(runner: Runner) -> Iterator[Connection]:
    """A connection that does not say that the server's settings have come."""
    with Connection(runner.addresses[0], acknowledges=False) as connection:
        yield connection


def ask(connection: Connection, headers: list[tuple[str, str]], path: str = INFER_SHAPE.path) -> End:
    stream = connection.open(path, headers=headers)
    connection.send_data(stream, grpc_message(QUESTION if path == INFER_SHAPE.path else b""), end=True)
    return connection.await_end(stream)


def test_as_much_as_may_be_is_taken(early: Connection):
    assert ask(early, AT_THE_BOUND).is_ok


@pytest.mark.parametrize(
    "headers",
    [
        ABOVE,
        [("a", "")] * (MAX_BYTES // 33 + 1),
        [("a", "b" * MAX_BYTES)],
        [("a", GARBAGE)] * (MAX_BYTES // (33 + len(GARBAGE)) + 1),
        [("a-bin", "AAAA" * 10)] * (MAX_BYTES // 67 + 1),  # of which grpcio makes 30 bytes
    ],
)
def test_more_is_refused_and_the_next_call_is_answered(early: Connection, headers: list[tuple[str, str]]):
    assert ask(early, headers) == REFUSED
    assert ask(early, []).is_ok


def test_a_few_times_as_much_is_no_offence(early: Connection):
    assert ask(early, JUST_NO_OFFENCE).status == REFUSED.status  # of some hundred such, the core itself refuses one
    assert ask(early, []).is_ok


def test_the_port_for_health_refuses_it_too(runner: Runner):
    assert runner.health_address
    with Connection(runner.health_address, acknowledges=False) as connection:
        assert ask(connection, ABOVE, HEALTH_CHECK) == REFUSED
        assert ask(connection, [], HEALTH_CHECK).is_ok


@pytest.mark.parametrize("headers", [MANY_PAIRS, LARGE_VALUES])
def test_who_sends_several_times_as_much_is_closed_and_nobody_else(
    runner: Runner, early: Connection, caplog: pytest.LogCaptureFixture, headers: list[tuple[str, str]]
):
    with Connection(runner.addresses[0]) as other, caplog.at_level(logging.WARNING):
        early.open(INFER_SHAPE.path, headers=headers)
        assert early.await_(lambda: bool(early.closed))
        assert ask(other, []).is_ok
    said = [record.message for record in caplog.records if record.name.startswith("tensor_reshape.server.transport")]
    assert said == ["closing connections that cost too much: reset calls, or endless headers"]


def test_an_offence_is_several_times_the_bound():
    assert HeaderBound(1 << 20, ResetBuckets(1.0)).pauses_below == (1 - OFFENCE) << 20


def test_who_is_accused_is_looked_at_before_it_is_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(housekeeping, "SWEEP_SECONDS", SECONDS)
    with run_runner(configure("inline")) as runner, Connection(runner.addresses[0]) as connection:
        assert connection.ping()
        runner._admission.resets.accuse({f"ipv4:127.0.0.1:{connection.socket.getsockname()[1]}"})
        deadline = time.monotonic() + SECONDS / 2
        while connection.ping(seconds=0.2):
            assert time.monotonic() < deadline


def test_what_is_refused_counts_as_reset(runner: Runner, early: Connection):
    noted = list[tuple[str, float]]()
    runner._admission.resets.note_reset = lambda *what: noted.append(what)  # type: ignore[method-assign]
    assert ask(early, ABOVE) == REFUSED
    ((peer, _),) = noted
    assert peer == f"ipv4:127.0.0.1:{early.socket.getsockname()[1]}"


def test_a_refused_call_makes_room_for_the_next(monkeypatch: pytest.MonkeyPatch):
    """The core is asked for a call for each that it has handed over."""
    monkeypatch.setattr(serving_loops, "ASKED_CALLS", 2)
    with run_runner(configure("inline")) as runner, Connection(runner.addresses[0], acknowledges=False) as early:
        assert {ask(early, ABOVE) for _ in range(10)} == {REFUSED}
        assert ask(early, []).is_ok


@pytest.mark.usefixtures("runner")
def test_a_grpcio_that_makes_pairs_in_another_way_is_bounded_too(early: Connection, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(header_lists, "_make", None)
    monkeypatch.setattr(cygrpc, "_Metadatum", lambda key, value: (key, value))
    assert ask(early, AT_THE_BOUND).is_ok
    assert ask(early, ABOVE) == REFUSED


def test_nothing_is_logged_of_garbage_above_the_bound(early: Connection, caplog: pytest.LogCaptureFixture):
    early.open(INFER_SHAPE.path, headers=[("x", GARBAGE)] * MANY)
    assert early.await_(lambda: bool(early.closed))
    said = [record for record in caplog.records if record.name == "grpc._cython.cygrpc"]
    assert len(said) == MAX_BYTES // (33 + len(GARBAGE)) + 1


def test_pairs_above_the_bound_are_not_made(early: Connection, monkeypatch: pytest.MonkeyPatch):
    made = list[int]()
    refuse = HeaderBound.refuse

    def count(bound: HeaderBound, event: Any) -> bool:  # noqa: ANN401 - grpcio's, without types
        made.append(len(set(map(id, event.invocation_metadata))))
        return refuse(bound, event)

    monkeypatch.setattr(HeaderBound, "refuse", count)
    early.open(INFER_SHAPE.path, headers=[("x", "y")] * MANY)
    assert early.await_(lambda: bool(early.closed))
    assert made == [MAX_BYTES // 34 + 1]  # one for each that may be, and one for all others


@pytest.mark.usefixtures("runner")
def test_another_server_of_the_process_has_all_its_headers():
    seen = list[int]()

    def look(_: bytes, context: grpc.ServicerContext) -> bytes:
        seen.append(len([pair for pair in context.invocation_metadata() if pair == ("x", "y")]))
        return b""

    with run_stock({"InferShape": look}) as address, Connection(address, acknowledges=False) as connection:
        assert ask(connection, [("x", "y")] * 1000).is_ok
    assert seen == [1000]


class LongReading:
    """Lists of headers above the bound, which are read until `may_end`; others are served all the time.

    Attributes:
        begun: set once the first list is being read.
        may_end: set by whoever is done with them.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.most_at_once = self._at_once = 0
        pause = HeaderBound.pause

        def go_on(bound: HeaderBound) -> None:
            self.begun.set()
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            end = time.monotonic() + SECONDS
            while not self.may_end.is_set() and time.monotonic() < end:
                pause(bound)
            self._at_once -= 1

        monkeypatch.setattr(header_lists, "FIRST_READ_SECONDS", 0)
        monkeypatch.setattr(header_lists, "READ_SECONDS", 0)
        monkeypatch.setattr(HeaderBound, "pause", go_on)

    def await_begin(self) -> None:
        assert self.begun.wait(SECONDS)


def note_looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns the list to which each look for senders adds how many lists are being read; none is found."""
    depths = list[int]()

    def look(_: SenderFinder, __: int, depth: int) -> set[str]:
        depths.append(depth)
        return set()

    monkeypatch.setattr(SenderFinder, "look", look)
    return depths


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[LongReading]:
    reading = LongReading(monkeypatch)
    yield reading
    reading.may_end.set()


def test_others_are_served_while_a_list_is_read(runner: Runner, early: Connection, reading: LongReading):
    early.open(INFER_SHAPE.path, headers=MANY_PAIRS)
    reading.await_begin()
    with Connection(runner.addresses[0]) as other:
        assert [ask(other, []).is_ok for _ in range(50)] == [True] * 50
    assert reading.most_at_once == 1


def test_who_sends_a_list_is_closed_while_it_is_read_and_nobody_else(
    runner: Runner, early: Connection, reading: LongReading
):
    with Connection(runner.addresses[0]) as other:
        assert ask(other, []).is_ok
        early.open(INFER_SHAPE.path, headers=MANY_PAIRS)
        reading.await_begin()
        while not early.closed:
            assert ask(other, []).is_ok
        assert not reading.may_end.is_set()
        reading.may_end.set()
        assert ask(other, []).is_ok


def test_lists_are_read_beside_each_other(runner: Runner, early: Connection, reading: LongReading):
    with Connection(runner.addresses[0], acknowledges=False) as second:
        early.open(INFER_SHAPE.path, headers=MANY_PAIRS)
        reading.await_begin()
        second.open(INFER_SHAPE.path, headers=MANY_PAIRS)
        with Connection(runner.addresses[0]) as other:
            while reading.most_at_once < 2:
                assert ask(other, []).is_ok
            reading.may_end.set()
            assert ask(other, []).is_ok
        assert second.await_(lambda: bool(second.closed))


def test_one_list_more_than_may_be_read_at_once_has_no_pauses(
    runner: Runner, early: Connection, reading: LongReading, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runner._admission.resets, "accuse", lambda _: None)
    pauses = note_looks(monkeypatch)
    for _ in range(MOST_DEPTH + 2):
        early.open(INFER_SHAPE.path, headers=MANY_PAIRS)
    reading.await_begin()
    deadline = time.monotonic() + SECONDS
    while reading.most_at_once <= MOST_DEPTH:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert max(pauses) == MOST_DEPTH
    reading.may_end.set()
    assert ask(early, []).is_ok


def test_nothing_pauses_for_a_list_that_is_short(runner: Runner, early: Connection, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(header_lists, "FIRST_READ_SECONDS", SECONDS)
    pauses = note_looks(monkeypatch)
    early.open(INFER_SHAPE.path, headers=[("x", "")] * MANY)
    assert early.await_(lambda: bool(early.closed))
    with Connection(runner.addresses[0]) as other:
        assert ask(other, []).is_ok
    assert pauses == []


def test_who_sends_such_a_list_to_the_port_for_health_is_closed(runner: Runner):
    assert runner.health_address
    with Connection(runner.health_address, acknowledges=False) as early, Connection(runner.health_address) as other:
        early.open(HEALTH_CHECK, headers=MANY_PAIRS)
        assert early.await_(lambda: bool(early.closed))
        assert ask(other, [], HEALTH_CHECK).is_ok


def test_who_is_accused_at_one_port_keeps_its_connection_to_the_other(runner: Runner):
    assert runner.health_address
    port = runner._side_ports._health_port
    assert port is not None
    with Connection(runner.addresses[0]) as connection, Connection(runner.health_address) as health:
        own, others = (f"ipv4:127.0.0.1:{one.socket.getsockname()[1]}" for one in (health, connection))
        port.resets.accuse({own, others})
        assert health.await_(lambda: bool(health.closed))
        assert ask(connection, []).is_ok


@pytest.mark.parametrize("serving", ["inline", "threads"])
def test_a_server_stops_while_a_list_is_read(serving: str, monkeypatch: pytest.MonkeyPatch):
    with run_runner(configure(serving)) as runner, Connection(runner.addresses[0], acknowledges=False) as early:
        reading = LongReading(monkeypatch)
        early.open(INFER_SHAPE.path, headers=MANY_PAIRS)
        reading.await_begin()
        stages = list[bool]()
        stop = runner._server.stop

        def stop_and_go_on(grace: float | None) -> threading.Event:
            ended = stop(grace)
            stages.append(ended.is_set())
            reading.may_end.set()
            return ended

        monkeypatch.setattr(runner._server, "stop", stop_and_go_on)
    assert stages[0] is False  # it had not stopped when the list went on to be read
