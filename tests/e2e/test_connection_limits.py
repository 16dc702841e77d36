"""What a connection may do and how long it may last, and what a caller sees beyond that."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import pytest

from http2 import Connection, grpc_message
from plain_requests import INFER, INFERRED, STATIC_RESHAPE, build_static_request
from remote_refusals import catch_status, send_raw
from server_processes import ServerProcess
from tensor_reshape.client import Client, ServiceError
from tensor_reshape.wire.methods import SERVICE, STREAM_RESHAPE

NO_ERROR, ENHANCE_YOUR_CALM = 0, 11  # of RFC 9113, 7
CHANNELS, CALLERS = 4, 4  # and callers of each
MIN_PING_SECONDS = 0.1


@pytest.fixture
def short_lived(serving: str, start_for_file: Callable[..., ServerProcess]) -> ServerProcess:
    """A server on which connections grow old soon."""
    flags = ("--max-connection-age-seconds", "0.5", "--max-connection-age-grace-seconds", "1")
    return start_for_file("--serving", serving, *flags)


@pytest.fixture
def watchful(serving: str, start_for_file: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that is told how often it may be pinged."""
    return start_for_file("--serving", serving, "--min-ping-seconds", str(MIN_PING_SECONDS))


def await_goaway(connection: Connection) -> tuple[int, str]:
    """Returns the code and the text of the GOAWAY that a server sends."""
    assert connection.await_(lambda: bool(connection.goaway))
    return int.from_bytes(connection.goaway[4:8], "big"), connection.goaway[8:].decode()


def open_calls(address: str, stack: ExitStack) -> Iterator[Callable[[], bytes]]:
    """Yields what makes a call, on channels with connections of their own."""
    for _ in range(CHANNELS):
        channel = stack.enter_context(grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]))
        for _ in range(CALLERS):
            yield lambda channel=channel: send_raw(channel, "InferShape", INFER)  # type: ignore[misc]


def test_a_connection_that_is_old_is_told_to_go_and_its_calls_go_on(short_lived: ServerProcess):
    with Connection(short_lived.address) as connection:
        stream = connection.open(STATIC_RESHAPE)
        assert await_goaway(connection) == (NO_ERROR, "max_age")
        connection.send_data(stream, grpc_message(build_static_request()), end=True)
        assert connection.await_end(stream).is_ok


def test_a_connection_that_is_old_ends_with_its_last_call(short_lived: ServerProcess):
    with Connection(short_lived.address) as connection:
        assert connection.call(STATIC_RESHAPE, build_static_request()).is_ok
        assert connection.await_(lambda: bool(connection.closed))


def test_calls_on_an_old_connection_are_cut_off_after_the_grace(short_lived: ServerProcess):
    with Connection(short_lived.address) as connection:
        connection.open(STREAM_RESHAPE.path)
        await_goaway(connection)
        assert connection.await_(lambda: bool(connection.closed))


def test_no_call_of_a_stock_client_is_lost_to_the_age_of_its_connection(short_lived: ServerProcess):
    finished = threading.Event()

    def keep_calling(call: Callable[[], bytes]) -> int:
        count = 0
        while not finished.is_set():
            assert call() == INFERRED  # it raises where it is lost
            count += 1
        return count

    with ExitStack() as stack, ThreadPoolExecutor(CHANNELS * CALLERS) as pool:
        callers = [pool.submit(keep_calling, call) for call in open_calls(short_lived.address, stack)]
        try:
            for _ in range(3):  # as long as connections live, three times: those of the callers have been told by then
                with Connection(short_lived.address) as clock:
                    await_goaway(clock)
        finally:
            finished.set()
        assert all(caller.result() for caller in callers)


def test_a_client_that_pings_too_often_is_told_to_go(serving: str, start_for_file: Callable[..., ServerProcess]):
    with Connection(start_for_file("--serving", serving).address) as connection:
        for _ in range(3):
            assert connection.ping()
        connection.ping()
        assert await_goaway(connection) == (ENHANCE_YOUR_CALM, "too_many_pings")


def test_a_client_may_ping_as_often_as_the_server_is_told(watchful: ServerProcess):
    with Connection(watchful.address) as connection:
        for _ in range(6):
            assert connection.ping()
            time.sleep(2 * MIN_PING_SECONDS)  # that nothing happens meanwhile is the subject
        assert connection.call(STATIC_RESHAPE, build_static_request()).is_ok


@pytest.mark.parametrize("size", [8500, 12000, 15500])
def test_metadata_below_the_limit_is_never_refused_by_chance(server: ServerProcess, size: int):
    with grpc.insecure_channel(server.address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/InferShape")
        for _ in range(20):
            assert call(INFER, metadata=(("x-token", "a" * size),)) == INFERRED


def test_metadata_above_the_limit_is_refused_with_its_size_and_the_limit(server: ServerProcess):
    with grpc.insecure_channel(server.address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/InferShape")
        status = catch_status(lambda: call(INFER, metadata=(("x-token", "a" * 16000),)))
    assert status.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (status.details() or "").startswith("received metadata size exceeds hard limit (16")


def test_the_limit_of_metadata_is_a_setting(serving: str, start_for_file: Callable[..., ServerProcess]):
    address = start_for_file("--serving", serving, "--max-metadata-bytes", "2048").address
    with Client(address, metadata=[("x-token", "a" * 3000)]) as client, pytest.raises(ServiceError) as caught:
        client.infer_shape([2, 3], [6], special_zero=False)
    assert (caught.value.code, "2048" in caught.value.message) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)


def test_the_call_after_one_with_too_much_metadata_is_served(server: ServerProcess):
    with grpc.insecure_channel(server.address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/InferShape")
        catch_status(lambda: call(INFER, metadata=(("x-token", "a" * 100_000),)))
        assert call(INFER) == INFERRED
