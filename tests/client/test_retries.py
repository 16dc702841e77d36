"""Retry budgets, the failures that are retried, and the delays."""

import math
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.client.errors import CallTimeoutError, InternalServerError, ResponseError, ServiceError
from tensor_reshape.client.options import Endpoint
from tensor_reshape.client.retries import PATIENCE_SECONDS, Attempts, Pause, RetryBudget
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, TensorReshapeError

LOST = [
    ServiceError("", StatusCode.UNAVAILABLE),
    ServiceError("", StatusCode.CANCELLED),
    # The messages of gRPC if a proxy loses the server of a stream.
    InternalServerError("Stream removed (RST_STREAM (Received RST_STREAM with error code 2))", StatusCode.INTERNAL),
    InternalServerError("Received RST_STREAM with error code 2", StatusCode.INTERNAL),
    ServiceError("Stream removed (Data frame with END_STREAM flag received)", StatusCode.UNKNOWN),
]
TIME_IS_UP = CallTimeoutError("", StatusCode.DEADLINE_EXCEEDED)
FINAL = [
    InternalServerError("internal error", StatusCode.INTERNAL),
    ServiceError("", StatusCode.UNKNOWN),
    ServiceError("", StatusCode.INVALID_ARGUMENT),
    ServiceError("", StatusCode.RESOURCE_EXHAUSTED),
    ServiceError("", StatusCode.PERMISSION_DENIED),
    LimitError.of(Reason.TENSOR_TOO_LARGE, ""),
    InvalidRequestError.of(Reason.NOT_DIVISIBLE, ""),
    ResponseError(""),
]


def ask_back(seconds: float) -> LimitError:
    """Returns the status of a server that requests a retry after this delay."""
    rejection = LimitError.of(Reason.SERVER_BUSY, "")
    rejection.retry_seconds = seconds
    return rejection


BUSY = ask_back(0.2)


def open_endpoint() -> Endpoint:
    return Endpoint("127.0.0.1:1", None, (), 30)


def begin(timeout: float = math.inf, endpoint: Endpoint | None = None) -> Attempts:
    endpoint = endpoint or open_endpoint()
    return Attempts(endpoint.budget, endpoint.start_call(timeout, {}).deadline)


def plan(attempts: Attempts, error: TensorReshapeError) -> Pause:
    pause = attempts.plan_pause(error)
    assert pause is not None
    return pause


def count_grants(budget: RetryBudget, failures: int) -> int:
    return sum(budget.take() for _ in range(failures))


@pytest.mark.parametrize("error", [*FINAL, TIME_IS_UP], ids=repr)
def test_permanent_error_is_not_retried(error: TensorReshapeError):
    attempts = begin()
    assert attempts.plan_pause(error) is None
    assert attempts.choose_end(error) is error
    if error is not TIME_IS_UP:  # an earlier rejection does not hide the timeout
        attempts = begin()
        attempts.plan_pause(BUSY)
        assert attempts.choose_end(error) is error


def test_call_rejected_until_its_timeout_raises_the_last_rejection():
    attempts = begin()
    attempts.plan_pause(BUSY)
    attempts.plan_pause(TIME_IS_UP)
    end = attempts.choose_end(TIME_IS_UP)
    assert isinstance(end, LimitError)
    assert (end.args, end.reason, end.retry_seconds) == (BUSY.args, BUSY.reason, BUSY.retry_seconds)


def test_accepted_stream_after_a_rejection_raises_its_timeout():
    attempts = begin()
    attempts.plan_pause(BUSY)
    attempts.record_progress()
    assert attempts.choose_end(TIME_IS_UP) is TIME_IS_UP


def test_rejected_attempts_keep_no_reference_to_the_input_array():
    class Owned: ...

    def reject() -> None:
        owned = Owned()
        kept.append(weakref.ref(owned))
        raise ask_back(0)

    attempts, kept = begin(), list[weakref.ref[Owned]]()
    try:
        reject()
    except LimitError as error:
        attempts.plan_pause(error)
    assert kept[0]() is None


@pytest.mark.parametrize("error", LOST, ids=repr)
def test_call_waits_for_a_server_after_a_lost_connection(error: TensorReshapeError):
    attempts = begin()
    assert plan(attempts, error).is_for_server
    assert attempts.choose_end(error) is error
    attempts = begin()
    for failure in (BUSY, error, TIME_IS_UP):
        attempts.plan_pause(failure)
    assert attempts.choose_end(TIME_IS_UP) is TIME_IS_UP


@pytest.mark.parametrize("error", LOST, ids=repr)
def test_first_retry_after_a_lost_connection_uses_no_retry_token(error: TensorReshapeError):
    endpoint = open_endpoint()
    count_grants(endpoint.budget, 50)
    assert begin(endpoint=endpoint).plan_pause(BUSY) is None
    attempts = begin(endpoint=endpoint)
    assert plan(attempts, error)
    assert attempts.plan_pause(error) is None


@pytest.mark.parametrize("error", [*LOST, BUSY], ids=repr)
def test_call_is_not_retried_after_its_deadline_or_close(error: TensorReshapeError):
    assert begin(timeout=0.01).plan_pause(error) is None
    endpoint = open_endpoint()
    endpoint.budget.close()
    assert begin(endpoint=endpoint).plan_pause(error) is None


@given(st.floats(0, 1000), st.integers(1, 20))
def test_retry_pause_is_at_least_the_delay_of_the_server(seconds: float, attempts: int):
    begun = begin()
    pauses = [plan(begun, ask_back(seconds)) for _ in range(attempts)]
    assert all(pause.seconds >= seconds and not pause.is_for_server for pause in pauses)


def test_retry_pauses_double_up_to_a_maximum():
    attempts, error = begin(), ask_back(0)
    pauses = [plan(attempts, error).seconds for _ in range(20)]
    limits = [min(0.1 * 2**failures, 5.0) for failures in range(20)]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(pauses, limits, strict=True))


def test_retry_backoff_is_random():
    assert len({plan(begin(), BUSY).seconds for _ in range(10)}) == 10


def test_successful_call_restores_a_fraction_of_a_retry_token():
    attempts = begin()
    for _ in range(49):
        plan(attempts, BUSY)
    for _ in range(11):
        attempts.record_success()
    assert attempts.plan_pause(BUSY) is not None


def test_retry_time_limit_restarts_after_progress():
    attempts, seconds = begin(), 0.0
    while pause := attempts.plan_pause(LOST[0]):
        seconds += pause.seconds
    assert PATIENCE_SECONDS <= seconds <= PATIENCE_SECONDS + 5
    attempts.record_progress()
    assert attempts.plan_pause(LOST[0]) is not None


def test_waiting_for_a_server_ends_at_retry_limit_or_deadline():
    attempts = begin()
    with attempts.wait_for_server() as seconds:
        assert seconds == PATIENCE_SECONDS
    with attempts.wait_for_server() as seconds:
        assert seconds < PATIENCE_SECONDS
    with begin(timeout=2).wait_for_server() as seconds:
        assert 1 < seconds <= 2


def test_ten_successful_calls_allow_one_more_retry():
    budget = RetryBudget()
    count_grants(budget, 50)
    for _ in range(9):
        budget.record_success()
    assert not budget.take()
    for _ in range(21):
        budget.record_success()
    assert budget.take()


def test_successful_calls_do_not_exceed_the_maximum_retry_tokens():
    budget = RetryBudget()
    for _ in range(1000):
        budget.record_success()
    assert count_grants(budget, 1000) == 49


@given(st.lists(st.booleans(), max_size=400))
def test_retries_are_limited_to_a_tenth_of_successful_calls(successes: list[bool]):
    budget, grants = RetryBudget(), 0
    for is_success in successes:
        if is_success:
            budget.record_success()
        else:
            grants += budget.take()
    assert grants <= 50 + sum(successes) / 10


def test_threads_share_one_retry_budget():
    budget = RetryBudget()
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: count_grants(budget, 20), range(8))) == 49
