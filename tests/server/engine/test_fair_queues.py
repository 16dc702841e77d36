"""Queues in which addresses and their connections take turns, and calls that wait until their client has room."""

import gc
import weakref
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(("before", "begins"), [(63, True), (64, False)])
def test_one_attempt_examines_64_connections(before: int, begins: bool):
    crowd = [f"a{connection}" for connection in range(before)]
    line = Line().push(*crowd, "a1000")
    line.full = set(crowd)
    assert (line.queue.pop() is not None) == begins


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


class PlainLine:
    """Calls in plain lists: those of each connection, the connections of each address, and the addresses in turn."""

    def __init__(self) -> None:
        self.turns: list[tuple[str, list[tuple[Source, list[tuple[int, float]]]]]] = []

    def list_all(self) -> list[tuple[int, float]]:
        return sorted(call for _, connections in self.turns for _, calls in connections for call in calls)

    def push(self, source: Source, number: int, deadline: float) -> None:
        if source.address not in [address for address, _ in self.turns]:
            self.turns.append((source.address, []))
        connections = next(connections for address, connections in self.turns if address == source.address)
        if source not in [other for other, _ in connections]:
            connections.append((source, []))
        next(calls for other, calls in connections if other == source).append((number, deadline))

    def remove(self, number: int) -> int:
        for _, connections in self.turns:
            for _, calls in connections:
                calls[:] = [call for call in calls if call[0] != number]
            connections[:] = [(source, calls) for source, calls in connections if calls]
        self.turns = [(address, connections) for address, connections in self.turns if connections]
        return number

    def pass_turn(self) -> None:
        address, connections = self.turns.pop(0)
        self.turns.append((address, [*connections[1:], connections[0]]))

    def pop(self, full: set[str]) -> int | None:
        first = None
        for _ in range(MAX_EXAMINED if self.turns else 0):
            source, calls = self.turns[0][1][0]
            if source == first:
                return None
            number = calls[0][0]
            self.pass_turn()
            if source.connection not in full:
                return self.remove(number)
            first = first or source
        return None

    def pop_expired(self, now: float, most: int) -> list[int]:
        return [self.remove(number) for number, deadline in self.list_all()[:most] if deadline <= now]


def find_excess(line: PlainLine) -> set[int]:
    """Returns the newest calls of the connections with the most calls, of the addresses with the most."""
    groups = [[calls for _, calls in connections] for _, connections in line.turns]
    most = max(sum(map(len, group)) for group in groups)
    found = [group for group in groups if sum(map(len, group)) == most]
    return {calls[-1][0] for group in found for calls in group if len(calls) == max(map(len, group))}


@pytest.mark.parametrize("wait_seconds", [None, 0.5])
def test_calls_leave_the_queue_like_those_of_plain_lists(wait_seconds: float | None):
    waits = WAIT_SECONDS if wait_seconds is None else wait_seconds
    for seed in range(20):
        random, now, full, plain = Random(seed), 0.0, set[str](), PlainLine()
        has_room = lambda source: source.connection not in full  # noqa: E731, B023
        queue = AdmissionQueue[int](has_room) if wait_seconds is None else AdmissionQueue[int](has_room, wait_seconds)
        for number in range(150):
            now += random.choice((0.0, 0.0625, 0.25))
            source = Source(address := str(random.randrange(4)), f"{address}{random.randrange(3)}")
            step = random.choice(("push", "push", "push", "push", "pop", "pop", "expire", "excess", "full"))
            if step == "push":
                queue.push(source, number, now)
                plain.push(source, number, now + waits)
            elif step == "pop":
                assert queue.pop() == plain.pop(full)
            elif step == "expire":
                most = random.randrange(4)
                assert [*queue.pop_expired(now, most)] == plain.pop_expired(now, most)
            elif step == "full":
                full ^= {source.connection}
            elif plain.turns:
                excess = queue.pop_excess()
                assert excess in find_excess(plain)
                plain.remove(excess)
            sizes = {address: sum(len(calls) for _, calls in connections) for address, connections in plain.turns}
            assert (len(queue), queue.find_most()) == (sum(sizes.values()), max(sizes.values(), default=0))
            assert queue._counts == sizes
