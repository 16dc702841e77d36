"""Slots of workers. Each slot has one process at a time and replaces it when it ends.

- A worker that serves sends heartbeats. If none arrives for `HANG_SECONDS`, the slot kills the worker.
- A slot replaces a worker at once, or after an increasing delay if workers end early.
- After `stop`, a slot starts no process.
- Time advances only by calls of `Slot.advance`. All calls come from the supervisor's thread.
"""

import logging
import math
import signal
from collections.abc import Callable
from enum import Enum, auto

from tensor_reshape.server.workers.messages import BEAT, LEAVING, OBSTACLE, REJECTION, STOP_MARGIN_SECONDS, Order
from tensor_reshape.server.workers.processes import WorkerProcess

START_SECONDS = 60.0
"""Time from the start of a worker to its first heartbeat. Imports take seconds on busy machines."""

HANG_SECONDS = 10.0
"""Time without heartbeats after which a worker is killed. With three tensors of 512 MiB, a worker missed none."""

STABLE_SECONDS = 10.0
"""Lifetime after which the end of a worker does not count as early."""

BACK_OFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Delays before the next start while workers end early."""

_LOGGER = logging.getLogger(__name__)


class State(Enum):
    """State of the worker of a slot."""

    STARTING = auto()
    """The worker has not started, or has sent no heartbeat yet."""

    SERVING = auto()
    """The last heartbeat is recent."""

    STOPPING = auto()
    """The worker stops or was killed. Heartbeats are ignored, because running calls may delay them."""


class Slot:
    """A sequence of workers, one at a time.

    Attributes:
        order: the instructions for each worker.
        state: the state of the current worker.
        rejection: the reason why the last worker could not start; empty if it sent none.
        obstacle: the reason for the fallback server that a worker has sent; empty if none did.
        starts: the number of started workers, including failed attempts.
        silences: the number of workers that were killed because heartbeats were missing.
    """

    def __init__(self, order: Order, spawn: Callable[[Order], WorkerProcess] = WorkerProcess) -> None:
        """Creates an empty slot. The first `advance` starts a worker.

        Args:
            order: the instructions for each worker.
            spawn: starts a process, or raises OSError.
        """
        self.order = order
        self.state = State.STARTING
        self.rejection = self.obstacle = ""
        self.starts = self.silences = 0
        self._spawn = spawn
        self._worker: WorkerProcess | None = None  # the running process
        self._is_last = False  # whether no worker is started any more
        self._now = 0.0  # the sum of the seconds passed to `advance`
        self._due = 0.0  # time of the next start, or of killing the current worker
        self._started_at = 0.0
        self._early_ends = 0  # number of early ends since a stable worker

    @property
    def serves(self) -> bool:
        """Whether the worker serves calls, as far as is known, and does not stop."""
        return self.state is State.SERVING

    @property
    def pid(self) -> int | None:
        """The process identifier; None without a process."""
        return self._worker.pid if self._worker else None

    def advance(self, seconds: float) -> bool:
        """Advances the time: starts a worker, reads its messages, and kills it if that is due.

        Returns:
            whether the worker has ended.
        """
        self._now += seconds
        if self._worker is None:
            if not self._is_last and self._now >= self._due:
                self._start()
            return False
        code = self._worker.find_exit_code()
        self._read_messages(self._worker)  # before the checks, because a heartbeat in the pipe was in time
        if code is not None:
            self._note_end(self._worker, code)
            return True
        if self._now >= self._due:
            self._kill(self._worker)
        return False

    def stop(self) -> None:
        """Stops the worker gracefully and starts no other one."""
        self._is_last = True
        self._await_end()
        if self._worker is not None:
            self._worker.send_signal(signal.SIGTERM)

    def hurry(self) -> None:
        """Makes a worker that stops end its running calls at once."""
        if self._worker is not None and self._due < math.inf:
            self._worker.hurry()
            self._due = min(self._due, self._now + STOP_MARGIN_SECONDS)

    def close(self) -> None:
        """Kills the worker, if any, and waits for its end. The slot cannot be used afterwards."""
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
        except OSError as error:  # no memory or processes are left, which may change
            self._log(logging.ERROR, "worker cannot be started", reason=str(error))
            self._back_off()

    def _note_end(self, worker: WorkerProcess, code: int) -> None:
        if not self.rejection:  # the supervisor reports the rejection instead
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
        if messages.startswith(OBSTACLE):
            reason, _, messages = messages.removeprefix(OBSTACLE).partition(b"\n")
            self.obstacle = reason.decode(errors="replace")
        if messages.startswith(REJECTION):
            self.rejection = messages.removeprefix(REJECTION).decode(errors="replace")
        elif LEAVING in messages:
            self._await_end()
        elif BEAT in messages and self.state is not State.STOPPING:
            if self.state is State.STARTING:
                self._log(logging.INFO, "worker serves")
            self.state, self._due = State.SERVING, self._now + HANG_SECONDS

    def _await_end(self) -> None:
        """Starts the time limit for stopping, unless it has started."""
        if self.state is not State.STOPPING:
            self.state, self._due = State.STOPPING, self._now + self.order.stop_seconds

    def _kill(self, worker: WorkerProcess) -> None:
        self._log(logging.ERROR, "worker hangs")
        self.silences += self.state is State.SERVING
        self.state, self._due = State.STOPPING, math.inf  # SIGKILL needs no further action
        worker.send_signal(signal.SIGKILL)

    def _log(self, level: int, message: str, **extra: object) -> None:
        _LOGGER.log(level, message, extra={"worker": self.order.number, "pid": self.pid, **extra})
