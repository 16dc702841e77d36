"""A slot of a worker without a process, and with time that a test lets pass."""

import errno
import signal
from collections.abc import Callable

from tensor_reshape.server.config import Config
from tensor_reshape.server.workers.messages import BEAT, LEAVING, Order
from tensor_reshape.server.workers.processes import WorkerProcess
from tensor_reshape.server.workers.slots import BUSY_SECONDS, IDLE_SECONDS, Event, Slot, State

TICK = 0.1
ORDER = Order(number=1, config=Config(drain_seconds=1, grace_seconds=8), private_address="unix-abstract:none")


class FakeProcess(WorkerProcess):
    """A process that only keeps what is asked of it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.sent = b""
        self.idle = True
        self.alive = True
        self.actions: list[str] = []

    @property
    def was_killed(self) -> bool:
        return "SIGKILL" in self.actions

    def read_messages(self) -> bytes:
        sent, self.sent = self.sent, b""
        return sent

    def is_idle(self) -> bool:
        return self.idle

    def hurry(self) -> None:
        assert self.alive
        self.actions.append("hurry")

    def send_signal(self, number: signal.Signals) -> None:
        assert self.alive, "the number may be another process's"
        self.actions.append(number.name)

    def close(self, exit_code: int | None = None) -> None:
        del exit_code
        self.alive = False


class Room:
    """One slot, and the processes that have been started for it."""

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
        assert not any(process.alive for process in self.processes)
        self.processes.append(FakeProcess(len(self.processes) + 1))
        return self.processes[-1]

    @property
    def process(self) -> FakeProcess:
        return self.processes[-1]

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK)):
            self.slot.advance(TICK)

    def await_change(self) -> None:
        """Lets time pass until the state is another; for the longest deadline at most."""
        state = self.slot.state
        for _ in range(round(2 * BUSY_SECONDS / TICK)):
            if self.slot.state is state:
                self.slot.advance(TICK)

    def send(self, message: bytes) -> None:
        self.process.sent += message
        self.slot.advance(0)

    def beat(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.send(BEAT)
            self.wait(1)

    def be_idle(self) -> None:
        """Has the process do nothing for IDLE_SECONDS, where that is no deadline anyway."""
        self.process.idle = True
        if self.slot.state not in {State.SERVING, State.BACKING_OFF}:
            self.wait(IDLE_SECONDS + 2 * TICK)

    def handle(self, event: Event) -> None:
        """Has an event happen as it does outside of tests."""
        self.process.idle = False
        ways: dict[Event, Callable[[], None]] = {
            Event.BEAT: lambda: self.send(BEAT),
            Event.LEAVE: lambda: self.send(LEAVING),
            Event.EXIT: lambda: self.slot.record_exit(1),
            Event.DEADLINE: self.await_change,
            Event.IDLE: self.be_idle,
            Event.STOP: self.slot.stop,
            Event.HURRY: self.slot.hurry,
        }
        ways[event]()
