"""Queues in which addresses take turns, and for each address its connections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.engine.fair_queues import FairQueue

PLACES = [Source(address, address + number) for address in "abc" for number in "12"]
B1, B2 = Source("b", "b1"), Source("b", "b2")
SOURCES = st.lists(st.sampled_from(PLACES), max_size=30)
Item = tuple[Source, int]


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


def name(*connections: str) -> list[Source]:
    return [Source(connection[0], connection) for connection in connections]


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
def test_fair_queue_alternates_between_addresses_and_connections(
    sources: list[Source],
):
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
