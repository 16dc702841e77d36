"""What one caller may have, and who a caller is."""

import pytest

from engine_calls import Clock, name_peer
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine import quotas
from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.quotas import CallerQuotas, build_quotas, find_caller

ONE, OTHER = "ipv4:192.0.2.1:1000", "ipv4:192.0.2.2:1000"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make_head(peer: str = ONE, identity: str = "") -> CallHead:
    head = CallHead("/a/B", ())
    head.name_caller(peer, dict)
    head.identity = identity
    return head


def admit(quotas: CallerQuotas, peer: str = ONE, count: int = 1) -> list[CallHead]:
    heads = [make_head(peer) for _ in range(count)]
    for head in heads:
        quotas.admit(head)
    return heads


def refuse(quotas: CallerQuotas, peer: str = ONE) -> LimitError:
    with pytest.raises(LimitError) as caught:
        quotas.admit(make_head(peer))
    assert caught.value.reason == Reason.QUOTA_EXCEEDED
    return caught.value


def test_a_caller_has_as_many_calls_under_way_as_configured(clock: Clock):
    quotas = CallerQuotas(2, 0, clock)
    admit(quotas, count=2)
    assert refuse(quotas).message == "this caller has 2 running calls, and the limit is 2"


def test_a_call_that_is_over_makes_room_for_another(clock: Clock):
    quotas = CallerQuotas(1, 0, clock)
    (head,) = admit(quotas)
    quotas.leave(head)
    admit(quotas)
    refuse(quotas)


def test_what_one_caller_has_is_nothing_to_another(clock: Clock):
    quotas = CallerQuotas(1, 1.0, clock)
    admit(quotas, ONE)
    admit(quotas, OTHER)
    refuse(quotas, ONE)


def test_a_caller_begins_as_many_calls_at_once_as_in_a_second(clock: Clock):
    quotas = CallerQuotas(0, 5.0, clock)
    admit(quotas, count=5)
    assert "5 calls per second" in refuse(quotas).message


def test_a_caller_that_waits_as_long_as_it_is_told_is_admitted(clock: Clock):
    quotas = CallerQuotas(0, 4.0, clock)
    admit(quotas, count=4)
    seconds = refuse(quotas).retry_seconds
    assert seconds == pytest.approx(0.25)
    clock.now += seconds or 0.0
    admit(quotas)
    refuse(quotas)


def test_less_than_a_call_in_a_second_is_one_call_now_and_then(clock: Clock):
    quotas = CallerQuotas(0, 0.1, clock)
    admit(quotas)
    assert refuse(quotas).retry_seconds == pytest.approx(10)


def test_a_refused_call_costs_its_caller_nothing(clock: Clock):
    quotas = CallerQuotas(0, 1.0, clock)
    admit(quotas)
    for _ in range(100):
        refuse(quotas)
    clock.now += 1
    admit(quotas)


def test_who_rests_for_long_may_not_begin_more_at_once_for_it(clock: Clock):
    quotas = CallerQuotas(0, 3.0, clock)
    admit(quotas)
    clock.now += 1000
    admit(quotas, count=3)
    refuse(quotas)


def test_when_a_call_will_be_over_is_not_known(clock: Clock):
    quotas = CallerQuotas(1, 0, clock)
    admit(quotas)
    assert refuse(quotas).retry_seconds is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((ONE,), ("ipv4:192.0.2.1:2",), True),
        (("ipv6:%5B2001:db8:1:2::1%5D:1",), ("ipv6:%5B2001:db8:1:2:ffff::9%5D:2",), True),
        (("ipv6:%5B2001:db8:1:2::1%5D:1",), ("ipv6:%5B2001:db8:1:3::1%5D:1",), False),
        (("unix:",), ("unix:/path",), True),
        ((ONE, "ann"), (OTHER, "ann"), True),
        ((ONE, "ann"), (ONE, "bob"), False),
        ((ONE,), (OTHER, find_caller(make_head(ONE))), False),  # no identity is taken for a host
    ],
)
def test_a_caller_is_an_identity_or_else_a_host_a_network_or_all_sockets(
    one: tuple[str, ...], other: tuple[str, ...], same: bool
):
    assert (find_caller(make_head(*one)) == find_caller(make_head(*other))) == same


@pytest.mark.parametrize(("rate", "most"), [(10.0, 3), (0, 1)], ids=["with a rate", "without"])
def test_callers_that_have_nothing_are_forgotten(clock: Clock, rate: float, most: int):
    quotas = CallerQuotas(5, rate, clock)
    for number in range(100):
        for head in admit(quotas, f"ipv4:192.0.2.{number}:1"):
            quotas.leave(head)
        clock.now += 0.5
    assert len(quotas) <= most


def test_a_stranger_with_any_number_of_addresses_makes_the_table_neither_grow_nor_forget_who_has_a_call(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(quotas, "MAX_CALLERS", 20)
    table = CallerQuotas(1, 0.001, clock)
    (head,) = admit(table, ONE)
    for number in range(1000):
        for passing in admit(table, name_peer(number)):
            table.leave(passing)
    assert len(table) == 20
    refuse(table, ONE)
    table.leave(head)


@pytest.mark.parametrize(
    ("config", "count"),
    [(Config(), 0), (Config(max_calls_per_caller=1), 1), (Config(max_calls_per_caller_per_second=1.0), 1)],
)
def test_there_is_a_gate_where_there_is_a_quota(config: Config, count: int):
    assert len(build_quotas(config)) == count
