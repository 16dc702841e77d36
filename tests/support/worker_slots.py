"""A slot with a fake process and a fake clock."""

import errno
import signal

from tensor_reshape.server.config import Config
from tensor_reshape.server.workers.messages import BEAT, Order
from tensor_reshape.server.workers.processes import WorkerProcess
from tensor_reshape.server.workers.slots import Slot

TICK = 0.1
ORDER = Order(number=1, config=Config(drain_seconds=1, shutdown_grace_seconds=8))


class FakeProcess(WorkerProcess):
    """A fake process that records its calls."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.sent = b""
        self.code: int | None = None
        self.is_closed = False
        self.actions: list[str] = []

    @property
    def was_killed(self) -> bool:
        return "SIGKILL" in self.actions

    def find_exit_code(self) -> int | None:
        return self.code

    def read_messages(self) -> bytes:
        sent, self.sent = self.sent, b""
        return sent

    def hurry(self) -> None:
        self.actions.append("hurry")

    def send_signal(self, number: signal.Signals) -> None:
        self.actions.append(number.name)

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class Room:
    """A slot and its fake processes."""

    def __init__(self, *, full: bool = False) -> None:
        self.full = full
        self.attempts = 0
        self.processes: list[FakeProcess] = []
        self.slot = Slot(ORDER, self.spawn)
        self.slot.advance(0)

    def spawn(self, order: Order) -> FakeProcess:
        assert order is ORDER
        self.attempts += 1
        if self.full:
            raise OSError(errno.EAGAIN, "no room")
        assert all(process.is_closed for process in self.processes)
        self.processes.append(FakeProcess(len(self.processes) + 1))
        return self.processes[-1]

    @property
    def process(self) -> FakeProcess:
        return self.processes[-1]

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK)):
            self.slot.advance(TICK)

    def send(self, message: bytes) -> None:
        self.process.sent += message
        self.slot.advance(0)

    def beat(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.send(BEAT)
            self.wait(1)

    def exit(self, code: int = 1) -> None:
        """Ends the process, and reports its end to the slot."""
        self.process.code = code
        assert self.slot.advance(0)
