"""Queues in which addresses and their connections take turns, and calls that wait until their client has room."""

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.engine.fair_queues import MAX_EXAMINED, WAIT_SECONDS, AdmissionQueue, FairQueue

Item = tuple[Source, int]


def name(*connections: str) -> list[Source]:
    """Returns connections. The first letter of each is its address."""
    return [Source(connection[0], connection) for connection in connections]


B1, B2 = name("b1", "b2")
SOURCES = st.lists(st.sampled_from(name("a1", "a2", "b1", "b2", "c1", "c2")), max_size=30)


def fill(*sources: Source) -> FairQueue[Item]:
    queue = FairQueue[Item]()
    for number, source in enumerate(sources):
        queue.push(source, (source, number))
    return queue


def empty(queue: FairQueue[Item]) -> list[Item]:
    taken = []
    while queue.queues:
        taken.append(queue.pop())
    return taken


def list_connections(items: list[Item]) -> list[str]:
    return [source.connection for source, _ in items]


@given(SOURCES)
def test_fair_queue_returns_each_item_once_in_connection_order(sources: list[Source]):
    taken = empty(fill(*sources))
    assert sorted(taken, key=lambda item: item[1]) == list(zip(sources, range(len(sources)), strict=True))
    for source in set(sources):
        numbers = [number for owner, number in taken if owner == source]
        assert numbers == sorted(numbers)


@given(SOURCES)
def test_fair_queue_alternates_between_addresses_and_connections(sources: list[Source]):
    taken = [source for source, _ in empty(fill(*sources))]
    addresses = {source.address for source in sources}
    assert {source.address for source in taken[: len(addresses)]} == addresses
    for address in addresses:
        neighbours = {source for source in sources if source.address == address}
        turns = [source for source in taken if source.address == address]
        assert set(turns[: len(neighbours)]) == neighbours


def test_new_address_in_a_fair_queue_waits_one_round():
    queue = fill(*name("a1", "a1", "a2", "b1", "b1"))
    queue.pop()
    for source in name("c1", "a3"):
        queue.push(source, (source, 5))
    assert list_connections(empty(queue)) == ["b1", "a2", "c1", "b1", "a1", "a3"]


def test_fair_queue_pop_may_be_restricted_to_a_connection():
    queue = fill(*name("a1", "b1", "b2", "b1"))
    assert list_connections([queue.pop(source) for source in name("b1", "b2")]) == ["b1", "b2"]
    assert list_connections(empty(queue)) == ["a1", "b1"]


def test_fair_queue_find_returns_the_first_accepted_item():
    queue = fill(*name("a1", "b1", "b2", "b1"))
    assert [queue.find("b", accepted.__contains__) for accepted in ([(B1, 1)], [(B2, 2)], [])] == [
        (B1, 1),
        (B2, 2),
        None,
    ]


def test_fair_queue_does_not_return_removed_items():
    queue, (one, other) = fill(*name("a1", "a1", "a2")), name("a1", "a2")
    queue.remove(one, (one, 1))
    queue.remove(one, (one, 1))
    queue.remove(other, (other, 2))
    assert empty(queue) == [(one, 0)]
    queue.remove(one, (one, 0))
    assert not queue.queues


def test_fair_queue_pop_raises_key_error_when_empty():
    queue = fill(*name("a1"))
    with pytest.raises(KeyError):
        queue.pop(Source("b", "b1"))
    with pytest.raises(KeyError):
        queue.pop(Source("a", "a2"))
    queue.pop()
    with pytest.raises(KeyError):
        queue.pop()


class Waiting:
    """A call that waits."""

    def __init__(self, name: str) -> None:
        self.name = name


class Line:
    """A queue of calls with the names of their connections. A client has room unless a test adds it to `full`."""

    def __init__(self) -> None:
        self.full = set[str]()
        self.queue = AdmissionQueue[Waiting](lambda source: source.connection not in self.full)

    def push(self, *connections: str, now: float = 0.0) -> "Line":
        for source in name(*connections):
            self.queue.push(source, Waiting(source.connection), now)
        return self

    def pop_all(self) -> list[str]:
        return [call.name for call in iter(self.queue.pop, None)]

    def pop_expired(self, now: float, most: int) -> list[str]:
        return [call.name for call in self.queue.pop_expired(now, most)]


def test_waiting_calls_of_addresses_and_connections_begin_in_turn():
    line = Line().push("a1", "a1", "a2", "b1")
    assert line.pop_all() == ["a1", "b1", "a2", "a1"]


def test_client_without_room_does_not_delay_other_clients():
    line = Line().push("a1", "a2", "b1", "a1")
    line.full = {"a1"}
    assert (line.pop_all(), len(line.queue)) == (["b1", "a2"], 2)
    line.full.clear()
    assert (line.pop_all(), len(line.queue)) == (["a1", "a1"], 0)


def test_call_behind_many_clients_without_room_begins_after_several_attempts():
    crowd = [f"a{connection}" for connection in range(3 * MAX_EXAMINED)]
    line = Line().push(*crowd, "a1000")
    line.full = set(crowd)
    assert [line.pop_all() for _ in range(4)][-1] == ["a1000"]


def test_calls_expire_in_the_order_of_their_arrival():
    line = Line().push("a1", "b1", now=1.0).push("c1", now=2.0)
    line.full = {"b1", "c1"}
    assert line.pop_all() == ["a1"]
    assert line.pop_expired(0.9 + WAIT_SECONDS, 9) == []
    assert line.pop_expired(2.0 + WAIT_SECONDS, 9) == ["b1", "c1"]
    assert (len(line.queue), line.queue.pop()) == (0, None)


def test_one_check_expires_a_limited_number_of_calls():
    line = Line().push(*["a1"] * 5)
    assert len(line.pop_expired(WAIT_SECONDS, 2)) == 2
    assert len(line.queue) == 3


def test_excess_is_the_newest_call_of_the_longest_queue():
    line = Line().push("a1", "a2", "a2", "a1", "a2", "b1", "b1")
    assert line.queue.pop_excess().name == "a2"
    line.push(*["b3"] * 9)
    assert [line.queue.pop_excess().name for _ in range(2)] == ["b3", "b3"]


def test_call_that_left_the_queue_is_not_kept_in_memory():
    class Call:
        pass

    queue, call = AdmissionQueue[Call](lambda _: True), Call()
    for source, waiting in zip(name("a1", "b1"), (Call(), call), strict=True):
        queue.push(source, waiting, 0.0)
    kept = weakref.ref(call)
    del call, waiting
    assert queue.pop_excess() is not kept()
    queue.pop()
    gc.collect()
    assert kept() is None


STEPS = st.lists(st.tuples(st.sampled_from(["push", "pop", "expire", "excess"]), st.integers(0, 3), st.integers(0, 2)))


@examples(300)
@given(STEPS)
def test_each_call_leaves_the_queue_once(steps: list[tuple[str, int, int]]):
    queue, now, pushed, left = AdmissionQueue[int](lambda source: source.connection != "00"), 0.0, 0, list[int]()
    for step, address, connection in steps:
        now += 0.3
        if step == "push":
            queue.push(Source(str(address), f"{address}{connection}"), pushed, now)
            pushed += 1
        elif step == "expire":
            left += queue.pop_expired(now, 2)
        elif len(queue) and (found := queue.pop() if step == "pop" else queue.pop_excess()) is not None:
            left.append(found)
    left += queue.pop_expired(now + WAIT_SECONDS, pushed)
    assert (sorted(left), len(queue), queue._counts) == (list(range(pushed)), 0, {})
