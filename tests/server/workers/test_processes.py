"""A worker's process as the supervisor holds it; programs of a line stand for the worker."""

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

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Each sends a dot at this point, by the descriptor of its first argument.
SEND = "import os, pickle, sys; send = lambda message=b'.': os.write(int(sys.argv[1]), message); "
SPIN = SEND + "send()\nwhile True: pass"
SLEEP = SEND + "import time; send(); time.sleep(60)"
# What the system calls the thread (prctl 15) looks like the end of a name and the state of a thread that sleeps.
SLEEP_BESIDE_A_THREAD_THAT_SPINS = (
    SEND
    + """import ctypes, threading
def spin():
    ctypes.CDLL(None).prctl(15, b"a) S 1")
    while True: pass
threading.Thread(target=spin, daemon=True).start(); send(); threading.Event().wait()"""
)
READ_ORDER = SEND + "send(str(pickle.load(sys.stdin.buffer).number).encode())"
READ_HURRY = SEND + "source = open(0, 'rb', 0, closefd=False); pickle.load(source); send(source.read(1))"
END = SEND + "send(b'bye')"


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


def await_idleness(process: WorkerProcess, *, expected: bool) -> None:
    """Returns when the process is as expected; between sending and sleeping it runs for a moment."""
    while process.is_idle() is not expected:
        os.sched_yield()


def test_order_hurry_and_last_message_arrive(monkeypatch: pytest.MonkeyPatch):
    with run(monkeypatch, READ_ORDER) as process:
        assert await_messages(process) == b"1"
    with run(monkeypatch, READ_HURRY) as process:
        process.hurry()
        assert await_messages(process) == b"h"
    with run(monkeypatch, END) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process.read_messages() == b"bye"
        process.hurry()  # of a process that has ended, which is not an error


@pytest.mark.parametrize("program", [SPIN, SLEEP_BESIDE_A_THREAD_THAT_SPINS], ids=["main thread", "other thread"])
def test_process_that_computes_is_not_idle(monkeypatch: pytest.MonkeyPatch, program: str):
    with run(monkeypatch, program) as process:
        await_messages(process)
        await_idleness(process, expected=False)
        assert not any(process.is_idle() for _ in range(20))
        process.send_signal(signal.SIGSTOP)
        await_idleness(process, expected=True)


def test_process_that_waits_is_idle_and_its_messages_are_read_once(monkeypatch: pytest.MonkeyPatch):
    with run(monkeypatch, SLEEP) as process:
        assert await_messages(process) == b"."
        assert process.read_messages() == b""
        await_idleness(process, expected=True)
        assert all(process.is_idle() for _ in range(20))


def test_signal_to_an_ended_process_does_not_reap_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "_COMMAND", (sys.executable, "-c", END))
    process = WorkerProcess(ORDER)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    process.send_signal(signal.SIGTERM)
    assert os.waitpid(process.pid, os.WNOHANG) == (process.pid, 0)
    process.close(0)


def test_process_that_cannot_be_started_leaves_no_descriptor_open(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "_COMMAND", ("/nowhere",))
    before = count_descriptors(os.getpid())
    with pytest.raises(OSError, match="nowhere"):
        WorkerProcess(ORDER)
    assert count_descriptors(os.getpid()) == before
