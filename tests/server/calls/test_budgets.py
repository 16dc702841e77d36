"""The two pools, and what one call may take of them."""

import pytest

from admission_calls import MESSAGE, Caller, make
from tensor_reshape.server.calls.budgets import MAX_READS, Budget
from tensor_reshape.server.calls.lifecycle import Lifecycle
from tensor_reshape.server.config import COST_FACTOR, Config

BUDGET = 82 * MESSAGE


@pytest.fixture
def budget() -> Budget:
    return Budget(Config(max_message_bytes=MESSAGE, memory_budget_bytes=BUDGET))


@pytest.fixture
def life() -> Lifecycle:
    """A call of the connection "a" that nothing follows from."""
    life = Caller(make(1)).life
    life.peer = "a"
    return life


def test_each_pool_has_half_of_what_the_transport_leaves(budget: Budget):
    half = (BUDGET - 2 * MESSAGE) // 2
    assert budget.receiving.take("a", half)
    assert budget.working.take("a", half)
    assert (budget.used_bytes, budget.receiving.take("b", 1), budget.working.take("b", 1)) == (2 * half, False, False)


def test_work_takes_so_many_times_a_message(budget: Budget):
    assert (budget.read_cost, budget.work_cost) == (MESSAGE, COST_FACTOR * MESSAGE)


def test_one_connection_receives_only_so_many_messages_at_once(budget: Budget):
    assert [budget.receiving.take("a", MESSAGE) for _ in range(MAX_READS + 1)] == [True] * MAX_READS + [False]


def test_the_pools_follow_what_a_call_holds(budget: Budget, life: Lifecycle):
    before, life.reading = life.holdings, 700
    budget.settle(life, before)
    assert (budget.receiving.used, budget.working.used) == (700, 0)
    before, life.reading, life.reserved, life.in_working_pool = life.holdings, 0, 300, True
    budget.settle(life, before)
    assert (budget.receiving.used, budget.working.used) == (0, 300)


def test_a_call_of_which_nothing_is_left_in_the_working_pool_is_answered_in_the_other_again(
    budget: Budget, life: Lifecycle
):
    life.in_working_pool, life.held = True, 5
    budget.settle(life, (0, 0))
    assert not life.in_working_pool


def test_what_is_given_back_is_granted_to_who_waits(budget: Budget, life: Lifecycle):
    life.reading = budget.receiving._limit
    budget.settle(life, (0, 0))
    budget.receiving.claim("b", MESSAGE, lambda: lambda: None)
    assert budget.is_short
    before, life.reading = life.holdings, 0
    (_granted,) = budget.settle(life, before)
    assert (budget.is_short, budget.receiving.used) == (False, MESSAGE)


def test_a_call_that_is_alone_may_hold_whatever_it_asks_for(budget: Budget, life: Lifecycle):
    assert budget.may_hold(life, 2**60)
    budget.working.take("b", 1)
    assert not budget.may_hold(life, 2**60)


def test_to_hold_less_is_always_allowed(budget: Budget, life: Lifecycle):
    life.held = 100
    budget.settle(life, (0, 0))
    while budget.working.take("b", MESSAGE):
        pass
    assert budget.may_hold(life, 100)
    assert budget.may_hold(life, 99)
