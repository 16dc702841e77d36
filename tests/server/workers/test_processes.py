"""Worker processes. Short programs replace the worker."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from meters import count_descriptors
from tensor_reshape.server.workers import processes
from tensor_reshape.server.workers.processes import WorkerProcess
from worker_slots import ORDER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers share a port, which takes Linux")

# Each program sends bytes on the descriptor of its first argument.
SEND = "import os, pickle, sys; send = lambda message: os.write(int(sys.argv[1]), message); "
READ_ORDER = SEND + "send(str(pickle.load(sys.stdin.buffer).number).encode())"
READ_HURRY = SEND + "source = open(0, 'rb', 0, closefd=False); pickle.load(source); send(source.read(1))"
END = SEND + "send(b'bye'); sys.exit(3)"


@contextmanager
def run(monkeypatch: pytest.MonkeyPatch, program: str) -> Iterator[WorkerProcess]:
    monkeypatch.setattr(processes, "_COMMAND", (sys.executable, "-c", program))
    process = WorkerProcess(ORDER)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.close()


def await_messages(process: WorkerProcess) -> bytes:
    while not (messages := process.read_messages()):
        os.sched_yield()
    return messages


def await_end(process: WorkerProcess) -> None:
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def test_worker_process_receives_start_and_fast_stop_messages(monkeypatch: pytest.MonkeyPatch):
    with run(monkeypatch, READ_ORDER) as process:
        assert await_messages(process) == b"1"
    with run(monkeypatch, READ_HURRY) as process:
        assert process.find_exit_code() is None
        process.hurry()
        assert await_messages(process) == b"h"


def test_ended_worker_process_has_exit_code_and_last_message(monkeypatch: pytest.MonkeyPatch):
    with run(monkeypatch, END) as process:
        await_end(process)
        assert (process.find_exit_code(), process.read_messages(), process.read_messages()) == (3, b"bye", b"")
        process.hurry()  # neither call is an error
        process.send_signal(signal.SIGTERM)


def test_failed_worker_start_closes_all_descriptors(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "_COMMAND", ("/nowhere",))
    before = count_descriptors(os.getpid())
    with pytest.raises(OSError, match="nowhere"):
        WorkerProcess(ORDER)
    assert count_descriptors(os.getpid()) == before
