"""Who must go when there is one call too many: against a model that counts everything anew."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.server.builtin.call_slots import CallSlots

PEERS = ("a", "b", "c", "unix:")


@dataclass(eq=False)
class Model:
    """The calls that have a slot, the first to come first, and their peers."""

    total: int
    per_holder: int | None
    calls: dict[int, str] = field(default_factory=dict)

    def take(self, call: int, peer: str) -> int | None:
        self.calls[call] = peer
        counts = Counter(self.calls.values())
        if self.per_holder is not None and peer != "unix:" and counts[peer] > self.per_holder:
            return self.remove_one_of({peer})
        if len(self.calls) > self.total:
            most = max(counts.values())
            return self.remove_one_of({name for name, count in counts.items() if count == most})
        return None

    def remove_one_of(self, peers: set[str]) -> int:
        return min(call for call, peer in self.calls.items() if peer in peers)


@given(
    total=st.integers(1, 6),
    per_holder=st.none() | st.integers(1, 4),
    spares_first=st.booleans(),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.sampled_from(PEERS)), max_size=40),
)
def test_slots_are_never_more_than_there_are_and_the_most_crowded_holder_pays(
    total: int, per_holder: int | None, spares_first: bool, steps: list[tuple[bool, int, str]]
):
    slots = CallSlots[int](total, per_holder=per_holder, spares_first=spares_first)
    model = Model(total, per_holder)
    for number, (takes, index, peer) in enumerate(steps):
        if not takes:
            slots.free(index)
            model.calls.pop(index, None)
            continue
        call = 100 + number if index % 2 else number
        leaver, expected = slots.take(call, peer), model.take(call, peer)
        assert (leaver is None) == (expected is None)
        if leaver is not None and expected is not None:
            counts = Counter(model.calls.values())
            assert counts[model.calls[leaver]] == counts[model.calls[expected]]
            of_one_peer = [one for one, name in model.calls.items() if name == model.calls[leaver]]
            assert leaver == of_one_peer[-1 if spares_first else 0]
            del model.calls[leaver]
        assert set(slots.list_calls()) == set(model.calls)
        assert len(model.calls) <= total


@pytest.mark.parametrize(("spares_first", "leaver"), [(False, 1), (True, 3)])
def test_the_first_or_the_last_of_the_crowd_goes(spares_first: bool, leaver: int):
    slots = CallSlots[int](3, spares_first=spares_first)
    for call, peer in ((0, "honest"), (1, "crowd"), (2, "crowd")):
        assert slots.take(call, peer) is None
    assert slots.take(3, "crowd") == leaver


def test_a_newcomer_goes_only_where_those_who_came_first_stay():
    slots, sparing = CallSlots[int](2), CallSlots[int](2, spares_first=True)
    for call in range(2):
        slots.take(call, str(call))
        sparing.take(call, str(call))
    assert (slots.take(2, "2"), sparing.take(2, "2")) == (0, 2)


def test_a_unix_socket_has_no_share():
    slots = CallSlots[int](9, per_holder=1)
    assert [slots.take(call, "unix:/a") for call in range(9)] == [None] * 9
    assert [slots.take(call, "ipv4:127.0.0.1:1") for call in (9, 10)] == [0, 9]


def test_of_equals_the_one_that_has_lost_most_goes():
    slots = CallSlots[str](3)
    for number in range(4):
        slots.take(f"hostile {number}", f"hostile {number % 4}")
    assert slots.take("honest", "honest") is not None
    for number in range(4, 40):
        leaver = slots.take(f"hostile {number}", f"hostile {number % 4}")
        assert leaver is not None
        assert leaver.startswith("hostile")
    assert "honest" in slots.list_calls()
