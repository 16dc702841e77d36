"""The loop of the supervisor with short programs as workers. `e2e/test_workers` has real workers."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.workers.messages import BEAT, REJECTION
from tensor_reshape.server.workers.processes import WorkerProcess
from tensor_reshape.server.workers.slots import Slot
from tensor_reshape.server.workers.supervisor import Supervisor
from worker_slots import ORDER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers share a port, which takes Linux")

JUNK = REJECTION + b"junk"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StandIn(WorkerProcess):
    """A real process that sends given messages. With a heartbeat, it runs until a signal. Others end at once."""

    def __init__(self, sent: bytes) -> None:
        self._process = subprocess.Popen(["sleep", "60"] if sent == BEAT else ["true"])
        self.pid = self._process.pid
        self._sent = sent
        if sent != BEAT:  # when the supervisor checks, the process has ended, but no one has waited for it
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def read_messages(self) -> bytes:
        return self._sent

    def close(self) -> None:
        self._process.wait()


def make_slot(*sent: bytes) -> Slot:
    """Makes a slot whose workers send these messages one after the other."""
    left = iter(sent)
    return Slot(ORDER, lambda _: StandIn(next(left)))


@contextmanager
def supervise(*slots: Slot, announce: Callable[[], None] = lambda: None) -> Iterator[Supervisor]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    with ExitStack() as stack:
        for slot in slots:
            stack.enter_context(closing(slot))
        yield Supervisor(slots, announce)
    for number, handler in before.items():
        signal.signal(number, handler)


def kill(slot: Slot, number: signal.Signals = signal.SIGKILL) -> None:
    assert slot.pid is not None
    os.kill(slot.pid, number)


@contextmanager
def stop_at(message: str) -> Iterator[None]:
    """Sends this process SIGTERM when a certain message is logged."""

    def stop(record: logging.LogRecord) -> bool:
        if record.getMessage() == message:
            os.kill(os.getpid(), signal.SIGTERM)
        return True

    logger = logging.getLogger("tensor_reshape.server.workers.supervisor")
    logger.addFilter(stop)
    try:
        yield
    finally:
        logger.removeFilter(stop)


def test_supervisor_reports_the_error_if_no_worker_starts():
    slots = [make_slot(JUNK) for _ in range(3)]
    with supervise(*slots) as supervisor, pytest.raises(ConfigError, match=r"^junk$"):
        supervisor.run()


def test_supervisor_exits_if_a_worker_exits_during_start():
    with (
        supervise(make_slot(BEAT), make_slot(b"")) as supervisor,
        pytest.raises(ConfigError, match="before all workers served"),
    ):
        supervisor.run()


def test_supervisor_raises_the_start_error_when_no_worker_serves():
    slot = make_slot(BEAT, JUNK)
    with supervise(slot, announce=lambda: kill(slot)) as supervisor, pytest.raises(ConfigError, match=r"^junk$"):
        supervisor.run()


def test_worker_start_error_is_only_logged_while_another_serves(caplog: pytest.LogCaptureFixture):
    first = make_slot(BEAT, JUNK, BEAT)
    with (
        supervise(first, make_slot(BEAT), announce=lambda: kill(first)) as supervisor,
        stop_at("worker cannot be started"),
    ):
        supervisor.run()
    (record,) = [record for record in caplog.records if record.getMessage() == "worker cannot be started"]
    assert vars(record)["reason"] == "junk"
