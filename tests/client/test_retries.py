"""Retry budgets, the failures that are retried, and the delays, also as a server sees them.

`e2e/test_admission` tests the retries of clients without the SDK.
"""

import math
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import grpc
import numpy as np
import pytest
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st

from both_clients import AnyClient, open_client
from in_process import run_stock
from tensor_reshape.client.contexts import Deadline
from tensor_reshape.client.errors import (
    CallTimeoutError,
    InternalServerError,
    ResponseError,
    ServiceError,
    UnavailableError,
)
from tensor_reshape.client.options import Endpoint
from tensor_reshape.client.retries import PATIENCE_SECONDS, Attempts, Pause, RetryBudget
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, TensorReshapeError
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.inference import build_infer_response
from tensor_reshape.wire.status import encode_rejection

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


GOOD = build_infer_response(ShapeAnswer((6,))).SerializeToString()


class Rejecting:
    """Rejects the first calls with SERVER_BUSY, then responds; records the time and the request of each call."""

    def __init__(self, rejections: float) -> None:
        self.rejections, self.times, self.requests = rejections, list[float](), set[bytes]()

    def __call__(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.times.append(time.monotonic())
        self.requests.add(request)
        if len(self.times) <= self.rejections:
            status = encode_rejection(LimitError.of(Reason.SERVER_BUSY, "not now"))
            context.set_trailing_metadata(status.trailing_metadata)
            context.abort(grpc.StatusCode[status.code], status.details)
        return GOOD


class Holding(Rejecting):
    """Holds calls that it does not reject until the deadline, which is soon after the first rejection."""

    def find_remaining_seconds(self, deadline: Deadline) -> float:
        """Returns the remaining time of a caller, so the test is independent of the time until the first rejection."""
        del deadline
        return 0.2 if self.times else 30.0

    def __call__(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        is_over = threading.Event()
        context.add_callback(is_over.set)
        super().__call__(request, context)
        is_over.wait()
        return GOOD


def infer(client: AnyClient, **fields: float) -> tuple[int, ...]:
    return client.infer_shape([6], [6], **fields).known


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensor_reshape.client.retries.PATIENCE_SECONDS", 0.7)


def test_timeout_after_a_server_busy_rejection_raises_server_busy(kind: str, monkeypatch: pytest.MonkeyPatch):
    holding = Holding(1)
    monkeypatch.setattr(Deadline, "remaining_seconds", property(holding.find_remaining_seconds))
    with (
        run_stock({"InferShape": holding}) as address,
        open_client(kind, address) as client,
        pytest.raises(LimitError) as caught,
    ):
        infer(client)
    assert (caught.value.reason, len(holding.times)) == (Reason.SERVER_BUSY, 2)


def test_retries_to_a_busy_server_have_increasing_pauses(kind: str):
    rejecting = Rejecting(3)
    with run_stock({"InferShape": rejecting}) as address, open_client(kind, address) as client:
        assert infer(client) == (6,)
    least = [0.2 + 0.1 * 2**failures / 2 for failures in range(3)]  # after the delay that the server requests
    pauses = [after - before for before, after in pairwise(rejecting.times)]
    assert [pause >= seconds for pause, seconds in zip(pauses, least, strict=True)] == [True] * 3
    assert len(rejecting.requests) == 1


def test_server_that_rejects_every_call_gets_few_retries():
    rejecting = Rejecting(10_000)

    def call(client: AnyClient) -> None:
        with pytest.raises(LimitError):
            infer(client)

    with (
        run_stock({"InferShape": rejecting}) as address,
        open_client("Client", address) as client,
        ThreadPoolExecutor(16) as pool,
    ):
        for future in [pool.submit(call, client) for _ in range(200)]:
            future.result()
    assert len(rejecting.times) == 200 + 49  # the retry budget of a client without any success


@pytest.mark.usefixtures("short_patience")
def test_call_without_a_server_ends_at_the_retry_time_limit(kind: str):
    begin = time.monotonic()
    with open_client(kind, "127.0.0.1:1", timeout=60) as client, pytest.raises(UnavailableError, match="refused"):
        infer(client)
    assert 0.35 < time.monotonic() - begin < 30


@pytest.mark.parametrize("way", ["inline", "stream", "view"])
def test_call_without_a_server_ends_at_its_deadline(kind: str, way: str):
    begin = time.monotonic()
    with open_client(kind, "127.0.0.1:1") as client, pytest.raises((UnavailableError, CallTimeoutError)):
        client.reshape(np.zeros(6), [6], transfer=way, timeout=0.3)
    assert time.monotonic() - begin < PATIENCE_SECONDS
