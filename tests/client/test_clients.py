"""The two clients as objects: their surface, their life, and who may share them."""

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from in_process import run_blocked, run_runner
from server_processes import ServerProcess
from tensor_reshape.client import AsyncClient, CallTimeoutError, Client, HealthStatus, UnavailableError

SIX = np.arange(6, dtype=np.float32)
PUBLIC = [name for name in vars(Client) if not name.startswith("_")]


@pytest.mark.parametrize("name", ["__init__", *PUBLIC])
def test_both_clients_take_the_same_arguments(name: str):
    assert inspect.signature(getattr(Client, name)) == inspect.signature(getattr(AsyncClient, name))


def test_both_clients_have_the_same_names():
    assert [name for name in vars(AsyncClient) if not name.startswith("_")] == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_method_of_the_asyncio_client_is_awaited(name: str):
    assert inspect.iscoroutinefunction(getattr(AsyncClient, name))


def test_an_asyncio_client_is_not_made_outside_of_an_event_loop():
    with pytest.raises(RuntimeError):
        AsyncClient("127.0.0.1:1")


def test_special_zero_has_no_default(client: Client):
    with pytest.raises(TypeError, match="special_zero"):
        client.static_reshape(SIX, [6])  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [0, 1, "true"])
def test_special_zero_is_a_bool(client: Client, value: object):
    with pytest.raises(TypeError, match="special_zero"):
        client.static_reshape(SIX, [6], special_zero=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["static_reshape", "dynamic_reshape", "reshape"])
@pytest.mark.parametrize("target", [[2.7, 3], ["2", "3"], [2.0, 3.0]], ids=str)
def test_a_target_of_anything_but_integers_is_never_rounded(client: Client, method: str, target: list[object]):
    with pytest.raises((TypeError, ValueError)):
        getattr(client, method)(SIX, target, special_zero=False)


@pytest.mark.parametrize("method", ["static_reshape", "dynamic_reshape", "reshape"])
def test_every_operation_takes_an_array_whose_elements_lie_apart(client: Client, method: str):
    apart = np.arange(12, dtype=np.float32)[::2]
    np.testing.assert_array_equal(getattr(client, method)(apart, [2, 3], special_zero=False), apart.reshape(2, 3))


@pytest.mark.parametrize("item", [2**31, -(2**31) - 1])
def test_a_target_item_that_i32_cannot_hold_is_refused(client: Client, item: int):
    with pytest.raises(ValueError, match="cannot hold"):
        client.dynamic_reshape(SIX, [item], special_zero=False)


def test_a_server_that_listens_is_ready(server: ServerProcess):
    with Client(server.address) as client:
        client.wait_until_ready(timeout=10)
        assert client.check_health() is HealthStatus.SERVING


async def test_a_server_that_listens_is_ready_for_asyncio(server: ServerProcess):
    async with AsyncClient(server.address) as client:
        await client.wait_until_ready(timeout=10)
        assert await client.check_health() is HealthStatus.SERVING


def test_no_server_is_not_ready_in_time():
    with Client("127.0.0.1:1") as client, pytest.raises(UnavailableError):
        client.wait_until_ready(timeout=0.2)


async def test_no_server_is_not_ready_in_time_for_asyncio():
    async with AsyncClient("127.0.0.1:1") as client:
        with pytest.raises(UnavailableError):
            await client.wait_until_ready(timeout=0.2)


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


async def test_tasks_share_one_client(server: ServerProcess):
    async with AsyncClient(server.address) as client:
        shapes = await asyncio.gather(*(client.infer_shape([n], [-1], special_zero=False) for n in range(200)))
    assert shapes == [(n,) for n in range(200)]


def test_a_closed_client_refuses_calls(server: ServerProcess):
    client = Client(server.address)
    client.close()
    with pytest.raises(ValueError, match="closed"):
        client.infer_shape([6], [6], special_zero=False)


async def test_a_closed_asyncio_client_refuses_calls_with_the_same_error(server: ServerProcess):
    client = AsyncClient(server.address)
    await client.close()
    with pytest.raises(ValueError, match="closed"):
        await client.infer_shape([6], [6], special_zero=False)


def test_a_client_may_be_closed_twice(server: ServerProcess):
    client = Client(server.address)
    client.close()
    client.close()


async def test_a_cancelled_task_leaves_the_client_usable():
    with run_blocked() as (runner, backend):
        async with AsyncClient(runner.addresses[0]) as client:
            task = asyncio.create_task(client.static_reshape(SIX, [6], special_zero=False))
            assert await asyncio.to_thread(backend.entered.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            backend.released.set()
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)


async def test_awaiting_a_call_blocks_nobody_else():
    with run_blocked() as (runner, _):
        async with AsyncClient(runner.addresses[0]) as client:
            slow = asyncio.create_task(client.static_reshape(SIX, [6], special_zero=False, timeout=2))
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)
            assert not slow.done()
            slow.cancel()
            with pytest.raises((asyncio.CancelledError, CallTimeoutError)):
                await slow
