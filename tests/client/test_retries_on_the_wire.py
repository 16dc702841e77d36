"""Retries of the SDK as a server sees them. `e2e/test_admission` tests those of clients without the SDK."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import grpc
import numpy as np
import pytest

from both_clients import AnyClient, open_client
from in_process import run_stock
from tensor_reshape.client import CallTimeoutError, LimitError, Reason, UnavailableError
from tensor_reshape.client.contexts import Deadline
from tensor_reshape.client.retries import PATIENCE_SECONDS
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.inference import build_infer_response
from tensor_reshape.wire.status import encode_rejection

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
