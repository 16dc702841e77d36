"""The quota of one caller, and the definition of a caller."""

import pytest

from engine_calls import Clock, name_peer
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls import gates
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.gates import CallerQuotas, build_quotas, find_caller
from tensor_reshape.server.config import Config

ONE, OTHER = "ipv4:192.0.2.1:1000", "ipv4:192.0.2.2:1000"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make_info(peer: str = ONE, identity: str = "") -> CallInfo:
    info = CallInfo("/a/B", (), peer)
    info.identity = identity
    return info


def admit(quotas: CallerQuotas, peer: str = ONE, count: int = 1) -> list[CallInfo]:
    infos = [make_info(peer) for _ in range(count)]
    for info in infos:
        quotas.admit(info)
    return infos


def reject(quotas: CallerQuotas, peer: str = ONE) -> LimitError:
    with pytest.raises(LimitError) as caught:
        quotas.admit(make_info(peer))
    assert caught.value.reason == Reason.QUOTA_EXCEEDED
    return caught.value


def test_quota_limits_the_running_calls_of_a_client(clock: Clock):
    quotas = CallerQuotas(2, 0, clock)
    admit(quotas, count=2)
    assert reject(quotas).message == "this caller has 2 running calls, and the limit is 2"


def test_finished_call_frees_its_concurrency_quota(clock: Clock):
    quotas = CallerQuotas(1, 0, clock)
    (info,) = admit(quotas)
    quotas.leave(info)
    admit(quotas)
    reject(quotas)


def test_quotas_of_different_clients_are_independent(clock: Clock):
    quotas = CallerQuotas(1, 1.0, clock)
    admit(quotas, ONE)
    admit(quotas, OTHER)
    reject(quotas, ONE)


def test_call_rate_limit_allows_a_burst_of_one_second(clock: Clock):
    quotas = CallerQuotas(0, 5.0, clock)
    admit(quotas, count=5)
    assert "5 calls per second" in reject(quotas).message


def test_call_after_the_retry_delay_is_admitted(clock: Clock):
    quotas = CallerQuotas(0, 4.0, clock)
    admit(quotas, count=4)
    seconds = reject(quotas).retry_seconds
    assert seconds == pytest.approx(0.25)
    clock.now += seconds or 0.0
    admit(quotas)
    reject(quotas)


def test_rate_limit_below_one_per_second_allows_occasional_calls(clock: Clock):
    quotas = CallerQuotas(0, 0.1, clock)
    admit(quotas)
    assert reject(quotas).retry_seconds == pytest.approx(10)


def test_rejected_call_uses_no_rate_limit_token(clock: Clock):
    quotas = CallerQuotas(0, 1.0, clock)
    admit(quotas)
    for _ in range(100):
        reject(quotas)
    clock.now += 1
    admit(quotas)


def test_idle_client_does_not_accumulate_rate_limit_tokens(clock: Clock):
    quotas = CallerQuotas(0, 3.0, clock)
    admit(quotas)
    clock.now += 1000
    admit(quotas, count=3)
    reject(quotas)


def test_concurrency_quota_error_has_no_retry_delay(clock: Clock):
    quotas = CallerQuotas(1, 0, clock)
    admit(quotas)
    assert reject(quotas).retry_seconds is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((ONE,), ("ipv4:192.0.2.1:2",), True),
        (("ipv6:%5B2001:db8:1:2::1%5D:1",), ("ipv6:%5B2001:db8:1:2:ffff::9%5D:2",), True),
        (("ipv6:%5B2001:db8:1:2::1%5D:1",), ("ipv6:%5B2001:db8:1:3::1%5D:1",), False),
        (("unix:",), ("unix:/path",), True),
        ((ONE, "ann"), (OTHER, "ann"), True),
        ((ONE, "ann"), (ONE, "bob"), False),
        ((ONE,), (OTHER, find_caller(make_info(ONE))), False),  # an identity is never equal to a host
    ],
)
def test_quota_applies_per_identity_host_ipv6_network_or_socket(
    one: tuple[str, ...], other: tuple[str, ...], same: bool
):
    assert (find_caller(make_info(*one)) == find_caller(make_info(*other))) == same


@pytest.mark.parametrize(("rate", "most"), [(10.0, 3), (0, 1)], ids=["with a rate", "without"])
def test_quota_table_forgets_idle_clients(clock: Clock, rate: float, most: int):
    quotas = CallerQuotas(5, rate, clock)
    for number in range(100):
        for info in admit(quotas, f"ipv4:192.0.2.{number}:1"):
            quotas.leave(info)
        clock.now += 0.5
    assert len(quotas) <= most


def test_quota_table_size_is_limited_for_many_addresses(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gates, "MAX_CALLERS", 20)
    table = CallerQuotas(1, 0.001, clock)
    (info,) = admit(table, ONE)
    for number in range(1000):
        for passing in admit(table, name_peer(number)):
            table.leave(passing)
    assert len(table) == 20
    reject(table, ONE)
    table.leave(info)


@pytest.mark.parametrize(
    ("config", "count"),
    [(Config(), 0), (Config(max_calls_per_caller=1), 1), (Config(max_calls_per_caller_per_second=1.0), 1)],
)
def test_quota_check_exists_only_if_configured(config: Config, count: int):
    assert len(build_quotas(config)) == count
