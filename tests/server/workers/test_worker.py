"""A worker process. The test acts as the supervisor."""

import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tensor_reshape.server.config import Config
from tensor_reshape.server.transport.listeners import hold
from tensor_reshape.server.workers.messages import BEAT, LEAVING, MAX_MESSAGE_BYTES, REJECTION, Order
from tensor_reshape.server.workers.processes import WorkerProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers share a port, which takes Linux")

END_SECONDS = 60


@contextmanager
def run_worker(address: str = "") -> Iterator[tuple[WorkerProcess, str]]:
    """Runs a worker. Yields it, and the port that is reserved for it unless another address is given."""
    held, sockets = hold("127.0.0.1:0")
    order = Order(
        number=1,
        config=Config(listen=(address or held,), drain_seconds=0, log_level="error"),
    )
    process = WorkerProcess(order)
    try:
        yield process, held
    finally:
        process.send_signal(signal.SIGKILL)
        process.close()
        for one in sockets:
            one.close()


def await_message(process: WorkerProcess, message: bytes) -> bytes:
    """Waits for a message, and returns all messages until then."""
    read = b""
    while message not in read:
        assert select.select([process._messages], [], [], END_SECONDS)[0], read
        read += process.read_messages()
    return read


def await_end(process: WorkerProcess) -> int:
    """Returns the exit code, without reaping the process."""
    descriptor = os.pidfd_open(process.pid)
    try:
        assert select.select([descriptor], [], [], END_SECONDS)[0]
    finally:
        os.close(descriptor)
    ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    return ended.si_status


@pytest.mark.parametrize(
    "stop",
    [lambda process: process.send_signal(signal.SIGTERM), lambda process: process._orders.close()],
    ids=["SIGTERM", "no supervisor"],
)
def test_worker_announces_its_exit_to_the_supervisor(stop: Callable[[WorkerProcess], None]):
    with run_worker() as (process, _):
        await_message(process, BEAT)
        stop(process)
        await_message(process, LEAVING)
        assert await_end(process) == 0


def test_worker_that_cannot_serve_sends_its_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with run_worker(address) as (process, _):
            assert await_end(process) == 1
            assert process.read_messages().startswith(REJECTION + b"cannot listen on " + address.encode())


def test_long_worker_error_is_truncated_to_one_atomic_write():
    with run_worker("unix:/" + "s" * MAX_MESSAGE_BYTES) as (process, _):
        assert await_end(process) == 1
        messages = process.read_messages()
        assert messages.startswith(REJECTION)
        assert len(messages) == MAX_MESSAGE_BYTES
