"""The slots of workers: in each runs one process, and when that has ended, the next.

- A worker that serves sends heartbeats. If one is missing for `HANG_SECONDS`, the worker is killed.
- A worker that has ended is replaced: at once, and after growing pauses if it ended early.
- After `stop`, no process is started.
- Time passes by `Slot.advance` only. One thread, the supervisor's, calls everything here.
"""

import logging
import math
import signal
from collections.abc import Callable
from enum import Enum, auto

from tensor_reshape.server.workers.messages import BEAT, LEAVING, OBSTACLE, REFUSAL, STOP_MARGIN_SECONDS, Order
from tensor_reshape.server.workers.processes import WorkerProcess

START_SECONDS = 60.0
"""How long a worker may take from its start to its first heartbeat. Imports take seconds on busy machines."""

HANG_SECONDS = 10.0
"""How long a worker that serves may send no heartbeat. A worker that moved three tensors of 512 MiB missed none."""

STABLE_SECONDS = 10.0
"""A worker that lived so long did not end because of how it starts."""

BACK_OFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""How long a slot waits before the next start, while workers end early."""

_LOGGER = logging.getLogger(__name__)


class State(Enum):
    """What the worker of a slot does."""

    STARTING = auto()
    """It has sent no heartbeat yet, or is still to be started."""

    SERVING = auto()
    """Its last heartbeat is recent."""

    STOPPING = auto()
    """It said so, or was told to; or it was killed. Heartbeats count no more: running calls may delay them."""


class Slot:
    """One worker and, when it has ended, the next.

    Attributes:
        order: what each of its workers is to do.
        state: what the worker does now.
        refusal: why the last worker could not serve, in its own words; empty if it sent none.
        obstacle: why the public parts of grpcio serve in the last worker that said so; empty if none did.
        starts: how many workers were started, or tried to.
        silences: how many that served were killed because heartbeats were missing.
    """

    def __init__(self, order: Order, spawn: Callable[[Order], WorkerProcess] = WorkerProcess) -> None:
        """Leaves the slot empty; the first `advance` starts a worker.

        Args:
            order: what each of its workers is to do.
            spawn: starts a process; may raise OSError.
        """
        self.order = order
        self.state = State.STARTING
        self.refusal = self.obstacle = ""
        self.starts = self.silences = 0
        self._spawn = spawn
        self._worker: WorkerProcess | None = None  # until `advance` has found that it has ended
        self._is_last = False  # whether no other worker follows
        self._now = 0.0  # seconds, as `advance` counts them
        self._due = 0.0  # by `_now`: when the next worker is started, or this one is killed
        self._started_at = 0.0
        self._early_ends = 0  # since a worker was stable, with its own

    @property
    def serves(self) -> bool:
        """Whether the worker answers calls, as far as is known, and is not about to end."""
        return self.state is State.SERVING

    @property
    def pid(self) -> int | None:
        """The number of the worker's process; None: there is none."""
        return self._worker.pid if self._worker else None

    def advance(self, seconds: float) -> bool:
        """Lets time pass: starts a worker, reads what it has sent, and kills it, as may be due.

        Returns:
            whether the worker has ended.
        """
        self._now += seconds
        if self._worker is None:
            if not self._is_last and self._now >= self._due:
                self._start()
            return False
        code = self._worker.find_exit_code()
        self._read_messages(self._worker)  # also last words; and a heartbeat in the pipe was in time
        if code is not None:
            self._note_end(self._worker, code)
            return True
        if self._now >= self._due:
            self._kill(self._worker)
        return False

    def stop(self) -> None:
        """Has the worker stop gracefully, and no other start."""
        self._is_last = True
        self._await_end()
        if self._worker is not None:
            self._worker.send_signal(signal.SIGTERM)

    def hurry(self) -> None:
        """Has a worker that stops end the calls under way now."""
        if self._worker is not None and self._due < math.inf:
            self._worker.hurry()
            self._due = min(self._due, self._now + STOP_MARGIN_SECONDS)

    def close(self) -> None:
        """Kills the worker and awaits its end, if there is one; the slot cannot be used any more."""
        if self._worker is not None:
            self._worker.send_signal(signal.SIGKILL)
            self._worker.close()
            self._worker = None

    def _start(self) -> None:
        self.refusal = ""
        self.starts += 1
        self._started_at, self._due = self._now, self._now + START_SECONDS
        try:
            self._worker = self._spawn(self.order)
        except OSError as error:  # no memory or no processes left: the same may work in a while
            self._log(logging.ERROR, "worker cannot be started", reason=str(error))
            self._back_off()

    def _note_end(self, worker: WorkerProcess, code: int) -> None:
        if not self.refusal:  # which says more
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
        if messages.startswith(REFUSAL):
            self.refusal = messages.removeprefix(REFUSAL).decode(errors="replace")
        elif LEAVING in messages:
            self._await_end()
        elif BEAT in messages and self.state is not State.STOPPING:
            if self.state is State.STARTING:
                self._log(logging.INFO, "worker serves")
            self.state, self._due = State.SERVING, self._now + HANG_SECONDS

    def _await_end(self) -> None:
        """Gives the worker the time that it may take to stop, unless that is counted already."""
        if self.state is not State.STOPPING:
            self.state, self._due = State.STOPPING, self._now + self.order.stop_seconds

    def _kill(self, worker: WorkerProcess) -> None:
        self._log(logging.ERROR, "worker hangs")
        self.silences += self.state is State.SERVING
        self.state, self._due = State.STOPPING, math.inf  # nothing more can be done to end a process
        worker.send_signal(signal.SIGKILL)

    def _log(self, level: int, message: str, **extra: object) -> None:
        _LOGGER.log(level, message, extra={"worker": self.order.number, "pid": self.pid, **extra})
