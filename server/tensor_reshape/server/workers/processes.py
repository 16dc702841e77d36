"""The process of a worker, controlled by the supervisor.

- It is a new interpreter, because a fork would copy locks of libraries without the threads that hold them.
- Only `close` waits for the process, so a process that hangs does not block the supervisor.
"""

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO

from tensor_reshape.server.workers.messages import HURRY, Order

# -P: do not import modules from the working directory.
_COMMAND = (sys.executable, "-P", "-m", "tensor_reshape.server.workers.worker")


class WorkerProcess:
    """A worker's process and its two pipes.

    Attributes:
        pid: the process identifier.
    """

    def __init__(self, order: Order) -> None:
        """Starts the process in a new session, so that Ctrl-C in a terminal signals only the supervisor.

        Raises:
            OSError: the system has no memory or descriptors for another process.
        """
        reader, writer = os.pipe()
        # The worker's messages have their own pipe, because libraries may print to standard output.
        self._messages = os.fdopen(reader, "rb", buffering=0)
        os.set_blocking(reader, False)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed command
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
            os.close(writer)  # the worker has a copy
        self.pid = self._process.pid
        # The worker stops when this pipe is closed, for example because the supervisor has ended.
        self._orders: IO[bytes] = self._process.stdin  # type: ignore[assignment] # stdin is a pipe
        # It has less than a kilobyte for each address and a pipe holds 64 KiB, so this does not wait for the worker.
        self._send(pickle.dumps(order))

    def find_exit_code(self) -> int | None:
        """Returns the exit code as in `subprocess`; None while the process runs."""
        return self._process.poll()

    def read_messages(self) -> bytes:
        """Returns the messages since the last call, possibly empty."""
        return self._messages.read() or b""

    def hurry(self) -> None:
        """Makes a worker that stops end its running calls at once."""
        self._send(HURRY)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal unless the process has ended."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Waits for the end of the process and closes the pipes."""
        self._process.wait()
        self._orders.close()
        self._messages.close()

    def _send(self, message: bytes) -> None:
        with suppress(BrokenPipeError):  # the worker has ended, which its exit code will show
            self._orders.write(message)
