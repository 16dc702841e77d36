"""The process of a worker, as the supervisor holds it.

- It is a fresh interpreter, not a fork: a fork would copy the locks of libraries without the threads that hold them.
- Nothing but `close` without an exit code waits for the process, so one that hangs cannot hold up the supervisor.
- It is reaped by the supervisor's `os.waitpid`, not here. `close` has to follow before anything else: once reaped, its
  number may be another process's.
"""

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from tensor_reshape.server.workers.messages import HURRY, Order

# -P: whatever lies in the working directory is not imported.
_COMMAND = (sys.executable, "-P", "-m", "tensor_reshape.server.workers.worker")
# The letters of /proc/PID/task/*/stat: running or ready to run, and waiting for a disk.
_BUSY_STATES = frozenset({"R", "D"})


class WorkerProcess:
    """A worker's process, and the pipes to and from it.

    Attributes:
        pid: what `os.waitpid` reports its end by.
    """

    def __init__(self, order: Order) -> None:
        """Starts the process, in a session of its own: a terminal's Ctrl-C reaches the supervisor alone.

        Raises:
            OSError: the system has no room for another process, or no descriptors.
        """
        reader, writer = os.pipe()
        # What the worker sends. Not its standard output, where any library may print.
        self._messages = os.fdopen(reader, "rb", buffering=0)
        os.set_blocking(reader, False)
        try:
            # Used to start the process and, in `close`, to await its end; `os.waitpid` tells of all other ends.
            self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
                (*_COMMAND, str(writer)),
                bufsize=0,
                stdin=subprocess.PIPE,
                pass_fds=(writer, *([] if order.tally is None else [order.tally])),
                start_new_session=True,
            )
        except OSError:
            self._messages.close()
            raise
        finally:
            os.close(writer)  # the worker has its own copy
        self.pid = self._process.pid
        # Stays open as long as the worker is to serve: by the end of it, the worker learns that the supervisor is gone.
        self._orders: IO[bytes] = self._process.stdin  # type: ignore[assignment] # a pipe was asked for above
        # A directory for each thread of the worker.
        self._threads = Path(f"/proc/{self.pid}/task")
        # Less than a kilobyte for each address. A pipe holds 64 KiB, so this does not wait for the worker to read.
        self._send(pickle.dumps(order))

    def read_messages(self) -> bytes:
        """Returns what the worker has sent since the last call; empty where that is nothing."""
        return self._messages.read() or b""

    def hurry(self) -> None:
        """Tells a worker that stops to end the calls under way now."""
        self._send(HURRY)

    def is_idle(self) -> bool:
        """Returns whether none of its threads runs, is ready to run, or waits for a disk."""
        try:
            # The name of a thread, in parentheses, may hold anything; the state is the first word behind it.
            states = {stat.read_text().rpartition(")")[2].split()[0] for stat in self._threads.glob("*/stat")}
        except OSError:  # a thread ended between the listing and the reading: something ran just now
            return False
        return states.isdisjoint(_BUSY_STATES)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal; the process must not have been reaped."""
        # Not by `Popen.send_signal`, which reaps a process that has ended: `os.waitpid` would not report its end.
        os.kill(self.pid, number)

    def close(self, exit_code: int | None = None) -> None:
        """Closes the pipes of a process that has ended with `exit_code`; without one, awaits its end first."""
        if exit_code is None:
            self._process.wait()
        else:
            self._process.returncode = exit_code  # or Popen would warn, when freed, of a process that still runs
        self._orders.close()
        self._messages.close()

    def _send(self, message: bytes) -> None:
        with suppress(BrokenPipeError):  # the worker has ended; its exit code will tell
            self._orders.write(message)
