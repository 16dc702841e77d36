"""The seats of workers, as the supervisor sees them: who sits there, and when it is somebody else's turn."""

import logging
import math
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from tensor_reshape.server.workers.worker import HURRY, LEAVING, REFUSAL, STOP_MARGIN_SECONDS, Order

START_SECONDS = 60.0
"""How long a worker may take until it serves."""

SILENCE_SECONDS = 1.0
"""How long a worker that serves may say nothing before it is looked at: two heartbeats."""

IDLE_SECONDS = 1.0
"""How long it may then do nothing. A worker that copies gigabytes is silent for half a minute, but it is not idle."""

BUSY_SECONDS = 60.0
"""How long it may say nothing whatever it does."""

STABLE_SECONDS = 10.0
"""A worker that lived so long has not died of its start."""

PAUSES_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""What passes before a worker is replaced, by how many in a row have died young before it."""

_LOGGER = logging.getLogger(__name__)
# -P: the working directory is no place to import from. Not -m: the module would be there twice, and `Order` with it.
_COMMAND = (
    sys.executable,
    "-P",
    "-c",
    "import sys; from tensor_reshape.server.workers.worker import work; work(sys.argv[1])",
)


class WorkerProcess:
    """A worker's process, and the pipes to and from it.

    Attributes:
        pid: what `os.waitpid` names it by.
    """

    def __init__(self, order: Order) -> None:
        """Starts it, in a session of its own: a Ctrl-C is for the supervisor alone.

        Raises:
            OSError: the system has no room for it.
        """
        reader, writer = os.pipe()  # not its standard output, which belongs to whatever prints
        self._words = os.fdopen(reader, "rb", buffering=0)
        os.set_blocking(reader, False)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
                (*_COMMAND, str(writer)), bufsize=0, stdin=subprocess.PIPE, pass_fds=(writer,), start_new_session=True
            )
        except OSError:
            self._words.close()
            raise
        finally:
            os.close(writer)
        self.pid = self._process.pid
        self._orders: IO[bytes] = self._process.stdin  # type: ignore[assignment] # asked for above
        self._threads = Path(f"/proc/{self.pid}/task")
        self._tell(pickle.dumps(order))

    def read(self) -> bytes:
        """Returns what it has told since the last time."""
        return self._words.read() or b""

    def hurry(self) -> None:
        """Has it end the calls under way, when it stops."""
        self._tell(HURRY)

    def is_idle(self) -> bool:
        """Whether none of its threads runs, or waits for a processor or a disk."""
        try:
            states = [stat.read_text().rpartition(")")[2].split()[0] for stat in self._threads.glob("*/stat")]
        except OSError:  # a thread has ended meanwhile
            return False
        return not {"R", "D"}.intersection(states)

    def kill(self, number: signal.Signals) -> None:
        """Sends a signal; until `close`, its number cannot be another's."""
        os.kill(self.pid, number)

    def close(self, code: int | None = None) -> None:
        """Closes the pipes of a process that has ended with `code`, or awaits its end."""
        if code is None:
            self._process.wait()
        else:
            self._process.returncode = code
        self._orders.close()
        self._words.close()

    def _tell(self, message: bytes) -> None:
        with suppress(BrokenPipeError):  # it has ended, and will be waited for
            self._orders.write(message)


class Seat:
    """One worker and, when it has ended, the next.

    Attributes:
        serves: whether the worker tells so, and is not about to end.
        refusal: why the last worker could not be started, where it told.
    """

    def __init__(self, order: Order, spawn: Callable[[Order], WorkerProcess] = WorkerProcess) -> None:
        """Leaves the seat empty."""
        self.serves = False
        self.refusal = ""
        self._order = order
        self._spawn = spawn
        self._worker: WorkerProcess | None = None
        self._stopping = False
        self._leaving = False
        self._early_ends = 0
        self._left_seconds = math.inf  # until the worker is killed; where there is none, until one is started
        self._lived_seconds = 0.0
        self._silent_seconds = 0.0
        self._idle_seconds = 0.0

    @property
    def pid(self) -> int | None:
        """The worker's process, until `end`."""
        return self._worker.pid if self._worker else None

    def start(self) -> None:
        """Starts a worker; where the system has no room for it, another attempt follows a pause."""
        self.refusal = ""
        self._leaving = False
        self._lived_seconds = self._idle_seconds = 0.0
        try:
            self._worker = self._spawn(self._order)
        except OSError as error:
            self._log(logging.ERROR, "worker cannot be started", reason=str(error))
            self._pause()
        else:
            self._left_seconds = START_SECONDS

    def age(self, seconds: float) -> None:
        """Lets time pass: hears the worker, kills it when it hangs or takes too long, starts one after the pause."""
        self._left_seconds -= seconds
        self._lived_seconds += seconds
        self._silent_seconds += seconds
        self._hear()
        if self._left_seconds > 0 and not self._hangs(seconds):
            return
        if self._worker is None:
            self.start()
            return
        self._log(logging.ERROR, "worker hangs")
        self._expect_end(math.inf)
        self._worker.kill(signal.SIGKILL)

    def end(self, code: int) -> None:
        """Empties the seat of a worker that has ended, and been waited for."""
        if self._worker is None:
            return
        self._hear()
        if not self.refusal:  # which says all
            self._log(logging.INFO if self._stopping else logging.ERROR, "worker ended", code=code)
        self._worker.close(code)
        self._worker = None
        self.serves = False
        self._pause()

    def stop(self) -> None:
        """Has the worker stop gracefully, and no other start."""
        self._stopping = True
        if self._worker:
            self._expect_end(self._order.stop_seconds)
            self._worker.kill(signal.SIGTERM)
        else:
            self._left_seconds = math.inf

    def hurry(self) -> None:
        """Has a worker that stops end the calls under way."""
        if self._worker:
            self._left_seconds = STOP_MARGIN_SECONDS
            self._worker.hurry()

    def close(self) -> None:
        """Ends the worker at once, if there is one."""
        if self._worker:
            self._worker.kill(signal.SIGKILL)
            self._worker.close()
            self._worker = None

    def _hangs(self, seconds: float) -> bool:
        looks = self.serves and self._silent_seconds > SILENCE_SECONDS
        idle = looks and self._worker is not None and self._worker.is_idle()
        self._idle_seconds = self._idle_seconds + seconds if idle else 0.0
        return self._idle_seconds > IDLE_SECONDS

    def _hear(self) -> None:
        heard = self._worker.read() if self._worker else b""
        if heard.startswith(REFUSAL):
            self.refusal = heard.removeprefix(REFUSAL).decode(errors="replace")
        elif heard and not self._leaving:
            self._note_life()
            if LEAVING in heard:
                self._expect_end(self._order.stop_seconds)

    def _note_life(self) -> None:
        if not self.serves:
            self._log(logging.INFO, "worker serves")
        self.serves = True
        self._silent_seconds = 0.0
        self._left_seconds = BUSY_SECONDS

    def _expect_end(self, seconds: float) -> None:
        self.serves = False
        self._leaving = True  # its calls under way may keep it from saying anything
        self._left_seconds = seconds

    def _pause(self) -> None:
        if self._lived_seconds >= STABLE_SECONDS:
            self._early_ends = 0
        pause = PAUSES_SECONDS[min(self._early_ends, len(PAUSES_SECONDS) - 1)]
        self._left_seconds = math.inf if self._stopping else pause
        self._early_ends += 1

    def _log(self, level: int, message: str, **extra: object) -> None:
        _LOGGER.log(level, message, extra={"worker": self._order.number, "pid": self.pid, **extra})
