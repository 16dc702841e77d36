"""Who resets too many calls: what each reset costs, what an answer is worth, and whom nobody trusts."""

import math

import pytest

from tensor_reshape.server.calls.resets import (
    ACCUSED_SILENCE_SECONDS,
    BURST_SECONDS,
    DISTRUST_SECONDS,
    DISTRUSTED_TOKENS,
    LATE_SECONDS,
    MAX_BUCKETS,
    MIN_BURST,
    SILENCE_SECONDS,
    ResetBuckets,
)

RATE = 64.0  # of which the inverse is exact
BURST = int(RATE * BURST_SECONDS)
A, SAME_ADDRESS, ELSEWHERE = "ipv4:10.0.0.1:4000", "ipv4:10.0.0.1:4001", "ipv4:10.0.0.2:4000"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def buckets(clock: Clock) -> ResetBuckets:
    return ResetBuckets(RATE, clock)


def reset(buckets: ResetBuckets, count: int, peer: str = A, seconds_left: float = math.inf) -> set[str]:
    for _ in range(count):
        buckets.note_reset(peer, seconds_left)
    return set(buckets.take_offenders())


def answer(buckets: ResetBuckets, count: int, peer: str = A) -> None:
    for _ in range(count):
        buckets.note_answer(peer)


def test_a_burst_is_free_and_one_more_is_not(buckets: ResetBuckets):
    assert reset(buckets, BURST) == set()
    assert reset(buckets, 1) == {A}


def test_who_is_accused_is_an_offender_at_once_and_his_address_is_distrusted(buckets: ResetBuckets):
    hurried = list[dict[str, float]]()
    buckets.hurry = lambda: hurried.append(buckets.take_offenders())
    buckets.accuse({A})
    assert hurried == [{A: ACCUSED_SILENCE_SECONDS}]
    assert reset(buckets, int(DISTRUSTED_TOKENS), SAME_ADDRESS) == set()
    assert reset(buckets, 1, SAME_ADDRESS) == {SAME_ADDRESS}


@pytest.mark.parametrize("peer", ["unix:", "unix:/run/x"])
def test_nobody_can_be_accused_who_shares_a_name(buckets: ResetBuckets, peer: str):
    buckets.accuse({peer})
    assert buckets.take_offenders() == {}


def test_nobody_is_accused_while_the_server_stops(buckets: ResetBuckets):
    buckets.stop()
    buckets.accuse({A})
    assert buckets.take_offenders() == {}


def test_who_is_accused_is_silenced_for_longer_than_who_resets(buckets: ResetBuckets):
    for _ in range(BURST + 1):
        buckets.note_reset(A, math.inf)
    assert buckets.take_offenders() == {A: SILENCE_SECONDS}
    buckets.note_reset(A, math.inf)
    buckets.accuse({A})
    buckets.note_reset(A, math.inf)
    assert buckets.take_offenders() == {A: ACCUSED_SILENCE_SECONDS}


def test_nobody_hurries_for_who_was_accused_before(buckets: ResetBuckets):
    hurried = list[None]()
    buckets.hurry = lambda: hurried.append(None)
    for peers in ({A}, {A}, {A, ELSEWHERE}, set[str]()):
        buckets.accuse(peers)
    assert len(hurried) == 2


def test_a_low_rate_has_a_burst_all_the_same(clock: Clock):
    buckets = ResetBuckets(1.0, clock)
    assert reset(buckets, int(MIN_BURST)) == set()
    assert reset(buckets, 1) == {A}


def test_who_ends_all_calls_at_once_is_no_offender_because_of_others_from_there(buckets: ResetBuckets):
    answer(buckets, 1000)
    reset(buckets, BURST + 1, SAME_ADDRESS)
    assert reset(buckets, 128) == set()


def test_a_network_of_ipv6_is_one_address(buckets: ResetBuckets):
    first, same, other = (f"ipv6:%5Bfe80:0:0:{net}::{host}%254%5D:1" for net, host in [(1, 1), (1, 2), (2, 1)])
    reset(buckets, BURST + 1, first)
    assert reset(buckets, int(DISTRUSTED_TOKENS) + 1, same) == {same}
    assert reset(buckets, BURST, other) == set()


def test_calls_that_are_read_with_their_resets_after_a_stall_are_late(buckets: ResetBuckets, clock: Clock):
    for _ in range(10):
        assert reset(buckets, 60, seconds_left=0.2) == set()
        clock.now += 0.35


def test_an_offender_is_named_again_with_each_reset(buckets: ResetBuckets):
    assert reset(buckets, BURST + 1) == {A}
    assert buckets.take_offenders() == {}
    assert reset(buckets, 1) == {A}


def test_who_keeps_to_the_rate_is_never_an_offender(buckets: ResetBuckets, clock: Clock):
    reset(buckets, BURST)
    for _ in range(100):
        clock.now += 1 / RATE
        assert reset(buckets, 1) == set()


def test_tokens_are_not_saved_up_beyond_a_burst(buckets: ResetBuckets, clock: Clock):
    reset(buckets, 1)
    clock.now += 3600
    assert reset(buckets, BURST + 1) == {A}


def test_who_has_half_of_the_calls_answered_is_never_an_offender(buckets: ResetBuckets):
    reset(buckets, BURST - 1)
    for _ in range(10 * BURST):
        answer(buckets, 1)
        assert reset(buckets, 1) == set()


def test_a_call_whose_time_was_up_costs_a_small_part(buckets: ResetBuckets):
    assert reset(buckets, 20 * BURST, seconds_left=LATE_SECONDS / 2) == set()
    assert reset(buckets, 40 * BURST, seconds_left=LATE_SECONDS / 2) == {A}


def test_a_call_that_had_time_left_costs_all(buckets: ResetBuckets):
    assert reset(buckets, BURST + 1, seconds_left=2 * LATE_SECONDS) == {A}


def test_connections_do_not_pay_for_each_other(buckets: ResetBuckets):
    assert reset(buckets, BURST) | reset(buckets, BURST, SAME_ADDRESS) == set()


def test_a_new_connection_of_a_distrusted_address_has_few_tokens(buckets: ResetBuckets, clock: Clock):
    reset(buckets, BURST + 1)
    assert reset(buckets, int(DISTRUSTED_TOKENS), SAME_ADDRESS) == set()
    assert reset(buckets, 1, SAME_ADDRESS) == {SAME_ADDRESS}
    assert reset(buckets, BURST, ELSEWHERE) == set()
    clock.now += DISTRUST_SECONDS + 1
    assert reset(buckets, BURST, "ipv4:10.0.0.1:4002") == set()


def test_a_connection_of_a_distrusted_address_earns_trust_by_answers(buckets: ResetBuckets):
    reset(buckets, BURST + 1)
    answer(buckets, BURST, SAME_ADDRESS)
    assert reset(buckets, BURST, SAME_ADDRESS) == set()


def test_the_clients_of_a_unix_socket_are_not_counted(buckets: ResetBuckets):
    assert reset(buckets, 2 * BURST, "unix:") == set()


def test_nothing_is_counted_once_the_server_stops(buckets: ResetBuckets):
    buckets.stop()
    assert reset(buckets, 2 * BURST) == set()


def test_what_is_remembered_is_bounded(buckets: ResetBuckets):
    for number in range(MAX_BUCKETS + 100):
        reset(buckets, BURST + 1, f"ipv4:10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1")
    assert len(buckets._buckets) == len(buckets._distrusted) == MAX_BUCKETS


def test_a_connection_that_has_made_up_for_its_resets_is_forgotten(buckets: ResetBuckets, clock: Clock):
    reset(buckets, 5)
    clock.now += 1
    answer(buckets, 1)
    assert len(buckets._buckets) == 0
