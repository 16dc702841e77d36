"""The class for the process of a worker, which the supervisor controls.

- A worker runs in a new interpreter. A fork would copy locks of libraries, but not the threads that hold these locks.
- Only the method `close` waits for the process, so a worker that hangs does not block the supervisor.
"""

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO

from tensor_reshape.server.workers.messages import HURRY, Order

# Python's option -P prevents imports from the working directory.
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
        # A separate pipe transfers the messages of the worker, because libraries may print to standard output.
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
            os.close(writer)  # the worker process has its own copy of this file descriptor
        self.pid = self._process.pid
        # The worker stops when this end of its standard input is closed, for example because the supervisor has ended.
        self._orders: IO[bytes] = self._process.stdin  # type: ignore[assignment] # stdin is a pipe
        # The configuration of the worker (`Order`) is written to its standard input. Writing does not wait for the
        # worker, because the order has less than 1 KB for each address, and a pipe holds 64 KiB.
        self._send(pickle.dumps(order))

    def find_exit_code(self) -> int | None:
        """Returns the exit code in the format of `subprocess`, or None while the process runs."""
        return self._process.poll()

    def read_messages(self) -> bytes:
        """Returns the messages that have arrived since the last call of this method."""
        return self._messages.read() or b""

    def hurry(self) -> None:
        """Makes a stopping worker end its running calls at once."""
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
        with suppress(BrokenPipeError):  # the worker has ended, and `find_exit_code` reports that
            self._orders.write(message)
