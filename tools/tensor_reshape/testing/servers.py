"""Starts servers for tests. Each server runs in its own process, on a free port of this machine.

Invariant: on systems with a shell, a server ends when the process that started it ends, even if that process is killed.
"""

import json
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread, Timer
from typing import IO, NamedTuple

from tensor_reshape.runtime.lazy_imports import advise_install

# `run_server` reads the server's address from the server's log, and no other program reads this log. These options
# therefore override the options of the caller and the environment.
_OWN_OPTIONS = ("--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "info")
_START_SECONDS = 60
_STOP_SECONDS = 10
_KEPT_LINES = 20


class ReshapeServer(NamedTuple):
    """A running server for tests.

    Attributes:
        address: the address to pass to a `Client`, which has the form `127.0.0.1:PORT`.
        process: the process in which the server runs.

    >>> from tensor_reshape.client import Client
    >>> with run_server() as server, Client(server.address) as client:
    ...     client.infer_shape((2, 3), (-1,), special_zero=False)
    InferredShape([6])
    """

    address: str
    process: subprocess.Popen[str]


@contextmanager
def run_server(*options: str) -> Iterator[ReshapeServer]:
    """Runs a server until the end of the `with` block. This function needs the extra `server`.

    Args:
        *options: options of `tensor-reshape serve`, except `--listen` and the log options.

    Raises:
        RuntimeError: the server did not start within a minute. The error message contains the server's log.

    >>> with run_server("--max-calls", "8") as server:
    ...     server.address.startswith("127.0.0.1:")
    True
    """
    command = [sys.executable, "-m", "tensor_reshape.server", *options, *_OWN_OPTIONS]
    process = subprocess.Popen(  # noqa: S603 - this interpreter, with the options of a test
        command,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",  # log lines that gRPC writes may contain bytes from a client
    )
    with process:
        try:
            with _guard(process.pid):
                yield ReshapeServer(_read_address(process), process)
        finally:
            _stop(process)


@contextmanager
def _guard(pid: int) -> Iterator[None]:
    """Starts a shell that ends the server if this process is killed during the block.

    The Linux option PR_SET_PDEATHSIG is not used, because it would end the server when the thread that started it ends.
    """
    shell = shutil.which("sh")
    if shell is None:
        yield
        return
    # The standard input of the shell is a pipe from this process. When this process ends, the pipe is closed, so the
    # shell's command `read` returns.
    command = [shell, "-c", 'read -r _; kill "$0"', str(pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as guard:  # noqa: S603 - a constant command
        try:
            yield
        finally:
            # The shell is ended before the server. Otherwise it could kill another process that later gets the server's
            # process id.
            guard.kill()


def _read_address(process: subprocess.Popen[str]) -> str:
    """Reads the server's address from its log. Then starts a thread that reads and discards all later lines."""
    log = process.stderr
    if log is None:
        raise RuntimeError("the log of the server is not captured")
    lines = deque[str](maxlen=_KEPT_LINES)
    # If the server does not start in time, it is killed. Its log is then closed, so the loop below ends.
    timer = Timer(_START_SECONDS, process.kill)
    timer.start()
    try:
        for line in log:
            lines.append(line)
            address = _find_address(line)
            if address:
                # A thread reads the log, because the server would block if the pipe were full.
                Thread(target=_discard, args=(log,), name="tensor-reshape log", daemon=True).start()
                return address
    finally:
        timer.cancel()
    message = (
        f"the server ended with exit code {process.wait()}. If the extra server is missing: "
        f"{advise_install('server')}. The log of the server:\n{''.join(lines)}"
    )
    raise RuntimeError(message)


def _find_address(line: str) -> str:
    try:
        record = json.loads(line)
    except ValueError:
        return ""  # a line that gRPC's core or the Python interpreter has written
    return str(record["address"]) if isinstance(record, dict) and record.get("message") == "listening" else ""


def _discard(log: IO[str]) -> None:
    try:
        for _ in log:
            pass
    except ValueError:
        pass  # this error means that the log was closed at the end of the `with` block


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
