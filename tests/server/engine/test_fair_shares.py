"""A pool without an engine: granted memory, waiting claims, and their order."""

import pytest

from tensor_reshape.server.calls.sources import Source, find_source
from tensor_reshape.server.engine.fair_shares import MAX_EXAMINED, Claim, FairPool

LIMIT, RESERVE, SHARE = 100, 25, 40
UNIX = find_source("unix:")


def at(address: str, connection: int = 1) -> Source:
    return Source(address, f"{address}{connection}")


class Wishes:
    """Claims on a pool, and the order in which they were granted."""

    def __init__(self, share: int = SHARE) -> None:
        self.pool = FairPool[str](LIMIT, RESERVE, share)
        self.granted: list[str] = []

    def take(self, **sizes: int) -> "Wishes":
        """Takes available memory for the first connection of each address."""
        for address, size in sizes.items():
            self.pool.change(at(address), size)
        return self

    def claim(self, source: Source, size: int, owner: str = "") -> Claim[str]:
        claim = self.pool.claim(source, size, owner or source.connection)
        self.grant()
        return claim

    def free(self, source: Source, size: int) -> None:
        self.pool.change(source, -size)
        self.grant()

    def withdraw(self, claim: Claim[str]) -> None:
        self.pool.withdraw(claim)
        self.grant()

    def grant(self) -> None:
        while claim := self.pool.grant():
            self.granted.append(claim.owner)


@pytest.mark.parametrize(
    ("taken", "address", "most"),
    [
        ({"a": 10, "b": 10}, "a", 55),  # together they leave the reserve free
        ({"a": 60, "b": 10}, "a", 5),
        ({"a": 75}, "a", 0),  # more than its fair share, which is a half
        ({"a": 75}, "b", 25),  # an address without memory may have all the rest
        ({"a": 60, "b": 20}, "b", 13),  # its fair share, a third
        ({"a": 60, "b": 33}, "b", 0),
        ({"a": 40, "b": 30, "c": 5}, "c", 20),  # a quarter
        ({"a": 99}, "b", 1),
        ({"a": 100}, "b", 0),
        ({"a": 1000}, "b", 0),
    ],
)
def test_address_exceeds_its_fair_memory_share_only_outside_the_reserve(taken: dict[str, int], address: str, most: int):
    pool = Wishes(share=2000).take(**taken).pool
    assert (pool.fits(at(address), most) or not most, pool.fits(at(address), most + 1)) == (True, False)


def test_connection_without_memory_may_use_half_of_the_reserve():
    pool = Wishes().take(a=80).pool
    assert [pool.take(at("a", connection), 4) for connection in (1, 2, 2, 3)] == [False, True, False, True]
    assert [pool.take(at(address, 4), 4) for address in ("a", "b")] == [False, True]


def test_connection_without_memory_is_granted_memory_before_others():
    wishes = Wishes().take(a=20, b=80)
    wishes.claim(at("a"), 10)
    wishes.claim(at("a", 2), 10)
    assert wishes.pool.count_starving_connections() == {"a": 1}
    wishes.free(at("b"), 75)
    assert wishes.granted == ["a2", "a1"]


def test_memory_pool_take_succeeds_within_its_capacity():
    pool = Wishes().pool
    taken = [pool.take(at(address), size) for address, size in (("a", 30), ("b", 30), ("c", 50))]
    assert (taken, pool.used) == ([True, True, False], 60)


def test_connection_memory_is_limited_to_a_share_of_its_address():
    pool = Wishes().pool
    assert [pool.take(at("a"), 20) for _ in range(3)] == [True, True, False]
    assert pool.take(at("a", 2), 20)


def test_unix_socket_connections_have_no_memory_share_limit():
    pool = Wishes().pool
    assert [pool.take(UNIX, 25) for _ in range(4)] == [True, True, True, False]


def test_only_memory_request_is_granted_even_above_the_limit():
    wishes = Wishes()
    wishes.claim(at("a"), 1000)
    assert (wishes.granted, wishes.pool.take(at("b"), 1)) == (["a1"], False)


def test_memory_pool_take_fails_while_other_requests_wait():
    wishes = Wishes().take(a=90)
    wishes.claim(at("b"), 30)
    assert wishes.pool.take(at("c"), 10) is False
    wishes.free(at("a"), 90)
    assert wishes.granted == ["b1"]


def test_memory_is_granted_to_waiting_addresses_in_turn():
    wishes = Wishes().take(running=100)
    for connection in (1, 2, 3):
        wishes.claim(at("many", connection), 20)
    for name in ("first", "second"):
        wishes.claim(at("one"), 20, name)
    wishes.free(at("running"), 100)
    assert wishes.granted == ["many1", "first", "many2", "many3"]  # the rest of the reserve is for others


def test_memory_is_granted_to_connections_of_an_address_in_turn():
    wishes = Wishes().take(running=100)
    for name in ("first", "second", "third"):
        wishes.claim(at("a"), 10, name)
    wishes.claim(at("a", 2), 10)
    wishes.free(at("running"), 100)
    assert wishes.granted == ["first", "a2", "second", "third"]


def test_address_without_memory_is_granted_memory_first():
    wishes = Wishes().take(a=40, b=30, c=30)
    wishes.claim(at("a"), 5)
    wishes.claim(at("new"), 8)
    wishes.free(at("a"), 33)
    assert wishes.granted == ["new1", "a1"]


def test_new_address_is_granted_memory_while_others_must_wait():
    wishes = Wishes().take(a=35, b=20, c=20)
    wishes.claim(at("b"), 10)
    wishes.claim(at("new"), 10)
    assert wishes.granted == ["new1"]


def test_small_memory_requests_do_not_overtake_a_new_address():
    wishes = Wishes().take(a=30, b=30)
    wishes.claim(at("new"), 60)
    wishes.claim(at("a"), 5)
    wishes.free(at("b"), 10)
    assert wishes.granted == []
    wishes.free(at("b"), 20)
    assert wishes.granted == ["new1"]


def test_memory_request_above_its_connection_share_delays_no_other():
    wishes = Wishes().take(a=SHARE)
    for name in ("first", "second"):
        wishes.claim(at("a"), 10, name)
    assert wishes.pool.take(at("a", 2), 10)
    assert wishes.pool.take(at("b"), 10)
    for granted in (["first"], ["first", "second"]):
        wishes.free(at("a"), 10)
        assert wishes.granted == granted


def test_waiting_memory_requests_are_granted_within_the_connection_share():
    wishes = Wishes().take(a=SHARE, b=1)
    for name in ("first", "second", "third"):
        wishes.claim(at("a"), 15, name)
    wishes.free(at("a"), SHARE)
    assert wishes.granted == ["first", "second"]


def test_memory_requests_above_a_share_delay_no_other_connection():
    wishes = Wishes().take(a=30, b=70)
    for name in ("first", "above the share"):
        wishes.claim(at("a"), 10, name)
    wishes.claim(at("a", 2), 10)
    wishes.claim(at("a", 2), 10, "again")
    wishes.free(at("b"), 69)
    assert wishes.granted == ["a2", "first", "again"]


def grow_above_share() -> tuple[Wishes, Claim[str]]:
    """Makes two claims of a connection, which then grows so that the first claim is above its share."""
    wishes = Wishes().take(a=20, b=45)
    first = wishes.claim(at("a"), 15, "first")
    wishes.claim(at("a"), 1, "second")
    return wishes.take(a=8), first


def test_connection_above_its_memory_share_does_not_delay_its_address():
    wishes, _ = grow_above_share()
    wishes.claim(at("a", 2), 2)
    assert wishes.granted == ["a2"]


def test_postponed_memory_request_stays_first_of_its_connection():
    wishes, _ = grow_above_share()
    wishes.claim(at("c"), 2)
    wishes.free(at("a"), 28)
    assert wishes.granted == ["c1", "first", "second"]


def test_postponed_memory_request_can_be_cancelled():
    wishes, first = grow_above_share()
    wishes.grant()
    wishes.withdraw(first)
    assert wishes.granted == ["second"]  # the second claim is smaller, and within the share


def test_clients_behind_one_proxy_have_separate_memory_shares():
    wishes = Wishes().take(other=90)
    first, second = Source("first", "proxy"), Source("second", "proxy")
    for source in (first, first, second):
        wishes.claim(source, 30, source.address)
    wishes.free(at("other"), 90)
    assert wishes.granted == ["first", "second"]


def test_cancelled_memory_request_behind_a_proxy_is_not_granted():
    wishes, first, second = Wishes().take(other=98), Source("first", "proxy"), Source("second", "proxy")
    for source in (first, second):
        wishes.pool.change(source, 1)
    gone, _, also_gone = (wishes.claim(source, 5, name) for source, name in ((second, "a"), (first, "b"), (first, "c")))
    for claim in (gone, also_gone):
        wishes.withdraw(claim)
    wishes.free(at("other"), 98)
    assert wishes.granted == ["b"]


def test_cancelled_memory_request_is_not_granted_and_delays_no_other():
    wishes = Wishes().take(a=100)
    first = wishes.claim(at("b"), 30)
    wishes.claim(at("c"), 20)
    wishes.withdraw(first)
    wishes.withdraw(first)
    wishes.free(at("a"), 100)
    assert (wishes.granted, wishes.pool.used) == (["c1"], 20)


def test_memory_request_above_its_share_can_be_cancelled():
    wishes = Wishes().take(a=SHARE)
    claims = [wishes.claim(at("a"), 10, name) for name in ("first", "second", "third")]
    wishes.withdraw(claims[0])
    wishes.free(at("a"), 10)
    wishes.withdraw(claims[2])
    assert wishes.granted == ["second"]


def test_cancelling_a_memory_request_lets_the_next_be_granted():
    wishes = Wishes().take(a=SHARE, b=60)
    first = wishes.claim(at("a"), 30, "first")
    wishes.claim(at("a"), 20, "second")
    wishes.pool.change(
        at("c"), 30
    )  # so there is no memory for the first claim, although the connection then holds none
    wishes.free(at("a"), SHARE)
    wishes.free(at("c"), 10)
    assert wishes.granted == []
    wishes.withdraw(first)
    assert wishes.granted == ["second"]


def test_cancelling_a_granted_memory_request_has_no_effect():
    wishes = Wishes()
    wishes.withdraw(wishes.claim(at("a"), 10))
    assert wishes.pool.used == 10


def test_memory_pool_counts_new_addresses_and_detects_heavy_users():
    wishes = Wishes().take(a=50, b=20)
    assert [wishes.pool.is_greedy(address) for address in ("a", "b", "nobody")] == [True, False, False]
    assert [wishes.pool.is_crowded, wishes.take(b=5).pool.is_crowded] == [False, True]
    for source in (at("a"), at("new"), at("new", 2), at("other")):
        wishes.claim(source, 30)
    assert wishes.pool.newcomers == 2
    smallest = FairPool[str](1, 0, 1)
    smallest.change(at("a"), 1)
    assert [smallest.is_greedy(address) for address in ("a", "b")] == [True, False]


def test_memory_pool_forgets_addresses_without_memory():
    wishes = Wishes()
    for number in range(100):
        wishes.take(**{str(number): 1})
    wishes.withdraw(wishes.claim(at("late"), 90))
    for number in range(100):
        wishes.free(at(str(number)), 1)
    pool = wishes.pool
    assert (pool.used, pool._addresses, pool._connections, pool.waiting.queues, pool._newcomers) == (0, {}, {}, {}, {})


def test_new_address_is_granted_memory_among_many_waiting_addresses():
    pool = FairPool[str](4 * MAX_EXAMINED, MAX_EXAMINED, 4 * MAX_EXAMINED)
    for number in range(MAX_EXAMINED):
        pool.change(at(str(number)), 3)
        pool.claim(at(str(number)), 2, "")
    pool.claim(at("new"), 1, "new")
    claim = pool.grant()
    assert claim is not None
    assert claim.owner == "new"


@pytest.mark.parametrize(("before", "is_granted"), [(63, True), (64, False)])
@pytest.mark.parametrize("is_new", [False, True], ids=["addresses with memory", "new addresses"])
def test_one_grant_examines_64_addresses(before: int, is_granted: bool, is_new: bool):
    pool = FairPool[str](1000, 0, 1000)
    pool.change(at("other"), 500)
    for number in range(before + 1):
        if not is_new:
            pool.change(at(str(number)), 1)
        pool.claim(at(str(number)), 1 if number == before else 501, "")
    claim = pool.grant()
    assert (claim and claim.source) == (at(str(before)) if is_granted else None)


@pytest.mark.parametrize(
    ("taken", "size", "is_taken"),
    [
        ({"b": 40}, 35, True),  # the reserve stays free
        ({"b": 41}, 35, True),  # it is less than the fair share, a third of the pool, and the reserve is used
        ({"b": 70}, 31, False),  # more than the pool has
        ({"a": 10}, 30, True),  # the connection share
        ({"a": 10}, 31, False),
        ({"a": 40, "b": 10}, 1, False),
    ],
)
def test_pool_gives_exactly_up_to_its_limits(taken: dict[str, int], size: int, is_taken: bool):
    pool = Wishes().take(**taken).pool
    used = pool.used
    assert pool.take(at("a"), size) == is_taken
    assert pool.used == used + size * is_taken
