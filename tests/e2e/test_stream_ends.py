"""Streams that end with an error or too early, as the SDK sees them."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest

from both_clients import CALLERS, open_client
from in_process import ANY_PORT, hurry_stop, run_stock
from tensor_reshape.client import (
    AsyncClient,
    CallTimeoutError,
    LimitError,
    Reason,
    ResponseError,
    ServiceError,
    UnavailableError,
)
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner
from tensor_reshape.wire.methods import STREAM_RESHAPE
from tensor_reshape.wire.reshapes import encode_accept, encode_chunk
from tensor_reshape.wire.status import encode_rejection
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.uint8)
BYTES = memoryview(SIX.tobytes())
ACCEPT = encode_accept(TensorView(DataType.U8, (6,), None, BYTES))
EITHER_TIME = pytest.mark.parametrize("late", [False, True], ids=["at once", "within the tensor"])


def hang(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    """Accepts a tensor and then never responds."""
    next(requests)
    yield ACCEPT
    ended = threading.Event()
    if context.add_callback(ended.set):
        ended.wait(20)


def reject(context: grpc.ServicerContext, reason: Reason) -> None:
    status = encode_rejection(LimitError.of(reason, "not now"))
    context.set_trailing_metadata(status.trailing_metadata)
    context.abort(grpc.StatusCode[status.code], status.details)


def abort_unavailable(context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.UNAVAILABLE, "not now")


def abort_busy(context: grpc.ServicerContext) -> None:
    reject(context, Reason.SERVER_BUSY)


class Aborts:
    """Aborts the first calls, serves the others, and counts all."""

    def __init__(self, abort: Callable[[grpc.ServicerContext], object], failures: int, *, late: bool) -> None:
        self.abort, self.failures, self.late, self.attempts = abort, failures, late, 0

    def __call__(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        self.attempts += 1
        next(requests)
        if self.attempts <= self.failures:
            if self.late:
                yield ACCEPT
                yield next(requests)
            self.abort(context)
        yield ACCEPT
        yield from requests


@pytest.mark.parametrize("kind", CALLERS)
def test_deadline_during_a_stream_raises_a_timeout_error(kind: str):
    with run_stock({}, streams={STREAM_RESHAPE.name: hang}) as address, open_client(kind, address) as client:
        for timeout in (0.3, 0.1):
            with pytest.raises(CallTimeoutError):
                client.reshape(SIX, [6], transfer="stream", timeout=timeout)


LIES: dict[str, list[bytes]] = {
    "nothing": [],
    "too many bytes": [ACCEPT, encode_chunk(0, BYTES), encode_chunk(6, BYTES)],
    "a repetition": [ACCEPT, encode_chunk(0, BYTES[:3]), encode_chunk(0, BYTES[:3])],
    "a negative dim": [encode_accept(TensorView(DataType.U8, (-6,), None, BYTES))],
    "garbage within": [ACCEPT, b"\xff"],
    "an empty message": [b""],
}


@pytest.mark.parametrize("kind", CALLERS)
def test_wrong_stream_response_raises_response_error(kind: str):
    answers: list[bytes] = []

    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        del context
        next(requests)
        yield from answers
        # Reads all requests, because if the stream ends during a write of the client, grpc.aio reports only that write.
        for _ in requests if answers else ():
            pass

    with run_stock({}, streams={STREAM_RESHAPE.name: behave}) as address, open_client(kind, address) as client:
        for name, answers[:] in LIES.items():
            with pytest.raises(ResponseError):
                pytest.fail(f"{name}: {client.reshape(SIX, [6], transfer='stream', timeout=60)}")


@pytest.mark.parametrize("kind", CALLERS)
@EITHER_TIME
@pytest.mark.parametrize("abort", [abort_unavailable, abort_busy])
def test_client_restarts_a_stream_after_unavailable_or_server_busy(
    kind: str, late: bool, abort: Callable[[grpc.ServicerContext], object]
):
    aborts = Aborts(abort, 2, late=late)
    with run_stock({}, streams={STREAM_RESHAPE.name: aborts}) as address, open_client(kind, address) as client:
        assert client.reshape(SIX, [6], transfer="stream").tolist() == SIX.tolist()
    assert aborts.attempts == 3


@pytest.mark.parametrize("kind", CALLERS)
@pytest.mark.parametrize("place", ["the same", "later", "swapped bytes", "column-major"])
def test_restarted_stream_sends_elements_that_its_output_has_overwritten(kind: str, place: str):
    memory = np.arange(40, dtype=np.int32)
    array, out = memory[:36], memory[:36]
    if place == "later":
        out = memory[4:]
    elif place == "swapped bytes":
        array = array.view(">i4")
    elif place == "column-major":
        array = array.reshape(6, 6).T
    expected = array.reshape(-1).tolist()
    accept = encode_accept(TensorView(DataType.I32, (36,), None, BYTES))
    attempts = 0

    def lose_first(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        nonlocal attempts
        attempts += 1
        next(requests)
        yield accept
        for number, chunk in enumerate(requests):
            if (attempts, number) == (1, 5):
                abort_unavailable(context)
            yield chunk

    with (
        run_stock({}, streams={STREAM_RESHAPE.name: lose_first}) as address,
        open_client(kind, address, chunk_bytes=16) as client,
    ):
        assert client.reshape(array, [-1], transfer="stream", out=out).tolist() == expected
    assert attempts == 2


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_too_little_memory_for_a_chunk_ends_the_stream_at_once(kind: str, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr("tensor_reshape.client.transfers.encode_chunk", fail)
    ended = threading.Event()

    def wait(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        if context.add_callback(ended.set):  # it is False if the call is over before it reaches this line
            next(requests)
            yield ACCEPT
            ended.wait(60)

    with (
        run_stock({}, streams={STREAM_RESHAPE.name: wait}) as address,
        open_client(kind, address) as client,
        pytest.raises(MemoryError),
    ):
        client.reshape(SIX, [6], transfer="stream", timeout=600)


@pytest.mark.parametrize("kind", CALLERS)
@EITHER_TIME
def test_stream_retries_end_at_its_deadline(kind: str, late: bool):
    aborts = Aborts(abort_unavailable, 1000, late=late)
    begin = time.monotonic()
    with (
        run_stock({}, streams={STREAM_RESHAPE.name: aborts}) as address,
        open_client(kind, address) as client,
        pytest.raises((UnavailableError, CallTimeoutError)),
    ):
        client.reshape(SIX, [6], transfer="stream", timeout=1)
    # The deadline leaves time for this many attempts. Without it, the retry budget would last for minutes.
    assert (2 <= aborts.attempts <= 8, time.monotonic() - begin < 20) == (True, True)


@pytest.mark.parametrize("kind", CALLERS)
def test_stream_succeeds_although_its_server_restarts(kind: str):
    config = Config(listen=(ANY_PORT,), drain_seconds=0, shutdown_grace_seconds=0)
    runners = [Runner(config)]
    runners[0].start()
    array = np.random.default_rng(1).integers(0, 256, 4 * 2**20, np.uint8)

    def restart(arrived: int, total: int) -> None:
        if len(runners) == 1 and arrived > total // 3:
            hurry_stop(runners[0])
            runners.append(Runner(Config(listen=runners[0].addresses, drain_seconds=0, shutdown_grace_seconds=0)))
            runners[1].start()

    with open_client(kind, runners[0].addresses[0], chunk_bytes=2**14) as client:
        output = client.reshape(array, [-1], transfer="stream", progress=restart)
    hurry_stop(runners[1])
    assert output.tobytes() == array.tobytes()


async def test_client_works_after_a_cancelled_stream():
    accepted = asyncio.Event()
    with run_stock({}, streams={STREAM_RESHAPE.name: hang}) as address:
        async with AsyncClient(address) as client:
            before = asyncio.all_tasks()
            call = client.reshape(
                SIX, [6], special_zero=False, transfer="stream", progress=lambda *_: accepted.set(), timeout=20
            )
            task = asyncio.create_task(call)
            await accepted.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            left = asyncio.all_tasks() - before  # tasks of grpc itself, which are about to end
            assert not any("tensor_reshape" in str(task.get_coro()) for task in left)
            assert not left or not (await asyncio.wait(left, timeout=60))[1]
            with pytest.raises(CallTimeoutError):
                await client.reshape(SIX, [6], special_zero=False, transfer="stream", timeout=0.1)


async def test_closing_a_client_ends_its_running_streams():
    accepted = asyncio.Event()
    with run_stock({}, streams={STREAM_RESHAPE.name: hang}) as address:
        client = AsyncClient(address)
        call = client.reshape(SIX, [6], special_zero=False, transfer="stream", progress=lambda *_: accepted.set())
        task = asyncio.create_task(call)
        await accepted.wait()
        await client.close()
        with pytest.raises((ServiceError, ValueError)):
            await asyncio.wait_for(task, 10)
