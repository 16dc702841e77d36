"""More work than a server has room for: it stays within its memory, and says who should come back."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import numpy as np
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from both_clients import CLIENTS, open_client
from half_requests import HalfRequest, open_half
from in_process import ANY_PORT, run_runner
from memory import read_memory
from raw_streams import SIX, begin, chunk, open_stream
from remote_refusals import catch_status, read_trailing, send_raw
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus, LimitError, Reason
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import Question
from tensor_reshape.server.config import Config
from tensor_reshape.wire.arrays import Array, view_array
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.reshapes import ReshapeCall, encode_reshape_request
from tensor_reshape.wire.tensors import TensorView

MIB = 1 << 20
BUDGET = 8 * MIB
RECEIVED_AHEAD = 64 * MIB // 2  # by the transport, of 64 calls on one connection
STATIC = f"/{SERVICE}/StaticReshape"
INFER = b"\x08\x01\x10\x00\x1a\x02\x12\x00\x22\x00"
STRIDED = begin((3, 2), (6,), (1, 3))


@pytest.fixture(scope="module")
def tight_server(serving: str) -> Iterator[ServerProcess]:
    """A server with room for two messages at a time."""
    flags = ["--max-message-bytes", str(MIB), "--memory-budget-bytes", str(BUDGET)]
    with run_server("--serving", serving, "--stall-seconds", "5", *flags) as process:
        yield process


@pytest.fixture
def channel(tight_server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(tight_server.address) as channel:
        yield channel


def encode(array: Array) -> bytes:
    """Returns the request to flatten."""
    question = Question(operation=RESHAPE, data=array.shape, target=(-1,), special_zero=False)
    target = TensorView(DataType.I8, (1,), None, memoryview(b"\xff"))
    return encode_reshape_request(ReshapeCall(question, view_array(array, "data")), target)


def flatten(client: Client) -> int:
    array = np.zeros(900_000, np.uint8)
    return client.reshape(array, [-1], special_zero=False, timeout=30, transfer="inline").nbytes


@pytest.fixture
def stalled(tight_server: ServerProcess) -> Iterator[list[HalfRequest]]:
    """Sixteen calls on as many connections, whose messages stop arriving."""
    with ExitStack() as stack:
        requests = [stack.enter_context(open_half(tight_server.address, STATIC)) for _ in range(16)]
        for request in requests:
            request.send_part(60_000, of=MIB - 100)
        yield requests


def test_who_sends_half_a_message_keeps_nobody_from_being_served(
    tight_server: ServerProcess, stalled: list[HalfRequest]
):
    with Client(tight_server.address) as client:
        assert flatten(client) == 900_000
    for request in stalled:
        request.await_end()


def test_health_answers_whatever_calls_wait(tight_server: ServerProcess, stalled: list[HalfRequest]):
    with Client(tight_server.address) as client:
        for request in stalled:
            assert client.check_health(timeout=10) is HealthStatus.SERVING
            request.await_end()


def test_halves_of_messages_stay_within_the_memory(tight_server: ServerProcess):
    pid = tight_server.process.pid
    base = read_memory(pid, "VmRSS")
    with ExitStack() as stack:
        requests = [stack.enter_context(open_half(tight_server.address, STATIC)) for _ in range(64)]
        for request in requests:
            request.send_part(60_000, of=MIB - 100)
        for request in requests:
            request.await_end()
    assert read_memory(pid, "VmHWM") < base + BUDGET * 1.15


def test_a_flood_of_large_messages_stays_within_the_memory(tight_server: ServerProcess, channel: grpc.Channel):
    pid = tight_server.process.pid
    request = encode(np.zeros(1_000_000, np.uint8))
    method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/Reshape")
    method(request)
    base = read_memory(pid, "VmRSS")
    calls = [method.future(request, timeout=30) for _ in range(200)]
    for call in calls:
        call.exception()
    assert read_memory(pid, "VmHWM") < base + BUDGET * 1.4 + RECEIVED_AHEAD


@pytest.fixture
def full_address(serving: str) -> Iterator[str]:
    """A server that has as many calls under way as it takes."""
    config = Config(listen=(ANY_PORT,), serving=serving, max_calls=3, drain_seconds=0, grace_seconds=0)
    with run_runner(config) as runner, ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(runner.addresses[0]))
        for _ in range(3):
            stack.enter_context(open_stream(channel, begin((0,), (0,)))).accept()
        yield runner.addresses[0]


def test_a_call_above_the_number_of_calls_is_refused_before_its_message_is_sent(full_address: str):
    with open_half(full_address, STATIC) as request:
        request.await_end()


def test_health_answers_above_the_number_of_calls(full_address: str):
    with Client(full_address) as client:
        assert client.check_health(timeout=10) is HealthStatus.SERVING


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("way", ["inline", "stream", "view"])
def test_a_call_above_the_number_of_calls_is_refused_when_its_time_is_up(full_address: str, kind: str, way: str):
    with open_client(kind, full_address) as client, pytest.raises(LimitError) as caught:
        client.reshape(np.zeros(6), [6], transfer=way, timeout=0.6)
    assert caught.value.reason == Reason.SERVER_BUSY


def test_a_call_above_the_number_of_calls_may_be_repeated(full_address: str):
    with grpc.insecure_channel(full_address) as channel:
        status = catch_status(lambda: send_raw(channel, "InferShape", INFER))
    packed, info = read_trailing(status)["grpc-status-details-bin"], RetryInfo()
    assert isinstance(packed, bytes)
    assert any(detail.Unpack(info) for detail in Status.FromString(packed).details)
    assert (status.code(), info.retry_delay.nanos > 0) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)


def test_a_call_is_repeated_until_another_leaves(serving: str):
    config = Config(listen=(ANY_PORT,), serving=serving, max_calls=1, drain_seconds=0, grace_seconds=0)
    with (
        run_runner(config) as runner,
        grpc.insecure_channel(runner.addresses[0]) as channel,
        open_stream(channel, begin((0,), (0,))) as stream,
        Client(runner.addresses[0]) as client,
        ThreadPoolExecutor() as pool,
    ):
        stream.accept()
        call = pool.submit(client.infer_shape, [2, 3], [6], special_zero=False, timeout=20)
        with pytest.raises(TimeoutError):
            call.result(0.5)
        stream.finish()
        assert call.result(20) == (6,)


def test_the_least_budget_is_enough_for_every_kind_of_call(serving: str):
    config = Config(
        listen=(ANY_PORT,),
        serving=serving,
        max_message_bytes=4096,
        memory_budget_bytes=8 * 4096,
        drain_seconds=0,
        grace_seconds=0,
    )
    with run_runner(config) as runner, grpc.insecure_channel(runner.addresses[0]) as channel:
        assert send_raw(channel, "InferShape", INFER) == b"\x0a\x00"
        for head, output in ((begin(), SIX), (STRIDED, bytes([0, 3, 1, 4, 2, 5]))):
            with open_stream(channel, head, chunk(0, SIX)) as stream:
                assert (stream.accept(), stream.receive(6)) == ((6,), output)
                stream.finish()
