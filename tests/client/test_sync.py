"""The blocking client: its calls, its life cycle, and its use by several threads."""

import math
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextvars import ContextVar

import numpy as np
import pytest

from in_process import run_blocked, run_runner
from tensor_reshape.client import Client, HealthStatus, InvalidRequestError
from tensor_reshape.wire.arrays import Array

SIX = np.arange(6, dtype=np.float32)


@pytest.fixture
def blocked_address() -> Iterator[str]:
    with run_blocked() as (runner, _):
        yield runner.addresses[0]


def test_check_health_returns_the_status_of_the_server(client: Client):
    assert client.check_health() is HealthStatus.SERVING
    with pytest.raises(Exception, match="NOT_FOUND"):
        client.check_health("nobody")
    with run_runner() as runner, Client(runner.addresses[0]) as other:
        runner._health.stop_serving()
        assert other.check_health() is HealthStatus.NOT_SERVING


def test_threads_can_share_one_client(client: Client):
    def flatten(number: int) -> bool:
        array = np.full((number % 7 + 1, 5), number, np.float32)
        return client.static_reshape(array, [-1], special_zero=False).tobytes() == array.tobytes()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(flatten, range(400)))


async def test_sync_client_rejects_async_with():
    with pytest.raises(TypeError, match=r"use `with Client\(\.\.\.\)`, or `async with AsyncClient"):
        async with Client("127.0.0.1:1"):  # type: ignore[attr-defined] # wrong on purpose
            pass


def test_infinite_call_timeout_overrides_the_client_timeout():
    with run_blocked() as (runner, backend), Client(runner.addresses[0], timeout=0.1) as client:
        timer = threading.Timer(0.5, backend.released.set)
        timer.start()
        output = client.static_reshape(SIX, [6], special_zero=False, timeout=math.inf)
        timer.join()
    assert output.tolist() == SIX.tolist()


def test_submit_returns_a_future(client: Client):
    arrays = [np.full((2, number + 1), number, np.float32) for number in range(20)]
    futures = [client.submit(client.reshape, array, [-1], special_zero=False) for array in arrays]
    assert {future.result().size for future in as_completed(futures, timeout=60)} == {array.size for array in arrays}
    rejected = client.submit(client.infer_shape, [6], [4], special_zero=False)
    assert isinstance(rejected.exception(timeout=60), InvalidRequestError)


def submit_too_many(client: Client) -> list[Future[Array]]:
    """Submits one more call than there are threads."""
    count = client._pool._max_workers + 1
    return [client.submit(client.static_reshape, SIX, [6], special_zero=False) for _ in range(count)]


def test_submitted_call_can_be_cancelled_before_it_runs(blocked_address: str):
    with Client(blocked_address) as client:
        futures = submit_too_many(client)
        assert futures[-1].cancel()
        assert futures[-1].cancelled()


def test_closing_a_client_ends_its_submitted_calls(blocked_address: str):
    client = Client(blocked_address)
    futures = submit_too_many(client)
    client.close()
    done, late = wait(futures, timeout=60)
    assert not late
    assert all(future.exception() for future in done)
    with pytest.raises(ValueError, match="closed"):
        client.submit(client.static_reshape, SIX, [6], special_zero=False)


def test_submitted_call_keeps_context_variables(client: Client):
    name = ContextVar[str]("name")
    name.set("the caller's")
    assert client.submit(name.get).result(timeout=60) == "the caller's"
