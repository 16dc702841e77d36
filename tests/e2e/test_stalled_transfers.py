"""A stalled stream of the SDK is sent once, and its error names the side that was slow."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import grpc
import numpy as np
import pytest

from both_clients import CALLERS, AnyClient, open_client
from in_process import run_stock
from server_processes import ServerProcess, run_server
from tensor_reshape.client import AsyncClient, LimitError, Progress, Reason
from tensor_reshape.client.transfers import LONG_SECONDS
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.reshapes import encode_accept
from tensor_reshape.wire.tensors import TensorView

MIB = 1 << 20
SIZE = 64 * MIB  # more than the buffers of both sides
STALL_SECONDS = 1.0
SECONDS = 60.0
PIECE_BYTES = 65536


class Relay:
    """Forwards bytes between clients and a server, and can stop one direction as a slow network does."""

    def __init__(self, listener: socket.socket, server: str) -> None:
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"  # the address for clients
        # while it is not set, bytes of clients are not forwarded; while it is not set, bytes of the server are not
        # forwarded
        self.may_send, self.may_answer = threading.Event(), threading.Event()
        self._listener = listener
        self._host, _, port = server.rpartition(":")
        self._port = int(port)

    def resume(self) -> None:
        """Forwards in both directions."""
        self.may_send.set()
        self.may_answer.set()

    def accept_all(self) -> None:
        """Forwards the bytes of each connection on two threads, until the listener is shut down."""
        with ExitStack() as stack, suppress(OSError):
            while True:
                client = stack.enter_context(self._listener.accept()[0])
                server = stack.enter_context(socket.create_connection((self._host, self._port)))
                for arguments in ((client, server, self.may_send), (server, client, self.may_answer)):
                    threading.Thread(target=_forward, args=arguments, daemon=True).start()


def _forward(source: socket.socket, target: socket.socket, may_go: threading.Event) -> None:
    with suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            may_go.wait(SECONDS)
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def run_relay(server: str) -> Iterator[Relay]:
    """Runs a relay to the address of a server until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = Relay(listener, server)
        relay.resume()
        thread = threading.Thread(target=relay.accept_all)
        thread.start()
        try:
            yield relay
        finally:
            relay.resume()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(SECONDS)


@contextmanager
def run_impatient() -> Iterator[ServerProcess]:
    with run_server("--stall-timeout-seconds", str(STALL_SECONDS)) as server:
        yield server


def await_stall(server: ServerProcess) -> None:
    server.await_records(1, "rejected", reason="STALLED", code="RESOURCE_EXHAUSTED")


class Follower:
    """A function for `progress` that calls `pause` once, after the first bytes of the output."""

    def __init__(self, pause: Callable[[], object]) -> None:
        self.attempts = 0  # the number of times that a server has accepted the stream
        self._pause = pause
        self._has_paused = False

    def __call__(self, arrived: int, total: int) -> None:
        assert total == SIZE
        self.attempts += not arrived
        if arrived and not self._has_paused:
            self._has_paused = True
            self._pause()


def reject(client: AnyClient, progress: Progress) -> LimitError:
    """Makes a stream call that fails, and returns its error."""
    with pytest.raises(LimitError) as caught:
        client.reshape(np.zeros(SIZE, np.uint8), [-1], transfer="stream", progress=progress, timeout=SECONDS)
    return caught.value


@pytest.mark.parametrize("kind", CALLERS)
def test_stream_that_its_caller_pauses_is_sent_once(kind: str):
    with run_impatient() as server, open_client(kind, server.address) as client:
        follower = Follower(lambda: await_stall(server))
        error = reject(client, follower)
    assert (error.reason, error.retry_seconds, follower.attempts) == (Reason.STALLED, None, 1)
    assert error.message.startswith("the call has made no progress for 1.0 seconds (--stall-timeout-seconds), because ")
    assert "this process paused it for" in error.message
    assert float(error.metadata["paused_seconds"]) >= STALL_SECONDS / 2
    assert error.metadata["slow_side"] == "caller"


def stop_uploads(relay: Relay) -> None:
    relay.may_send.clear()


def stop_downloads(relay: Relay) -> None:
    relay.may_answer.clear()


@pytest.mark.parametrize("kind", CALLERS)
@pytest.mark.parametrize("stop", [stop_uploads, stop_downloads])
def test_stream_over_a_stopped_network_is_sent_once(kind: str, stop: Callable[[Relay], None]):
    with run_impatient() as server, run_relay(server.address) as relay:

        def resume_later() -> None:
            await_stall(server)
            relay.resume()

        def interrupt() -> None:
            stop(relay)
            resumer.start()

        resumer, follower = threading.Thread(target=resume_later), Follower(interrupt)
        with open_client(kind, relay.address) as client:
            error = reject(client, follower)
        resumer.join(SECONDS)
    assert (error.reason, error.metadata["slow_side"], follower.attempts) == (Reason.STALLED, "network", 1)
    assert "because the network was too slow" in error.message


async def test_stream_in_an_event_loop_blocked_by_other_code_is_sent_once():
    async def block(begins: asyncio.Event) -> None:
        await begins.wait()
        await_stall(server)

    with run_impatient() as server:
        begins = asyncio.Event()
        follower = Follower(begins.set)
        async with AsyncClient(server.address) as client, asyncio.TaskGroup() as group:
            group.create_task(block(begins))
            with pytest.raises(LimitError) as caught:
                await client.reshape(
                    np.zeros(SIZE, np.uint8), [-1], special_zero=False, transfer="stream", progress=follower
                )
    assert (caught.value.metadata["slow_side"], follower.attempts) == ("caller", 1)


@pytest.mark.parametrize("kind", CALLERS)
def test_stream_cancelled_by_a_proxy_during_a_long_pause_is_sent_once(kind: str):
    calls = []

    def cancel(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        calls.append(next(requests))
        yield encode_accept(TensorView(DataType.U8, (SIZE,), None, memoryview(b"")))
        context.abort(grpc.StatusCode.CANCELLED, "Received RST_STREAM with error code 8")

    def pause(arrived: int, total: int) -> None:
        del arrived, total
        threading.Event().wait(LONG_SECONDS)

    with run_stock({}, streams={"StreamReshape": cancel}) as address, open_client(kind, address) as client:
        error = reject(client, pause)
    assert (error.reason, error.metadata["slow_side"], len(calls)) == (Reason.STALLED, "caller", 1)
