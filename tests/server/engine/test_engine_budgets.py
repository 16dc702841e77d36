"""The two memory pools, and the maximum memory of one call."""

import pytest

from engine_calls import MESSAGE, Caller, make
from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.engine import MAX_READS, Budget
from tensor_reshape.server.engine.lifecycle import Lifecycle

BUDGET = 82 * MESSAGE
HALF = (BUDGET - 2 * MESSAGE) // 2
ONE, OTHER = Source("a", "a1"), Source("b", "b1")


@pytest.fixture
def budget() -> Budget:
    return Budget(Config(max_message_bytes=MESSAGE, memory_budget_bytes=BUDGET))


@pytest.fixture
def life() -> Lifecycle:
    """A call of a connection that holds no memory."""
    life = Caller(make(1)).life
    life.source, life.reading, life.holdings = ONE, 0, (0, 0)
    return life


def test_receive_and_work_pools_each_have_half_the_memory_budget(budget: Budget):
    for pool in (budget.receiving, budget.processing):
        assert pool.take(ONE, HALF)
        assert not pool.take(OTHER, 1)
    assert (budget.receiving.used, budget.processing.used) == (HALF, HALF)


def test_quarter_of_each_memory_pool_is_reserved_for_other_addresses(budget: Budget):
    for pool in (budget.receiving, budget.processing):
        pool.change(ONE, HALF * 3 // 4)
        assert [pool.take(source, HALF // 4) for source in (Source("a", "a2"), OTHER)] == [False, True]


def test_connection_receives_a_limited_number_of_messages_concurrently(budget: Budget):
    assert [budget.receiving.take(ONE, MESSAGE) for _ in range(MAX_READS + 1)] == [True] * MAX_READS + [False]


@pytest.mark.parametrize(
    ("size", "kept"), [(0, 0), (10, COST_FACTOR * 20), (30, COST_FACTOR * 30)], ids=["none", "small", "large"]
)
def test_response_memory_is_based_on_larger_of_request_and_response(size: int, kept: int):
    caller = Caller(make(1)).arrive(20).end(size)
    assert caller.life.holdings == (caller.engine.used_bytes, 0) == (kept, 0)


@pytest.mark.parametrize("held", [0, 100])
def test_only_active_stream_may_hold_any_amount_of_memory(budget: Budget, life: Lifecycle, held: int):
    life.held = held
    budget.update(life)
    assert budget.may_hold(life, 2**60)
    budget.processing.take(OTHER, 1)
    assert not budget.may_hold(life, 2**60)


def test_stream_may_always_reduce_its_memory_reservation(budget: Budget, life: Lifecycle):
    life.held = 100
    budget.update(life)
    budget.processing.change(OTHER, HALF)
    assert [budget.may_hold(life, size) for size in (101, 100, 99)] == [False, True, True]


def test_connection_may_always_process_four_messages_of_the_largest_size():
    pool = Budget(Config(max_message_bytes=MESSAGE, memory_budget_bytes=14 * MESSAGE)).processing
    assert [pool.take(ONE, size) for size in (1, 4 * MESSAGE - 1, 1)] == [True, True, False]


def test_budget_updates_only_the_pool_whose_count_changes(
    budget: Budget, life: Lifecycle, monkeypatch: pytest.MonkeyPatch
):
    changes: list[tuple[str, int]] = []
    monkeypatch.setattr(budget.receiving, "change", lambda _source, size: changes.append(("receiving", size)))
    monkeypatch.setattr(budget.processing, "change", lambda _source, size: changes.append(("processing", size)))
    for life.reading, life.held in ((MESSAGE, 0), (MESSAGE, 100), (MESSAGE, 100), (0, 0)):
        budget.update(life)
    assert changes == [("receiving", MESSAGE), ("processing", 100), ("receiving", -MESSAGE), ("processing", -100)]
