"""Calls that wait until their client has room: turns, deadlines, and the client with the most calls."""

import gc
import weakref

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.engine.fair_queues import MAX_EXAMINED, WAIT_SECONDS, AdmissionQueue


def at(address: str, connection: int = 1) -> Source:
    return Source(address, f"{address}{connection}")


class Waiting:
    """A call that waits."""

    def __init__(self, name: str) -> None:
        self.name = name


class Line:
    """A queue of calls with the names of their connections. A client has room unless the test adds it to `full`."""

    def __init__(self) -> None:
        self.full: set[Source] = set()
        self.queue = AdmissionQueue[Waiting](lambda source: source not in self.full)

    def push(self, *sources: Source, now: float = 0.0) -> "Line":
        for source in sources:
            self.queue.push(source, Waiting(source.connection), now)
        return self

    def pop_all(self) -> list[str]:
        return [call.name for call in iter(self.queue.pop, None)]

    def pop_expired(self, now: float, most: int) -> list[str]:
        return [call.name for call in self.queue.pop_expired(now, most)]


def test_waiting_calls_of_addresses_and_connections_begin_in_turn():
    line = Line().push(at("a"), at("a"), at("a", 2), at("b"))
    assert line.pop_all() == ["a1", "b1", "a2", "a1"]


def test_client_without_room_does_not_delay_other_clients():
    line = Line().push(at("a"), at("a", 2), at("b"), at("a"))
    line.full = {at("a")}
    assert (line.pop_all(), len(line.queue)) == (["b1", "a2"], 2)
    line.full.clear()
    assert (line.pop_all(), len(line.queue)) == (["a1", "a1"], 0)


def test_call_behind_many_clients_without_room_begins_after_several_attempts():
    crowd = [at("a", connection) for connection in range(3 * MAX_EXAMINED)]
    line = Line().push(*crowd, at("a", 1000))
    line.full = set(crowd)
    assert [line.pop_all() for _ in range(4)][-1] == ["a1000"]


def test_calls_expire_in_the_order_of_their_arrival():
    line = Line().push(at("a"), at("b"), now=1.0).push(at("c"), now=2.0)
    line.full = {at("b"), at("c")}
    assert line.pop_all() == ["a1"]
    assert line.pop_expired(0.9 + WAIT_SECONDS, 9) == []
    assert line.pop_expired(2.0 + WAIT_SECONDS, 9) == ["b1", "c1"]
    assert (len(line.queue), line.queue.pop()) == (0, None)


def test_one_check_expires_a_limited_number_of_calls():
    line = Line().push(*[at("a")] * 5)
    assert len(line.pop_expired(WAIT_SECONDS, 2)) == 2
    assert len(line.queue) == 3


def test_excess_is_the_newest_call_of_the_longest_queue():
    line = Line().push(at("a"), at("a", 2), at("a", 2), at("a"), at("a", 2), at("b"), at("b"))
    assert line.queue.pop_excess().name == "a2"
    line.push(*[at("b", 3)] * 9)
    assert [line.queue.pop_excess().name for _ in range(2)] == ["b3", "b3"]


def test_call_that_left_the_queue_is_not_kept_in_memory():
    class Call:
        pass

    queue, call = AdmissionQueue[Call](lambda _: True), Call()
    queue.push(at("a"), Call(), 0.0)
    queue.push(at("b"), call, 0.0)
    kept = weakref.ref(call)
    del call
    assert queue.pop_excess() is not kept()
    queue.pop()
    gc.collect()
    assert kept() is None


STEPS = st.lists(st.tuples(st.sampled_from(["push", "pop", "expire", "excess"]), st.integers(0, 3), st.integers(0, 2)))


@examples(300)
@given(STEPS)
def test_each_call_leaves_the_queue_once(steps: list[tuple[str, int, int]]):
    queue, now, pushed, left = AdmissionQueue[int](lambda source: source != at("0", 0)), 0.0, 0, list[int]()
    for step, address, connection in steps:
        now += 0.3
        if step == "push":
            queue.push(at(str(address), connection), pushed, now)
            pushed += 1
        elif step == "expire":
            left += queue.pop_expired(now, 2)
        elif len(queue) and (found := queue.pop() if step == "pop" else queue.pop_excess()) is not None:
            left.append(found)
    left += queue.pop_expired(now + WAIT_SECONDS, pushed)
    assert (sorted(left), len(queue), queue._counts) == (list(range(pushed)), 0, {})
