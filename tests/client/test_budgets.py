"""The deadline of a call, and the token bucket of a client."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.client.budgets import Deadline, RetryBudget

OUTCOMES = st.lists(st.sampled_from(["success", "failure"]), max_size=400)


def count_grants(budget: RetryBudget, failures: int) -> int:
    return sum(budget.take() for _ in range(failures))


def test_half_of_the_tokens_are_granted_to_a_client_that_only_fails():
    assert count_grants(RetryBudget(), 1000) == 49


def test_ten_answers_make_room_for_one_more():
    budget = RetryBudget()
    count_grants(budget, 50)
    for _ in range(9):
        budget.note_success()
    assert not budget.take()
    for _ in range(21):
        budget.note_success()
    assert budget.take()


def test_answers_save_no_more_than_a_full_bucket():
    budget = RetryBudget()
    for _ in range(1000):
        budget.note_success()
    assert count_grants(budget, 1000) == 49


@given(OUTCOMES)
def test_what_is_granted_is_at_most_a_constant_and_a_tenth_of_what_was_answered(outcomes: list[str]):
    budget, grants = RetryBudget(), 0
    for outcome in outcomes:
        if outcome == "success":
            budget.note_success()
        else:
            grants += budget.take()
    assert grants <= 50 + outcomes.count("success") / 10


def test_threads_share_a_budget():
    budget, granted = RetryBudget(), list[int]()
    threads = [threading.Thread(target=lambda: granted.append(count_grants(budget, 20))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == 49


def test_no_deadline_leaves_no_limit():
    deadline = Deadline(None)
    assert (deadline.remaining_seconds, deadline.is_within(1e9)) == (None, False)


@pytest.mark.parametrize(("seconds", "within"), [(100.0, 1.0), (100.0, 99.0)])
def test_a_deadline_is_not_within_less_than_what_is_left(seconds: float, within: float):
    deadline = Deadline(seconds)
    assert deadline.remaining_seconds == pytest.approx(seconds, abs=0.5)
    assert (deadline.is_within(within), deadline.is_within(seconds)) == (False, True)


def test_a_deadline_that_has_passed_leaves_what_grpc_still_takes_for_a_timeout():
    deadline = Deadline(1e-9)
    assert (deadline.remaining_seconds, deadline.is_within(0)) == (1e-3, True)
