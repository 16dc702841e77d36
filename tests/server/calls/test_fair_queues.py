"""Queues in which connections take turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.server.calls.fair_queues import FairQueue

PEERS = st.lists(st.sampled_from("abcd"), max_size=30)


def fill(peers: list[str]) -> FairQueue[tuple[str, int]]:
    queue = FairQueue[tuple[str, int]]()
    for number, peer in enumerate(peers):
        queue.push(peer, (peer, number))
    return queue


def empty(queue: FairQueue[tuple[str, int]]) -> list[tuple[str, int]]:
    taken = []
    while queue:
        taken.append(queue.pop())
    return taken


@given(PEERS)
def test_all_that_was_added_is_taken_once_and_in_the_order_of_its_connection(peers: list[str]):
    assert sorted(empty(fill(peers)), key=lambda item: item[1]) == list(zip(peers, range(len(peers)), strict=True))
    for peer in set(peers):
        numbers = [number for owner, number in empty(fill(peers)) if owner == peer]
        assert numbers == sorted(numbers)


@given(PEERS)
def test_no_connection_has_a_second_turn_before_all_others_had_one(peers: list[str]):
    taken = [peer for peer, _ in empty(fill(peers))]
    first = len(set(peers))
    assert set(taken[:first]) == set(peers)


def test_a_connection_that_comes_late_waits_for_one_turn_of_each_other():
    queue = fill(["a", "a", "a", "b", "b"])
    queue.pop()
    queue.push("c", ("c", 5))
    assert [peer for peer, _ in empty(queue)] == ["b", "a", "c", "b", "a"]


def test_nothing_is_taken_from_an_empty_queue():
    queue = fill(["a"])
    queue.pop()
    assert not queue
    with pytest.raises(KeyError):
        queue.pop()
