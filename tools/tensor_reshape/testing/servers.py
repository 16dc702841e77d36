"""Servers in processes of their own, each on a free port of this machine.

Law: no server outlives the process that started it, however that ended, where there is a shell to see to it.
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

# The log is where a server says its address, and is read by nobody else: so whatever the caller's options or the
# environment say of it, it is this.
_OWN_OPTIONS = ("--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "info")
_START_SECONDS = 60
_STOP_SECONDS = 10
_KEPT_LINES = 20


class ReshapeServer(NamedTuple):
    """A server that runs.

    Attributes:
        address: as `Client` takes it, `127.0.0.1:PORT`.
        process: of the server.

    >>> from tensor_reshape.client import Client
    >>> with run_server() as server, Client(server.address) as client:
    ...     client.infer_shape((2, 3), (-1,), special_zero=False)
    InferredShape([6])
    """

    address: str
    process: subprocess.Popen[str]


@contextmanager
def run_server(*options: str) -> Iterator[ReshapeServer]:
    """Runs a server until the end of the block; it needs the extra `[server]`.

    Args:
        *options: of `tensor-reshape serve`, besides `--listen` and those of its log.

    Raises:
        RuntimeError: the server did not start, or not within a minute; the message is what it said.

    >>> with run_server("--max-calls", "8") as server:
    ...     server.address.startswith("127.0.0.1:")
    True
    """
    command = [sys.executable, "-m", "tensor_reshape.server", *options, *_OWN_OPTIONS]
    process = subprocess.Popen(  # noqa: S603 - this very interpreter, and what the caller's test says
        command,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",  # gRPC's own lines may hold what a caller sent
    )
    with process:
        try:
            with _guard(process.pid):
                yield ReshapeServer(_read_address(process), process)
        finally:
            _stop(process)


@contextmanager
def _guard(pid: int) -> Iterator[None]:
    """Has a shell end the server if this process is gone before the block is left: SIGKILL leaves no other way.

    The kernel's own (PR_SET_PDEATHSIG) would end it with the thread that started it, which may be any of a test's.
    """
    shell = shutil.which("sh")
    if shell is None:
        yield
        return
    # Its standard input is at its end when no process has the other end of the pipe any longer.
    command = [shell, "-c", 'read -r _; kill "$0"', str(pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as guard:  # noqa: S603 - all of it is said here
        try:
            yield
        finally:
            guard.kill()  # before the server ends: another process may then have its number


def _read_address(process: subprocess.Popen[str]) -> str:
    """Awaits the line of the log that says where the server listens; then has the log read on, and forgotten."""
    log = process.stderr
    if log is None:
        message = "the log of the server is not captured"
        raise RuntimeError(message)
    lines = deque[str](maxlen=_KEPT_LINES)
    patience = Timer(_START_SECONDS, process.kill)  # its log then ends
    patience.start()
    try:
        for line in log:
            lines.append(line)
            address = _find_address(line)
            if address:
                # Or the pipe would be full some day, and the server wait for ever.
                Thread(target=_read_on, args=(log,), name="tensor-reshape log", daemon=True).start()
                return address
    finally:
        patience.cancel()
    message = (
        f"the server ended with {process.wait()}: pip install 'tensor-reshape[server]'? It said:\n{''.join(lines)}"
    )
    raise RuntimeError(message)


def _find_address(line: str) -> str:
    try:
        record = json.loads(line)
    except ValueError:
        return ""  # of gRPC's core, or of the interpreter
    return str(record["address"]) if isinstance(record, dict) and record.get("message") == "listening" else ""


def _read_on(log: IO[str]) -> None:
    try:
        for _ in log:
            pass
    except ValueError:
        pass  # it was closed meanwhile, as the block has ended


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
