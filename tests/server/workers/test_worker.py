"""A worker process. The test acts as the supervisor."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from tensor_reshape.server.config import Config
from tensor_reshape.server.process.listeners import hold
from tensor_reshape.server.workers.supervisor import Worker
from waits import await_that

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers share a port, which takes Linux")

# a server that never stops
STUCK = """
import socket, time
from tensor_reshape.server.workers import worker

class Server:
    beat = start = lambda *_: None
    stop = lambda *_: time.sleep(600)

worker._serve(socket.socket(fileno=0), Server(), 0.01)
"""


@contextmanager
def start(address: str, drain_seconds: float = 0) -> Iterator[Worker]:
    with closing(Worker(1, Config(listen=(address,), drain_seconds=drain_seconds, log_level="error"))) as worker:
        worker.advance(0)
        yield worker


def await_exit_code(worker: Worker) -> int:
    """Returns the exit code, and leaves the messages of the process unread."""
    assert worker.pid is not None
    ended = os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    return ended.si_status


@pytest.mark.parametrize(
    "stop",
    [lambda worker: worker.stop(0, hurries=False), lambda worker: worker._channel.close()],
    ids=["SIGTERM", "no supervisor"],
)
def test_worker_stops_gracefully(stop: Callable[[Worker], None]):
    with hold("127.0.0.1:0") as address, start(address) as worker:
        await_that(lambda: worker.advance(0) or worker.serves)
        stop(worker)
        assert await_exit_code(worker) == 0


def test_draining_worker_reports_that_it_stops_and_ends_at_a_second_signal():
    with hold("127.0.0.1:0") as address, start(address, drain_seconds=3600) as worker:
        await_that(lambda: worker.advance(0) or worker.serves)
        worker.stop(0, hurries=False)
        await_that(lambda: worker.advance(0) or not worker.serves)
        assert worker.pid is not None
        worker.stop(0, hurries=True)
        assert await_exit_code(worker) == 0


def test_worker_that_cannot_serve_sends_its_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with start(address) as worker:
            await_that(lambda: worker.advance(0))
    assert worker.reason.startswith(f"cannot listen on {address}")


def test_worker_that_does_not_stop_without_its_supervisor_is_ended():
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdin=theirs.fileno())
    theirs.close()
    ours.close()
    assert process.wait(60) == -signal.SIGALRM
