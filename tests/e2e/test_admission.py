"""More work than a server has room for: it stays within its memory, and says who should come back."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import grpc
import numpy as np
import pytest

from both_clients import CALLERS, open_client
from http2 import Connection, grpc_message
from in_process import ANY_PORT, run_runner
from inference_requests import send_request
from meters import read_memory
from plain_requests import INFER, INFERRED
from raw_streams import SIX, STRIDED, begin, chunk, open_stream
from remote_refusals import catch_status, read_retry_seconds, send_raw
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus, LimitError, Reason
from tensor_reshape.client.deadlines import Deadline
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import Question
from tensor_reshape.server.calls import stalls
from tensor_reshape.server.config import Config
from tensor_reshape.server.oip.messages import find_class
from tensor_reshape.server.runner import Runner
from tensor_reshape.wire.arrays import Array, view_array
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.reshapes import ReshapeCall, encode_reshape_request
from tensor_reshape.wire.tensors import TensorView

MIB = 1 << 20
BUDGET = 8 * MIB
RECEIVED_AHEAD = 64 * MIB // 2  # by the transport, of 64 calls on one connection
STATIC = f"/{SERVICE}/StaticReshape"
AGES = 3600.0


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


HALF = grpc_message(bytes(MIB - 100))[:60_000]  # as much as goes without being asked for


def begin_half(connection: Connection) -> int:
    """Sends a message whose rest does not arrive, and returns the stream of its call."""
    stream = connection.open(STATIC)
    assert connection.send_data(stream, HALF) == len(HALF)
    return stream


def is_given_up(connection: Connection, stream: int) -> bool:
    """Awaits that the server ends the call, which must not cost the connection."""
    return connection.await_end(stream).status not in {"0", "TIMEOUT", "CLOSED"}


@pytest.fixture
def stalled(tight_server: ServerProcess) -> Iterator[list[tuple[Connection, int]]]:
    """Sixteen calls on as many connections, whose messages stop arriving."""
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(tight_server.address)) for _ in range(16)]
        yield [(connection, begin_half(connection)) for connection in connections]


def test_who_sends_half_a_message_keeps_nobody_from_being_served(
    tight_server: ServerProcess, stalled: list[tuple[Connection, int]]
):
    with Client(tight_server.address) as client:
        assert flatten(client) == 900_000
    assert all(is_given_up(*half) for half in stalled)


def test_health_answers_whatever_calls_wait(tight_server: ServerProcess, stalled: list[tuple[Connection, int]]):
    with Client(tight_server.address) as client:
        for half in stalled:
            assert client.check_health(timeout=60) is HealthStatus.SERVING
            assert is_given_up(*half)


def test_halves_of_messages_stay_within_the_memory(tight_server: ServerProcess):
    pid = tight_server.process.pid
    base = read_memory(pid, "VmRSS")
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(tight_server.address)) for _ in range(64)]
        halves = [(connection, begin_half(connection)) for connection in connections]
        assert all(is_given_up(*half) for half in halves)
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


@contextmanager
def run_patient(serving: str, max_calls: int) -> Iterator[Runner]:
    """Runs a server whose calls keep their places until they end, however late this machine is."""
    config = Config(
        listen=(ANY_PORT,),
        serving=serving,
        max_calls=max_calls,
        stall_seconds=AGES,
        drain_seconds=0,
        grace_seconds=0,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stalls, "MIN_PRESSURE_SECONDS", AGES)
        with run_runner(config) as runner:
            yield runner


@pytest.fixture
def full_address(serving: str) -> Iterator[str]:
    """A server that has as many calls under way as it takes."""
    with run_patient(serving, 3) as runner, ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(runner.addresses[0]))
        for _ in range(3):
            stack.enter_context(open_stream(channel, begin((0,), (0,)))).accept()
        yield runner.addresses[0]


def test_a_call_above_the_number_of_calls_is_refused_before_its_message_is_sent(full_address: str):
    with Connection(full_address) as connection:
        assert connection.await_end(connection.open(STATIC)).status == "8"


@pytest.mark.parametrize(
    ("name", "fields"), [("ServerLive", {}), ("ServerReady", {}), ("ModelReady", {"name": "reshape"})]
)
def test_what_orchestrators_probe_answers_above_the_number_of_calls(
    full_address: str, name: str, fields: dict[str, str]
):
    request = find_class(f"{name}Request")(**fields)
    with grpc.insecure_channel(full_address) as channel:
        ((_, answer),) = send_request(channel, name, request, 30).ListFields()
    assert answer is True


def test_health_answers_above_the_number_of_calls(full_address: str):
    with Client(full_address) as client:
        assert client.check_health(timeout=60) is HealthStatus.SERVING


@pytest.mark.parametrize("kind", CALLERS)
@pytest.mark.parametrize("way", ["inline", "stream", "view"])
def test_a_call_above_the_number_of_calls_is_refused_when_its_time_is_up(
    full_address: str, kind: str, way: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Deadline, "is_within", lambda *_: True)  # up with the first attempt; `client` waits for more
    with open_client(kind, full_address) as client, pytest.raises(LimitError) as caught:
        client.reshape(np.zeros(6), [6], transfer=way)
    assert caught.value.reason == Reason.SERVER_BUSY


@pytest.mark.parametrize("kind", CALLERS)
def test_no_stream_that_is_refused_hides_the_refusal(full_address: str, kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Deadline, "is_within", lambda *_: True)
    with open_client(kind, full_address) as client:
        for _ in range(30):  # the refusal may overtake the first message of the stream, or be overtaken
            with pytest.raises(LimitError):
                client.reshape(np.zeros(6), [6], transfer="stream")


def test_a_call_above_the_number_of_calls_may_be_repeated(full_address: str):
    with grpc.insecure_channel(full_address) as channel:
        status = catch_status(lambda: send_raw(channel, "InferShape", INFER))
    assert status.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (read_retry_seconds(status) or 0) > 0


def test_a_call_is_repeated_until_another_leaves(serving: str):
    with (
        run_patient(serving, 1) as runner,
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
        assert send_raw(channel, "InferShape", INFER) == INFERRED
        for header, output in ((begin(), SIX), (STRIDED, bytes([0, 3, 1, 4, 2, 5]))):
            with open_stream(channel, header, chunk(0, SIX)) as stream:
                assert (stream.accept(), stream.receive(6)) == ((6,), output)
                stream.finish()
