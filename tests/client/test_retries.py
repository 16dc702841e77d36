"""Budgets, and which failure is followed by another attempt, after what."""

import math
import threading
import weakref

import pytest
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.client.deadlines import Deadline
from tensor_reshape.client.errors import CallTimeoutError, InternalServerError, ResponseError, ServiceError
from tensor_reshape.client.options import Endpoint
from tensor_reshape.client.retries import PATIENCE_SECONDS, Attempts, Pause, RetryBudget
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, TensorReshapeError

LOST = [
    ServiceError("", StatusCode.UNAVAILABLE),
    ServiceError("", StatusCode.CANCELLED),
    # As gRPC words them where a proxy loses the server of a stream.
    InternalServerError("Stream removed (RST_STREAM (Received RST_STREAM with error code 2))", StatusCode.INTERNAL),
    InternalServerError("Received RST_STREAM with error code 2", StatusCode.INTERNAL),
    ServiceError("Stream removed (Data frame with END_STREAM flag received)", StatusCode.UNKNOWN),
]
FINAL = [
    CallTimeoutError("", StatusCode.DEADLINE_EXCEEDED),
    InternalServerError("internal error", StatusCode.INTERNAL),
    ServiceError("", StatusCode.UNKNOWN),
    ServiceError("", StatusCode.RESOURCE_EXHAUSTED),
    LimitError.of(Reason.TENSOR_TOO_LARGE, ""),
    InvalidRequestError.of(Reason.NOT_DIVISIBLE, ""),
    ResponseError(""),
]


def ask_back(seconds: float) -> LimitError:
    """Returns what a server says that wants to be asked again after so long."""
    refusal = LimitError.of(Reason.SERVER_BUSY, "")
    refusal.retry_seconds = seconds
    return refusal


BUSY = ask_back(0.2)


def begin(timeout: float = math.inf, endpoint: Endpoint | None = None) -> Attempts:
    endpoint = endpoint or Endpoint("127.0.0.1:1", None, (), 30)
    return Attempts(endpoint.budget, endpoint.start_call(timeout, {}).deadline)


def plan(attempts: Attempts, error: TensorReshapeError) -> Pause:
    pause = attempts.plan_pause(error)
    assert pause is not None
    return pause


def exhaust(endpoint: Endpoint) -> None:
    while endpoint.budget.take():
        pass


OUTCOMES = st.lists(st.sampled_from(["success", "failure"]), max_size=400)


def count_grants(budget: RetryBudget, failures: int) -> int:
    return sum(budget.take() for _ in range(failures))


@pytest.mark.parametrize("error", FINAL, ids=repr)
def test_what_would_fail_again_is_not_sent_again(error: TensorReshapeError):
    assert begin().plan_pause(error) is None


TIME_IS_UP = CallTimeoutError("", StatusCode.DEADLINE_EXCEEDED)


def test_whoever_was_refused_until_time_was_up_ends_with_the_refusal():
    attempts = begin()
    attempts.plan_pause(BUSY)
    attempts.plan_pause(TIME_IS_UP)
    end = attempts.choose_end(TIME_IS_UP)
    assert isinstance(end, LimitError)
    assert (end.args, end.reason, end.retry_seconds) == (BUSY.args, BUSY.reason, BUSY.retry_seconds)


@pytest.mark.parametrize("error", LOST, ids=repr)
def test_whoever_lost_a_server_that_was_busy_ends_with_the_timeout(error: TensorReshapeError):
    attempts = begin()
    for failure in (BUSY, error, TIME_IS_UP):
        attempts.plan_pause(failure)
    assert attempts.choose_end(TIME_IS_UP) is TIME_IS_UP


def test_attempts_that_were_refused_keep_nothing_of_their_caller():
    class Owned: ...

    def refuse() -> None:
        owned = Owned()
        kept.append(weakref.ref(owned))
        raise ask_back(0)

    attempts, kept = begin(), list[weakref.ref[Owned]]()
    try:
        refuse()
    except LimitError as error:
        attempts.plan_pause(error)
    assert kept[0]() is None


@pytest.mark.parametrize("error", [*LOST, *FINAL[1:], TIME_IS_UP], ids=repr)
def test_whoever_was_not_refused_ends_with_what_ended_the_attempt(error: TensorReshapeError):
    attempts = begin()
    attempts.plan_pause(error)
    assert attempts.choose_end(error) is error


@pytest.mark.parametrize("error", FINAL[1:], ids=repr)
def test_a_refusal_of_before_does_not_hide_what_is_no_timeout(error: TensorReshapeError):
    attempts = begin()
    attempts.plan_pause(BUSY)
    assert attempts.choose_end(error) is error


def test_a_stream_that_was_taken_up_after_a_refusal_ends_with_its_timeout():
    attempts = begin()
    attempts.plan_pause(BUSY)
    attempts.note_progress()
    assert attempts.choose_end(TIME_IS_UP) is TIME_IS_UP


@pytest.mark.parametrize("error", LOST, ids=repr)
def test_who_lost_a_server_waits_for_one(error: TensorReshapeError):
    assert plan(begin(), error).is_for_server


def test_who_asks_a_busy_server_again_does_not():
    assert not plan(begin(), BUSY).is_for_server


@given(st.floats(0, 1000), st.integers(1, 20))
def test_what_the_server_asks_for_is_the_least_pause(seconds: float, attempts: int):
    error, begun = ask_back(seconds), begin()
    assert all(plan(begun, error).seconds >= seconds for _ in range(attempts))


def test_the_pauses_double_up_to_a_maximum():
    attempts, error = begin(), ask_back(0)
    pauses = [plan(attempts, error).seconds for _ in range(20)]
    limits = [min(0.1 * 2**failures, 5.0) for failures in range(20)]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(pauses, limits, strict=True))


def test_two_callers_do_not_come_back_together():
    assert len({plan(begin(), BUSY).seconds for _ in range(10)}) == 10


@pytest.mark.parametrize("error", [*LOST, BUSY], ids=repr)
def test_what_would_come_after_the_deadline_is_not_sent(error: TensorReshapeError):
    assert begin(timeout=0.01).plan_pause(error) is None


@pytest.mark.parametrize("error", [*LOST, BUSY], ids=repr)
def test_a_closed_client_sends_nothing_again(error: TensorReshapeError):
    endpoint = Endpoint("127.0.0.1:1", None, (), 30)
    endpoint.close()
    assert begin(endpoint=endpoint).plan_pause(error) is None


def test_without_a_budget_a_busy_server_is_left_alone():
    endpoint = Endpoint("127.0.0.1:1", None, (), 30)
    exhaust(endpoint)
    assert begin(endpoint=endpoint).plan_pause(BUSY) is None


@pytest.mark.parametrize("error", LOST, ids=repr)
def test_the_first_loss_of_a_call_draws_nothing_and_any_other_does(error: TensorReshapeError):
    endpoint = Endpoint("127.0.0.1:1", None, (), 30)
    exhaust(endpoint)
    attempts = begin(endpoint=endpoint)
    assert plan(attempts, error)
    assert attempts.plan_pause(error) is None


def test_calls_of_one_client_share_its_budget():
    endpoint = Endpoint("127.0.0.1:1", None, (), 30)
    calls = [begin(endpoint=endpoint) for _ in range(1000)]
    assert sum(call.plan_pause(BUSY) is not None for call in calls) == 49


def test_an_answered_call_gives_a_part_of_a_token_back():
    endpoint = Endpoint("127.0.0.1:1", None, (), 30)
    attempts = begin(endpoint=endpoint)
    for _ in range(49):
        plan(attempts, BUSY)
    for _ in range(11):
        attempts.note_success()
    assert attempts.plan_pause(BUSY) is not None


def test_patience_ends():
    attempts, seconds = begin(), 0.0
    while pause := attempts.plan_pause(LOST[0]):
        seconds += pause.seconds
    assert PATIENCE_SECONDS <= seconds <= PATIENCE_SECONDS + 5


def test_a_stream_that_was_taken_up_is_awaited_as_long_again():
    attempts = begin()
    while attempts.plan_pause(LOST[0]):
        pass
    attempts.note_progress()
    assert attempts.plan_pause(LOST[0]) is not None


def test_a_wait_for_a_server_is_no_longer_than_patience():
    with begin().wait_for_server() as seconds:
        assert seconds == PATIENCE_SECONDS


def test_a_wait_for_a_server_ends_with_the_deadline():
    with begin(timeout=2).wait_for_server() as seconds:
        assert 1 < seconds <= 2


def test_a_wait_for_a_server_uses_patience_up():
    attempts = begin()
    with attempts.wait_for_server():
        pass
    with attempts.wait_for_server() as seconds:
        assert seconds < PATIENCE_SECONDS


def test_attempts_share_a_deadline():
    endpoint, deadline = Endpoint("127.0.0.1:1", None, (), 30), Deadline(1e-9)
    assert all(Attempts(endpoint.budget, deadline).plan_pause(BUSY) is None for _ in range(2))


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
