"""An overloaded server stays within its memory, and rejects calls so that clients can retry them."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import grpc
import numpy as np
import pytest

from both_clients import CALLERS, open_client
from http2 import Connection, grpc_message
from in_process import run_runner
from inference_requests import send_request
from meters import read_memory
from plain_requests import (
    INFER,
    INFERRED,
    SIX,
    STRIDED,
    begin,
    build_reshape,
    catch_status,
    chunk,
    open_stream,
    read_retry_seconds,
    read_trailing,
    send_raw,
)
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus, LimitError, Reason
from tensor_reshape.client.contexts import Deadline
from tensor_reshape.server.engine import stall_timeouts
from tensor_reshape.server.oip.messages import find_class
from tensor_reshape.server.runner import Runner
from tensor_reshape.wire.methods import SERVICE

MIB = 1 << 20
BUDGET = 8 * MIB
RECEIVED_AHEAD = 64 * MIB // 2  # gRPC receives this for 64 calls of one connection
STATIC = f"/{SERVICE}/StaticReshape"
AGES = 3600.0


@pytest.fixture(scope="module")
def tight_server() -> Iterator[ServerProcess]:
    """A server with memory for two messages at a time."""
    flags = ["--max-message-bytes", str(MIB), "--memory-budget-bytes", str(BUDGET)]
    with run_server("--stall-timeout-seconds", "5", *flags) as process:
        yield process


HALF = grpc_message(bytes(MIB - 100))[:60_000]  # the part that fits into the flow control window


@contextmanager
def send_halves(server: ServerProcess, count: int) -> Iterator[None]:
    """Makes `count` calls on separate connections and sends half of each message. The server must abort them all."""
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(server.address)) for _ in range(count)]
        streams = [connection.open(STATIC) for connection in connections]
        for connection, stream in zip(connections, streams, strict=True):
            assert connection.send_data(stream, HALF) == len(HALF)
        yield
        ends = [one.await_end(stream).status for one, stream in zip(connections, streams, strict=True)]
        assert not {"0", "TIMEOUT", "CLOSED"} & set(ends)  # the connections must stay open


def test_incomplete_messages_neither_block_other_calls_nor_exceed_memory(tight_server: ServerProcess):
    pid, array = tight_server.process.pid, np.zeros((900, 1000), np.uint8)
    with send_halves(tight_server, 16), Client(tight_server.address) as client:
        assert client.check_health(timeout=60) is HealthStatus.SERVING
        assert client.reshape(array, [-1], special_zero=False, timeout=60, transfer="inline").nbytes == array.nbytes
        client.reshape(array[:2].T, [-1], special_zero=False)  # makes the server import numpy before the measurement
    base = read_memory(pid, "VmRSS")
    with send_halves(tight_server, 64):
        pass
    assert read_memory(pid, "VmHWM") < base + BUDGET * 1.15


def test_flood_of_large_messages_stays_within_the_memory_budget(tight_server: ServerProcess):
    pid, request = tight_server.process.pid, build_reshape(1_000_000)
    with grpc.insecure_channel(tight_server.address) as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/Reshape")
        method(request)
        base = read_memory(pid, "VmRSS")
        for call in [method.future(request, timeout=30) for _ in range(200)]:
            call.exception()
    assert read_memory(pid, "VmHWM") < base + BUDGET * 1.4 + RECEIVED_AHEAD


@contextmanager
def run_patient(max_calls: int) -> Iterator[Runner]:
    """Runs a server that does not abort calls, also on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stall_timeouts, "MIN_PRESSURE_SECONDS", AGES)
        with run_runner(max_calls=max_calls, stall_timeout_seconds=AGES) as runner:
            yield runner


@pytest.fixture
def full_address() -> Iterator[str]:
    """The address of a server that has reached --max-calls."""
    with run_patient(3) as runner, ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(runner.addresses[0]))
        for _ in range(3):
            stack.enter_context(open_stream(channel, begin((0,), (0,)))).accept()
        yield runner.addresses[0]


def test_call_above_max_calls_is_refused_without_its_message(full_address: str):
    with Connection(full_address) as connection:
        assert connection.await_end(connection.open(STATIC)).status == "8"


def test_health_checks_are_answered_while_max_calls_is_reached(full_address: str):
    with grpc.insecure_channel(full_address) as channel:
        for name, fields in (("ServerLive", {}), ("ServerReady", {}), ("ModelReady", {"name": "reshape"})):
            ((_, answer),) = send_request(channel, name, find_class(f"{name}Request")(**fields), 30).ListFields()
            assert answer is True
    with Client(full_address) as client:
        assert client.check_health(timeout=60) is HealthStatus.SERVING


@pytest.mark.parametrize("kind", CALLERS)
def test_call_above_max_calls_raises_server_busy_at_its_deadline(
    full_address: str, kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Deadline, "is_within", lambda *_: True)  # the client does not retry after its deadline
    with open_client(kind, full_address) as client:
        for way in ("inline", "view", "stream"):
            with pytest.raises(LimitError) as caught:
                client.reshape(np.zeros(6), [6], transfer=way)
            assert caught.value.reason == Reason.SERVER_BUSY


POLICY = {
    "name": [{"service": SERVICE}],
    "retryPolicy": {
        "maxAttempts": 3,
        "initialBackoff": "0.001s",
        "maxBackoff": "0.001s",
        "backoffMultiplier": 1,
        "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
    },
}


def test_server_busy_error_has_a_retry_delay(full_address: str):
    with grpc.insecure_channel(full_address) as channel:
        status = catch_status(lambda: send_raw(channel, "InferShape", INFER))
    assert status.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (read_retry_seconds(status) or 0) > 0
    assert read_trailing(status)["grpc-retry-pushback-ms"] == "200"
    begun, options = time.monotonic(), [("grpc.service_config", json.dumps({"methodConfig": [POLICY]}))]
    with grpc.insecure_channel(full_address, options) as channel:  # this client does not know the error details
        assert catch_status(lambda: send_raw(channel, "InferShape", INFER)).code() is status.code()
    assert time.monotonic() - begun >= 2 * 0.2


def test_sdk_retries_until_the_server_accepts_the_call():
    with (
        run_patient(1) as runner,
        grpc.insecure_channel(runner.addresses[0]) as channel,
        open_stream(channel, begin((0,), (0,))) as stream,
        Client(runner.addresses[0]) as client,
        ThreadPoolExecutor() as pool,
    ):
        stream.accept()
        call = pool.submit(client.infer_shape, [2, 3], [6], special_zero=False, timeout=60)
        with pytest.raises(TimeoutError):
            call.result(0.5)
        stream.finish()
        assert call.result(60) == (6,)


def test_smallest_memory_budget_serves_unary_and_streaming_calls():
    with (
        run_runner(max_message_bytes=4096, memory_budget_bytes=8 * 4096) as runner,
        grpc.insecure_channel(runner.addresses[0]) as channel,
    ):
        assert send_raw(channel, "InferShape", INFER) == INFERRED
        for header, output in ((begin(), SIX), (STRIDED, bytes([0, 3, 1, 4, 2, 5]))):
            with open_stream(channel, header, chunk(0, SIX)) as stream:
                assert (stream.accept(), stream.receive(6)) == ((6,), output)
                stream.finish()
