"""The client that blocks: its calls, its life, and who may share it."""

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextvars import ContextVar
from typing import cast

import grpc
import numpy as np
import pytest

from in_process import Behavior, run_blocked, run_runner, run_stock
from server_processes import ServerProcess
from tensor_reshape.client import (
    CallTimeoutError,
    Client,
    HealthStatus,
    InvalidRequestError,
    ServiceError,
    UnavailableError,
)
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.inference import build_infer_response
from tensor_reshape.wire.reshapes import encode_reshape_response
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.float32)
GOOD = build_infer_response(ShapeAnswer((6,))).SerializeToString()


class Counted:
    """Aborts the first calls with a code, then answers; counts the attempts."""

    def __init__(self, code: grpc.StatusCode, failures: int) -> None:
        self.code, self.failures, self.attempts = code, failures, 0

    def __call__(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        del request
        self.attempts += 1
        if self.attempts <= self.failures:
            context.abort(self.code, "not now")
        return GOOD


class Recorder(grpc.ServerInterceptor):
    """Keeps the metadata of every call."""

    def __init__(self) -> None:
        self.metadata: list[tuple[str, str | bytes]] = []

    def intercept_service(  # type: ignore[override] # whatever comes next is passed on
        self, continuation: Callable[..., object], handler_call_details: grpc.HandlerCallDetails
    ) -> object:
        self.metadata += cast("list[tuple[str, str | bytes]]", handler_call_details.invocation_metadata)
        return continuation(handler_call_details)


def answer(raw: bytes) -> Behavior:
    return lambda request, context: raw  # noqa: ARG005 - the signature is grpc's


def infer(client: Client) -> tuple[int, ...]:
    return client.infer_shape([6], [6], special_zero=False).known


@pytest.fixture
def blocked_address() -> Iterator[str]:
    with run_blocked() as (runner, _):
        yield runner.addresses[0]


def test_a_server_that_listens_is_ready(server: ServerProcess):
    with Client(server.address) as client:
        client.wait_until_ready(timeout=60)
        assert client.check_health() is HealthStatus.SERVING


def test_no_server_is_not_ready_in_time():
    with Client("127.0.0.1:1") as client, pytest.raises(UnavailableError):
        client.wait_until_ready(timeout=0.2)


def test_a_server_that_does_not_serve_is_not_ready():
    with run_runner() as runner, Client(runner.addresses[0]) as client:
        runner._health.stop_serving()
        with pytest.raises(UnavailableError):
            client.wait_until_ready(timeout=0.5)


def test_a_server_that_does_not_serve_says_so():
    with run_runner() as runner, Client(runner.addresses[0]) as client:
        runner._health.stop_serving()
        assert client.check_health() is HealthStatus.NOT_SERVING


def test_an_unknown_service_has_no_health(client: Client):
    with pytest.raises(Exception, match="NOT_FOUND"):
        client.check_health("nobody")


def test_threads_share_one_client(client: Client):
    def flatten(number: int) -> bool:
        array = np.full((number % 7 + 1, 5), number, np.float32)
        return client.static_reshape(array, [-1], special_zero=False).tobytes() == array.tobytes()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(flatten, range(400)))


def test_a_closed_client_refuses_calls(server: ServerProcess):
    client = Client(server.address)
    client.close()
    with pytest.raises(ValueError, match="closed"):
        client.infer_shape([6], [6], special_zero=False)


def test_a_closed_client_says_what_to_do():
    client = Client("127.0.0.1:1")
    client.close()
    with pytest.raises(
        ValueError, match=r"^the client of 127\.0\.0\.1:1 is closed: make calls before its `with` block"
    ):
        client.infer_shape([1], [1], special_zero=False)


async def test_a_blocking_client_is_no_block_that_is_awaited():
    with pytest.raises(TypeError, match=r"write `with Client\(\.\.\.\)`, or `async with AsyncClient"):
        async with Client("127.0.0.1:1"):  # type: ignore[attr-defined] # that is the point
            pass


def test_a_client_may_be_closed_twice(server: ServerProcess):
    client = Client(server.address)
    client.close()
    client.close()


def test_the_deadline_of_the_client_ends_a_call(blocked_address: str):
    with Client(blocked_address, timeout=0.2) as client, pytest.raises(CallTimeoutError):
        client.static_reshape(SIX, [6], special_zero=False)


@pytest.mark.parametrize("default", [30.0, math.inf])
def test_the_timeout_of_a_call_wins(blocked_address: str, default: float):
    with Client(blocked_address, timeout=default) as client, pytest.raises(CallTimeoutError):
        client.static_reshape(SIX, [6], special_zero=False, timeout=0.2)


def test_an_infinite_timeout_outlasts_the_default_of_the_client():
    with run_blocked() as (runner, backend), Client(runner.addresses[0], timeout=0.1) as client:
        timer = threading.Timer(0.5, backend.released.set)
        timer.start()
        output = client.static_reshape(SIX, [6], special_zero=False, timeout=math.inf)
        timer.join()
    assert output.tolist() == SIX.tolist()


def test_a_timeout_is_also_the_timeout_of_python(blocked_address: str):
    with Client(blocked_address) as client, pytest.raises(TimeoutError):
        client.static_reshape(SIX, [6], special_zero=False, timeout=0.1)


def test_unavailable_is_retried():
    counted = Counted(grpc.StatusCode.UNAVAILABLE, 2)
    with run_stock({"InferShape": counted}) as address, Client(address) as client:
        assert (infer(client), counted.attempts) == ((6,), 3)


def test_a_large_request_is_retried_too():
    large = np.zeros(2**20, np.float32)
    counted = Counted(grpc.StatusCode.UNAVAILABLE, 2)
    response = encode_reshape_response(TensorView(DataType.F32, (2**20,), None, memoryview(large.tobytes())))

    def reshape(request: bytes, context: grpc.ServicerContext) -> bytes:
        counted(request, context)
        return response

    with (
        run_stock({"StaticReshape": reshape}, options=[("grpc.max_receive_message_length", -1)]) as address,
        Client(address) as client,
    ):
        assert client.static_reshape(large, [-1], special_zero=False, transfer="inline").shape == (2**20,)
    assert counted.attempts == 3


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.PERMISSION_DENIED,
    ],
)
def test_nothing_else_is_retried(code: grpc.StatusCode):
    counted = Counted(code, 100)
    with (
        run_stock({"InferShape": counted}) as address,
        Client(address) as client,
        pytest.raises(ServiceError) as caught,
    ):
        infer(client)
    assert (caught.value.code, counted.attempts) == (code, 1)


@pytest.mark.usefixtures("impatience")
def test_no_server_at_all_is_a_connection_error():
    with Client("127.0.0.1:1") as client, pytest.raises(ConnectionError):
        infer(client)


def test_metadata_travel_with_every_call():
    recorder = Recorder()
    with (
        run_stock({"InferShape": answer(GOOD)}, interceptors=[recorder]) as address,
        Client(address, metadata=[("tenant", "a"), ("key-bin", b"\x00\xff")]) as client,
    ):
        infer(client)
        infer(client)
    assert recorder.metadata.count(("tenant", "a")) == recorder.metadata.count(("key-bin", b"\x00\xff")) == 2


def test_what_is_submitted_is_a_future_of_pythons(client: Client):
    arrays = [np.full((2, number + 1), number, np.float32) for number in range(20)]
    futures = [client.submit(client.reshape, array, [-1], special_zero=False) for array in arrays]
    assert {future.result().size for future in as_completed(futures, timeout=60)} == {array.size for array in arrays}


def test_a_future_has_the_error_of_its_call(client: Client):
    error = client.submit(client.infer_shape, [6], [4], special_zero=False).exception(timeout=60)
    assert isinstance(error, InvalidRequestError)


def submit_too_many(client: Client) -> list[Future[Array]]:
    """Submits one call more than there are threads."""
    count = client._pool._max_workers + 1
    return [client.submit(client.static_reshape, SIX, [6], special_zero=False) for _ in range(count)]


def test_a_future_that_waits_for_a_thread_can_be_cancelled(blocked_address: str):
    with Client(blocked_address) as client:
        futures = submit_too_many(client)
        assert futures[-1].cancel()
        assert futures[-1].cancelled()


def test_a_client_that_is_closed_ends_what_was_submitted(blocked_address: str):
    client = Client(blocked_address)
    futures = submit_too_many(client)
    client.close()
    done, late = wait(futures, timeout=60)
    assert not late
    assert all(future.exception() for future in done)
    with pytest.raises(ValueError, match="closed"):
        client.submit(client.static_reshape, SIX, [6], special_zero=False)


def test_a_call_that_is_submitted_has_the_context_of_its_caller(client: Client):
    name = ContextVar[str]("name")
    name.set("the caller's")
    assert client.submit(name.get).result(timeout=60) == "the caller's"
