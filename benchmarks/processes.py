"""Processes of a measurement: the server, and the worker whose clients call it."""

import json
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.cells import TCP
from benchmarks.contestants import SERVERS, Contestant
from benchmarks.environments import Environment, Peers
from benchmarks.meters import list_shared_memory, list_tree

ROOT = Path(__file__).parents[1]
START_SECONDS = 90
STOP_SECONDS = 30
Answer = dict[str, Any]


class ProcessError(Exception):
    """A process did not start, ended, or did not answer; the text says what it said last."""


class ServerProcess:
    """A server that listens on an address of its own."""

    def __init__(self, kind: str, transport: str, peers: Peers) -> None:
        """Starts the server and waits until it listens.

        Raises:
            ProcessError: it ended, or was not there in time.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        folder = Path(self._folder.name)
        self.address = f"127.0.0.1:{_find_port()}" if transport == TCP else f"unix:{folder / 'server.sock'}"
        environment = peers.open_environment(SERVERS[kind].environment)
        if environment is None:
            message = "not installed"
            raise ProcessError(message)
        command = [_fill(word, self.address, environment, peers) for word in SERVERS[kind].command]
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        self.pid = self._process.pid
        try:
            self._await_listening()
        except ProcessError:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the server and all it started."""
        stop_tree(self._process)
        self._folder.cleanup()

    def _await_listening(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not _is_listening(self.address):
            if self._process.poll() is not None or time.monotonic() > deadline:
                message = f"failed to start: {_read_last_line(self._log)}"
                raise ProcessError(message)
            time.sleep(0.05)


class WorkerProcess:
    """A worker: it has the clients of a contestant and does what a line of JSON says, see `benchmarks.workers`."""

    def __init__(self, contestant: Contestant, address: str, peers: Peers) -> None:
        """Starts the worker."""
        environment = peers.open_environment(contestant.client_environment)
        if environment is None:
            message = "not installed"
            raise ProcessError(message)
        command = [environment.python, "-m", "benchmarks.workers", contestant.client, address]
        self._log = tempfile.NamedTemporaryFile(prefix="bench-", suffix=".log")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, timeout: float, **question: object) -> Answer:
        """Returns the answer to a question.

        Raises:
            ProcessError: the worker says so, has ended, or took too long.
        """
        try:
            print(json.dumps(question), file=self._process.stdin, flush=True)
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            message = f"failed: no answer within {timeout:.0f} s"
            raise ProcessError(message) from None
        except OSError:
            line = ""
        if not line:
            message = f"failed: the client ended: {_read_last_line(Path(self._log.name))}"
            raise ProcessError(message)
        answer: Answer = json.loads(line)
        if "error" in answer:
            message = f"failed: {answer['error']}"
            raise ProcessError(message)
        return answer

    def stop(self) -> None:
        """Ends the worker."""
        stop_tree(self._process)
        self._log.close()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put("")


def stop_tree(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """Ends a process with all it started: politely, then not. Removes the shared memory they leave."""
    tree = list_tree(process.pid)
    segments = list_shared_memory(tree)
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for member in tree[1:]:
        with suppress(ProcessLookupError):
            if os.getsid(member) == process.pid:  # every process here is started in a session of its own
                os.kill(member, signal.SIGKILL)
    for segment in segments:
        segment.unlink(missing_ok=True)


def _fill(word: str, address: str, environment: Environment, peers: Peers) -> str:
    return word.format(python=environment.python, libraries=environment.libraries, address=address, folder=peers.folder)


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _is_listening(address: str) -> bool:
    family = socket.AF_UNIX if address.startswith("unix:") else socket.AF_INET
    host, _, port = address.rpartition(":")
    place = address.removeprefix("unix:") if family == socket.AF_UNIX else (host, int(port))
    with socket.socket(family) as probe:
        return probe.connect_ex(place) == 0


def _read_last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "it said nothing")
