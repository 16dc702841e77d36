"""Servers without a parsed log, in processes with limits of the system."""

import json
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from meters import list_ports

START_SECONDS = 60.0
STOP_SECONDS = 60.0
NO_LIMITS: Mapping[int, int] = MappingProxyType({})

# Not a `preexec_fn`, because grpcio's threads may abort code that runs between fork and exec.
_LIMIT = """
import json, os, resource, sys
for kind, value in json.loads(sys.argv[1]).items():
    resource.setrlimit(int(kind), (value, value))
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class BareServer:
    process: subprocess.Popen[bytes]
    address: str

    def limit(self, kind: int, value: int) -> None:
        """Sets a soft limit of the process."""
        _, hard = resource.prlimit(self.process.pid, kind)
        resource.prlimit(self.process.pid, kind, (value if value >= 0 else hard, hard))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(STOP_SECONDS)


@contextmanager
def run_bare_server(
    *arguments: str, stderr: int = subprocess.DEVNULL, limits: Mapping[int, int] = NO_LIMITS
) -> Iterator[BareServer]:
    """Runs a server until the end of the block.

    Args:
        arguments: flags in addition to `--listen` and `--drain-seconds`.
        stderr: the descriptor of standard error.
        limits: the values of `resource.RLIMIT_...`.
    """

    flags = ["--listen", "127.0.0.1:0", "--drain-seconds", "0", *arguments]
    process = subprocess.Popen(
        limit_command([sys.executable, "-m", "tensor_reshape.server", *flags], limits),
        stderr=stderr,
    )
    try:
        yield BareServer(process, f"127.0.0.1:{_await_port(process)}")
    finally:
        process.kill()
        process.wait()


def limit_command(command: list[str], limits: Mapping[int, int]) -> list[str]:
    """Returns a command that runs `command` with these values of `resource.RLIMIT_...`."""
    return [sys.executable, "-c", _LIMIT, json.dumps(dict(limits)), *command] if limits else command


def find_free_port() -> int:
    """Returns a free port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _await_port(process: subprocess.Popen[bytes]) -> int:
    """Returns the port on which a server listens, without its log.

    The system has chosen the port, because another test could take a port that was free a moment ago.
    """
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        for port in list_ports(process.pid):
            return port
        time.sleep(0.05)
    message = f"the server does not listen; it ended with {process.poll()}"
    raise RuntimeError(message)
