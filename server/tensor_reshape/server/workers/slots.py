"""Slots for workers. A slot runs one worker process at a time, and starts another worker when the process ends.

- A serving worker sends heartbeats. If no heartbeat arrives for `HANG_SECONDS`, the slot kills the worker.
- Normally a slot starts the next worker as soon as the previous worker has ended. If several successive workers end
  early, the slot waits longer before each start.
- After its method `stop` is called, a slot starts no further process.
- A slot has its own clock, which advances only when `Slot.advance` is called. Only the main thread of the supervisor
  uses slots.
"""

import logging
import math
import signal
from collections.abc import Callable
from enum import Enum, auto

from tensor_reshape.server.workers.messages import BEAT, LEAVING, REJECTION, STOP_MARGIN_SECONDS, Order
from tensor_reshape.server.workers.processes import WorkerProcess

START_SECONDS = 60.0
"""Seconds within which a worker must send its first heartbeat.

On busy machines, the imports of a worker take seconds.
"""

HANG_SECONDS = 10.0
"""Seconds without heartbeats after which a slot kills a serving worker.

In a measurement with three tensors of 512 MiB, a worker still sent all heartbeats.
"""

STABLE_SECONDS = 10.0
"""A worker that ends after a shorter time than this number of seconds has ended early."""

BACK_OFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Delays in seconds before the next start of a worker.

The delay increases with each successive worker that ends early.
"""

_LOGGER = logging.getLogger(__name__)


class State(Enum):
    """The state of the worker in a slot."""

    STARTING = auto()
    """The worker has not started yet, or has not sent a heartbeat yet."""

    SERVING = auto()
    """The worker has sent a heartbeat within the last `HANG_SECONDS`."""

    STOPPING = auto()
    """The worker is stopping or was killed. The slot ignores heartbeats, because running calls may delay them."""


class Slot:
    """A slot for one worker process at a time.

    Attributes:
        order: the instructions for each worker.
        state: the state of the current worker.
        rejection: the reason why the last worker could not start, or an empty text.
        starts: the number of started workers, including failed attempts.
        hangs: the number of workers that were killed because they sent no heartbeats.
    """

    def __init__(self, order: Order, spawn: Callable[[Order], WorkerProcess] = WorkerProcess) -> None:
        """Creates an empty slot. The first call of `advance` starts a worker.

        Args:
            order: the instructions for each worker.
            spawn: function that starts a process, or raises OSError.
        """
        self.order = order
        self.state = State.STARTING
        self.rejection = ""
        self.starts = self.hangs = 0
        self._spawn = spawn
        self._worker: WorkerProcess | None = None  # the running process
        self._is_last = False  # whether this slot must not start another worker
        self._now = 0.0  # the clock of the slot, which is the sum of the seconds that were passed to `advance`
        # when the clock of the slot reaches this time, the slot starts the next worker or kills the current one
        self._due = 0.0
        self._started_at = 0.0
        self._early_ends = 0  # the number of workers in a row that have ended early

    @property
    def serves(self) -> bool:
        """Whether the worker serves calls and is not stopping, according to its messages."""
        return self.state is State.SERVING

    @property
    def pid(self) -> int | None:
        """The process identifier, or None if no process runs."""
        return self._worker.pid if self._worker else None

    def advance(self, seconds: float) -> bool:
        """Advances the clock of the slot by `seconds`, and starts a worker or reads the messages of the current worker.

        If the current worker hangs or takes too long to stop, the slot kills the worker.

        Returns:
            whether the worker has ended.
        """
        self._now += seconds
        if self._worker is None:
            if not self._is_last and self._now >= self._due:
                self._start()
            return False
        code = self._worker.find_exit_code()
        # Messages are read before the time limit is checked, because a heartbeat in the pipe has arrived in time.
        self._read_messages(self._worker)
        if code is not None:
            self._record_end(self._worker, code)
            return True
        if self._now >= self._due:
            self._kill(self._worker)
        return False

    def stop(self) -> None:
        """Stops the worker gracefully. The slot starts no further worker."""
        self._is_last = True
        self._await_end()
        if self._worker is not None:
            self._worker.send_signal(signal.SIGTERM)

    def hurry(self) -> None:
        """Makes a stopping worker end its running calls at once."""
        if self._worker is not None and self._due < math.inf:
            self._worker.hurry()
            self._due = min(self._due, self._now + STOP_MARGIN_SECONDS)

    def close(self) -> None:
        """Kills the current worker, if any, and waits until it has ended. The slot cannot be used afterwards."""
        if self._worker is not None:
            self._worker.send_signal(signal.SIGKILL)
            self._worker.close()
            self._worker = None

    def _start(self) -> None:
        self.rejection = ""
        self.starts += 1
        self._started_at, self._due = self._now, self._now + START_SECONDS
        try:
            self._worker = self._spawn(self.order)
        except OSError as error:  # starting a process fails if the system has too little memory or too many processes
            self._log(logging.ERROR, "worker cannot be started", reason=str(error))
            self._back_off()

    def _record_end(self, worker: WorkerProcess, code: int) -> None:
        if not self.rejection:  # if the worker was rejected, the supervisor logs the reason
            self._log(logging.INFO if self._is_last else logging.ERROR, "worker ended", code=code)
        worker.close()
        self._worker = None
        self._back_off()

    def _back_off(self) -> None:
        if self._now - self._started_at >= STABLE_SECONDS:
            self._early_ends = 0
        self._due = self._now + BACK_OFF_SECONDS[min(self._early_ends, len(BACK_OFF_SECONDS) - 1)]
        self._early_ends += 1
        self.state = State.STOPPING if self._is_last else State.STARTING

    def _read_messages(self, worker: WorkerProcess) -> None:
        messages = worker.read_messages()
        if messages.startswith(REJECTION):
            self.rejection = messages.removeprefix(REJECTION).decode(errors="replace")
        elif LEAVING in messages:
            self._await_end()
        elif BEAT in messages and self.state is not State.STOPPING:
            if self.state is State.STARTING:
                self._log(logging.INFO, "worker serves")
            self.state, self._due = State.SERVING, self._now + HANG_SECONDS

    def _await_end(self) -> None:
        """Starts the time limit for stopping the worker, unless this time limit has already started."""
        if self.state is not State.STOPPING:
            self.state, self._due = State.STOPPING, self._now + self.order.stop_seconds

    def _kill(self, worker: WorkerProcess) -> None:
        self._log(logging.ERROR, "worker hangs")
        self.hangs += self.state is State.SERVING
        # After SIGKILL, the time limit is infinite, because nothing else can end the process.
        self.state, self._due = State.STOPPING, math.inf
        worker.send_signal(signal.SIGKILL)

    def _log(self, level: int, message: str, **extra: object) -> None:
        _LOGGER.log(level, message, extra={"worker": self.order.number, "pid": self.pid, **extra})
