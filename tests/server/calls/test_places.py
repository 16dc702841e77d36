"""Places for calls: how many there are, and what is left of a connection that has none."""

from tensor_reshape.server.calls.lifecycle import Lifecycle
from tensor_reshape.server.calls.places import CROWDED_CALLS, Places


def make_call(peer: str = "a") -> Lifecycle:
    life = Lifecycle(None, "/a.service/Method")  # type: ignore[arg-type] # nothing follows here
    life.peer = peer
    return life


def test_a_call_above_the_number_of_places_is_refused():
    places = Places(2)
    assert [places.take(make_call(peer)) is None for peer in "abc"] == [True, True, False]
    assert len(places.lives) == 2


def test_a_crowded_server_has_only_a_few_places_for_a_connection():
    places = Places(40)
    taken = [places.take(make_call()) for _ in range(31)]
    assert [refusal is None for refusal in taken] == [True] * 30 + [False]
    assert places.is_crowded
    assert [places.take(make_call("b")) is None for _ in range(CROWDED_CALLS + 1)] == [True] * CROWDED_CALLS + [False]


def test_a_place_is_given_back_once():
    places, first, second = Places(2), make_call(), make_call()
    places.take(first)
    places.take(second)
    for _ in range(2):
        places.give_back(first)
    assert (places.lives, places.calls) == ({second}, {"a": 1})


def test_nothing_is_kept_of_a_connection_that_has_no_call():
    places, call = Places(2), make_call()
    places.take(call)
    places.give_back(call)
    assert (places.lives, places.calls) == (set(), {})


def test_a_call_without_a_name_counts_for_no_connection():
    places, call = Places(2), make_call("")
    places.take(call)
    assert places.calls == {}
    places.give_back(call)
    assert (places.lives, places.calls) == (set(), {})
