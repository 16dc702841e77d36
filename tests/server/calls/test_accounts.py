"""A pool by itself: who gets room, who waits, and whose turn is next."""

from collections.abc import Callable

from tensor_reshape.server.calls.accounts import Claim, Pool

LIMIT, CEILING, SHARE = 100, 75, 40


class Wishes:
    """Claims on a pool, and the order in which they were granted."""

    def __init__(self) -> None:
        self.pool = Pool(LIMIT, CEILING, SHARE)
        self.granted: list[str] = []

    def claim(self, peer: str, size: int, label: str = "") -> Claim:
        def grant() -> Callable[[], None]:
            return lambda: self.granted.append(label or peer)

        claim = self.pool.claim(peer, size, grant)
        self.run()
        return claim

    def free(self, peer: str, size: int) -> None:
        self.pool.change(peer, -size)
        self.run()

    def run(self) -> None:
        for start in self.pool.grant():
            start()


def test_room_is_taken_at_once_where_there_is_some():
    pool = Pool(LIMIT, CEILING, SHARE)
    assert (pool.take("a", 30), pool.take("b", 30), pool.used) == (True, True, 60)


def test_a_connection_has_at_most_its_share():
    pool = Pool(LIMIT, CEILING, SHARE)
    assert [pool.take("a", 20) for _ in range(3)] == [True, True, False]
    assert pool.used == 40


def test_above_the_ceiling_there_is_room_for_connections_that_have_nothing():
    pool = Pool(LIMIT, CEILING, SHARE)
    assert [pool.take(peer, 20) for peer in "abc"] == [True] * 3
    assert [pool.take("a", 16), pool.take("a", 15), pool.take("d", 25), pool.take("e", 1)] == [False, True, True, False]


def test_a_lone_claim_is_granted_however_large_it_is():
    pool = Pool(LIMIT, CEILING, SHARE)
    assert (pool.take("a", 1000), pool.take("a", 1), pool.take("b", 1)) == (True, False, False)


def test_nobody_overtakes_one_who_waits():
    wishes = Wishes()
    assert wishes.pool.take("a", 90)
    wishes.claim("b", 30)
    assert not wishes.pool.take("c", 10)
    wishes.free("a", 90)
    assert wishes.granted == ["b"]


def test_connections_take_turns():
    wishes = Wishes()
    wishes.pool.take("running", 100)
    for label in ("greedy 1", "greedy 2", "greedy 3"):
        wishes.claim("greedy", 20, label)
    for label in ("modest 1", "modest 2"):
        wishes.claim("modest", 20, label)
    wishes.free("running", 100)
    assert wishes.granted == ["greedy 1", "modest 1", "greedy 2"]  # of the rest, a quarter is for others
    wishes.free("greedy", 20)
    assert wishes.granted[3:] == ["modest 2"]


def test_one_who_has_nothing_goes_before_those_that_have():
    wishes = Wishes()
    for peer in "abc":
        wishes.pool.take(peer, 33)
    wishes.claim("a", 1)
    wishes.claim("new", 8)
    wishes.free("b", 33)
    assert wishes.granted == ["new", "a"]


def test_one_who_has_nothing_need_not_wait_behind_those_that_have():
    wishes = Wishes()
    for peer in "abc":
        wishes.pool.take(peer, 25)
    wishes.claim("a", 10)
    assert (wishes.pool.take("b", 10), wishes.pool.take("new", 10)) == (False, True)


def test_who_waits_for_its_own_share_keeps_nobody_waiting():
    wishes = Wishes()
    wishes.pool.take("a", SHARE)
    wishes.claim("a", 10)
    assert (wishes.pool.is_short, wishes.pool.take("b", 10), wishes.granted) == (False, True, [])
    wishes.free("a", 10)
    assert wishes.granted == ["a"]


def test_what_is_withdrawn_is_not_granted_and_keeps_nobody_waiting():
    wishes = Wishes()
    wishes.pool.take("a", 100)
    first = wishes.claim("b", 30)
    wishes.claim("c", 20)
    first.withdraw()
    wishes.free("a", 100)
    assert (wishes.granted, wishes.pool.used) == (["c"], 20)


def test_clients_of_a_unix_socket_share_as_they_like():
    pool = Pool(LIMIT, CEILING, SHARE)
    assert [pool.take("unix:", 20) for _ in range(4)] == [True, True, True, False]


def test_a_pool_forgets_connections_that_have_nothing():
    wishes = Wishes()
    for number in range(100):
        wishes.pool.take(str(number), 1)
    wishes.claim("late", 90).withdraw()
    for number in range(100):
        wishes.free(str(number), 1)
    assert (wishes.pool.used, wishes.pool._accounts) == (0, {})


def test_what_happens_besides_costs_nobody_his_turn():
    wishes = Wishes()
    for peer in ("x", "y", "z"):
        wishes.pool.take(peer, 33)
    for peer in "abc":
        wishes.claim(peer, 20)
    wishes.pool.change("a", 0)
    for peer in ("x", "y", "z"):
        wishes.free(peer, 33)
    assert wishes.granted == ["a", "b", "c"]


def test_a_large_claim_of_a_newcomer_is_not_overtaken_by_small_ones_of_others():
    wishes = Wishes()
    wishes.pool.take("a", 30)
    wishes.pool.take("b", 30)
    wishes.claim("new", 60)
    wishes.claim("a", 5)
    wishes.free("b", 10)
    assert wishes.granted == []
    wishes.free("b", 20)
    assert wishes.granted == ["new"]
