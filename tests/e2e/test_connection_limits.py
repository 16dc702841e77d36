"""Limits of connections: their age, pings, metadata, number of calls and compressed messages."""

import gzip
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import pytest

from http2 import HEALTH_WATCH, REFLECTION, Connection, grpc_message
from in_process import run_runner
from meters import read_memory
from plain_requests import INFER, INFERRED, STATIC_RESHAPE, build_static_request, catch_status, send_raw
from server_processes import ServerProcess, run_server
from tensor_reshape.server.grpc import options
from tensor_reshape.wire.methods import INFER_SHAPE, STREAM_RESHAPE
from tensor_reshape.wire.servers import CHECK_METHOD

NO_ERROR, ENHANCE_YOUR_CALM = 0, 11  # codes of RFC 9113, section 7
CHANNELS, CALLERS = 4, 4  # callers of each channel


@pytest.fixture
def short_lived(start_for_file: Callable[..., ServerProcess]) -> ServerProcess:
    """A server whose connections reach their maximum age after half a second."""
    return start_for_file("--max-connection-age-seconds", "0.5")


def await_goaway(connection: Connection) -> tuple[int, str]:
    """Returns the code and the text of the GOAWAY that a server sends."""
    assert connection.await_(lambda: bool(connection.goaway))
    return int.from_bytes(connection.goaway[4:8], "big"), connection.goaway[8:].decode()


def test_connection_beyond_max_age_closes_after_its_running_calls(short_lived: ServerProcess):
    with Connection(short_lived.address) as busy, Connection(short_lived.address) as idle:
        stream = busy.open(STATIC_RESHAPE)
        assert idle.call(STATIC_RESHAPE, build_static_request()).is_ok
        assert await_goaway(busy) == (NO_ERROR, "max_age")
        busy.send_data(stream, grpc_message(build_static_request()), end=True)
        assert busy.await_end(stream).is_ok
        assert idle.await_(lambda: bool(idle.closed))


def test_connection_beyond_max_age_closes_after_the_grace_period(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "AGE_GRACE_SECONDS", 1.0)
    with run_runner(max_connection_age_seconds=0.5) as runner, Connection(runner.addresses[0]) as endless:
        endless.open(STREAM_RESHAPE.path)
        assert await_goaway(endless) == (NO_ERROR, "max_age")
        assert endless.await_(lambda: bool(endless.closed))


def test_grpcio_client_loses_no_call_to_max_connection_age(short_lived: ServerProcess):
    finished = threading.Event()

    def keep_calling(channel: grpc.Channel) -> int:
        count = 0
        while not finished.is_set():
            assert send_raw(channel, "InferShape", INFER) == INFERRED  # a lost call raises
            count += 1
        return count

    with ExitStack() as stack, ThreadPoolExecutor(CHANNELS * CALLERS) as pool:
        own = [("grpc.use_local_subchannel_pool", 1)]
        channels = [stack.enter_context(grpc.insecure_channel(short_lived.address, own)) for _ in range(CHANNELS)]
        callers = [pool.submit(keep_calling, channel) for channel in channels for _ in range(CALLERS)]
        try:
            for _ in range(2):  # two maximum ages, in which all connections of the callers get GOAWAY
                with Connection(short_lived.address) as clock:
                    await_goaway(clock)
        finally:
            finished.set()
        assert all(caller.result() for caller in callers)


def test_client_with_too_many_pings_gets_goaway(server: ServerProcess):
    with Connection(server.address) as connection:
        for _ in range(3):
            assert connection.ping()
        connection.ping()
        assert await_goaway(connection) == (ENHANCE_YOUR_CALM, "too_many_pings")


def test_metadata_size_limit_is_exact_instead_of_random(server: ServerProcess):
    with grpc.insecure_channel(server.address) as channel:

        def call(size: int) -> bytes:
            return send_raw(channel, "InferShape", INFER, metadata=(("x-token", "a" * size),))

        for size in (8500, 12000, 15500):
            for _ in range(20):  # with its defaults, gRPC would reject some of them at random
                assert call(size) == INFERRED
        status = catch_status(lambda: call(16000))
        assert status.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (status.details() or "").startswith("received metadata size exceeds hard limit (16")
        catch_status(lambda: call(100_000))
        assert call(0) == INFERRED


@pytest.mark.parametrize("experiments", ["event_engine_listener", "-event_engine_listener"])
def test_channel_with_64_concurrent_calls_loses_no_call(experiments: str):
    request, calls_each = build_static_request(), 50
    with (
        run_server(env={"GRPC_EXPERIMENTS": experiments}) as server,
        grpc.insecure_channel(server.address) as channel,
        ThreadPoolExecutor(64) as pool,
    ):
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(STATIC_RESHAPE)

        def count_ends(_: int) -> Counter[str]:
            ends = (call.future(request, timeout=60).exception() for _ in range(calls_each))
            return Counter("OK" if end is None else str(end) for end in ends)

        assert sum(pool.map(count_ends, range(64)), Counter()) == {"OK": 64 * calls_each}


MIB = 2**20
# 16 KiB that decompress to the largest message, sent as a health check, a query and a chunk.
BOMB = grpc_message(gzip.compress(bytes(16 * MIB)), compressed=1)
COUNT = 32
UNIMPLEMENTED = str(grpc.StatusCode.UNIMPLEMENTED.value[0])


def send_bombs(server: ServerProcess, path: str) -> set[str]:
    """Returns the status codes of COUNT calls on one connection."""
    with Connection(server.address) as connection:
        streams = [connection.open(path, headers=[("grpc-encoding", "gzip")]) for _ in range(COUNT)]
        for stream in streams:
            connection.send_data(stream, BOMB, end=True)
        return {connection.await_end(stream).status for stream in streams}


@pytest.mark.parametrize("path", [INFER_SHAPE.path, STREAM_RESHAPE.path, CHECK_METHOD, HEALTH_WATCH, REFLECTION])
def test_compressed_messages_are_rejected_without_decompression(path: str, server: ServerProcess):
    before = read_memory(server.process.pid, "VmHWM")
    assert send_bombs(server, path) == {UNIMPLEMENTED}
    assert read_memory(server.process.pid, "VmHWM") < before + 16 * MIB
