"""The process of a worker, as the supervisor holds it.

- It is a fresh interpreter, not a fork: a fork would copy the locks of libraries without the threads that hold them.
- Nothing but `close` waits for the process, so one that hangs cannot hold up the supervisor.
"""

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO

from tensor_reshape.server.workers.messages import HURRY, Order

# -P: whatever lies in the working directory is not imported.
_COMMAND = (sys.executable, "-P", "-m", "tensor_reshape.server.workers.worker")


class WorkerProcess:
    """A worker's process, and the pipes to and from it.

    Attributes:
        pid: its number.
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
            self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
                (*_COMMAND, str(writer)),
                bufsize=0,
                stdin=subprocess.PIPE,
                pass_fds=(writer, *([] if order.counters is None else [order.counters])),
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
        # Less than a kilobyte for each address. A pipe holds 64 KiB, so this does not wait for the worker to read.
        self._send(pickle.dumps(order))

    def find_exit_code(self) -> int | None:
        """Returns how the process has ended, as `subprocess` has it; None: it has not."""
        return self._process.poll()

    def read_messages(self) -> bytes:
        """Returns what the worker has sent since the last call; empty if that is nothing."""
        return self._messages.read() or b""

    def hurry(self) -> None:
        """Tells a worker that stops to end the calls under way now."""
        self._send(HURRY)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the process has ended."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Awaits the end of the process, and closes the pipes."""
        self._process.wait()
        self._orders.close()
        self._messages.close()

    def _send(self, message: bytes) -> None:
        with suppress(BrokenPipeError):  # the worker has ended; its exit code will tell
            self._orders.write(message)
