"""The processes of a measurement: a server, and the worker with its clients, each in its own session."""

import json
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT, Environment

_PROC = Path("/proc")
_PARENT = 1  # the index in the fields of /proc/PID/stat after the name


def list_tree(root: int) -> list[int]:
    """Returns the ids of a process and its descendants."""
    stats = {int(path.name): _read(int(path.name), "stat").rpartition(")")[2].split() for path in _PROC.glob("[0-9]*")}
    # A server that forks works in its children.
    tree = [root]
    for member in tree:  # the list grows during the loop
        tree += [process for process, stat in stats.items() if stat and int(stat[_PARENT]) == member]
    return tree


def read_memory(root: int, *, peak: bool = False) -> int:
    """Returns the resident bytes of the tree, or the sum of each member's peak since `reset_peak_memory`."""
    field = "VmHWM:" if peak else "VmRSS:"
    lines = (line for process in list_tree(root) for line in _read(process, "status").splitlines())
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def reset_peak_memory(root: int) -> None:
    """Sets the peak to the current resident memory."""
    for process in list_tree(root):
        (_PROC / str(process) / "clear_refs").write_text("5")  # 5: only VmHWM, see proc(5)


def _read(process: int, name: str) -> str:
    try:
        return (_PROC / str(process) / name).read_text()
    except OSError:  # the process has ended
        return ""


_START_SECONDS = 60
_STOP_SECONDS = 30
_EXPERIMENTS = "GRPC_EXPERIMENTS"


class ProcessError(Exception):
    """A process did not start, ended, or did not respond; the message has its last output."""


class ServerProcess:
    """A server on its own address."""

    def __init__(self, command: tuple[str, ...], environment: Environment, ready: str = "") -> None:
        """Starts the server and waits until it listens, and until its log has the text `ready`."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            # A free port is chosen for each server, because several servers of a group run at the same time.
            port = _find_port()
            self.address = f"127.0.0.1:{port}"
            words = [word.format(**environment._asdict(), address=self.address, port=port) for word in command]
            process = _start(stack, words, folder / "log", "")
            self.pid = process.pid
            deadline = time.monotonic() + _START_SECONDS
            # Most peers have no other sign of readiness than the port, and the client checks the responses. But with
            # several workers, all connections that are made before the others listen would go to the first.
            while not _is_listening(port) or ready not in (folder / "log").read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    message = f"failed to start: {_read_last_line(folder / 'log')}"
                    raise ProcessError(message)
                time.sleep(0.05)
            self.stop = stack.pop_all().close


class WorkerProcess:
    """The process with the clients of a contestant. It runs JSON commands (`benchmarks.worker`)."""

    def __init__(self, client: str, address: str, environment: Environment, experiments: str = "") -> None:
        """Starts the worker."""
        stack = ExitStack()
        self._log = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))) / "log"
        client = client.format(**environment._asdict())
        command = [environment.python, "-m", "benchmarks.worker", client, address]
        self._process = _start(stack, command, self._log, experiments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self._process.pid
        stack.callback(self._close_stdin)
        self.stop = stack.close
        # A thread reads the responses, so that waiting for one can have a timeout.
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, **question: object) -> None:
        """Sends a command. `await_response` returns the response, so several workers can run commands at once."""
        with suppress(OSError):  # the pipe is broken; `await_response` raises the cause
            print(json.dumps(question), file=self._process.stdin, flush=True)

    def await_response(self, timeout: float) -> dict[str, Any]:
        """Returns the response."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            line = json.dumps({"error": f"no response within {timeout:.0f} s"})
        last_words = {"error": f"the client ended: {_read_last_line(self._log)}"}
        answer: dict[str, Any] = json.loads(line) if line else last_words
        if "error" in answer:
            message = f"failed: {answer['error']}"
            raise ProcessError(message)
        return answer

    def _read(self) -> None:
        if self._process.stdout:
            with self._process.stdout as lines:
                for line in lines:
                    self._lines.put(line)
        self._lines.put("")

    def _close_stdin(self) -> None:
        with suppress(OSError):  # the pipe may have a command that the worker did not read
            if self._process.stdin:
                self._process.stdin.close()


def _start(stack: ExitStack, command: list[str], log: Path, experiments: str, **pipes: int) -> "subprocess.Popen[str]":
    # The environment of this process must not affect a contestant.
    setting = [f"{_EXPERIMENTS}={experiments}"] if experiments else []
    words = ["/usr/bin/env", f"--unset={_EXPERIMENTS}", *setting, *command]
    # The log is a file, because a full pipe without a reader would block the server.
    with log.open("w") as file:
        streams: dict[str, Any] = {"stdout": file, "stderr": file, **pipes}
        process: subprocess.Popen[str] = subprocess.Popen(words, cwd=ROOT, text=True, start_new_session=True, **streams)
    stack.callback(_stop_tree, process)
    return process


def _stop_tree(process: "subprocess.Popen[str]") -> None:
    """Ends a process and its descendants with SIGTERM, and then with SIGKILL."""
    # The tree is listed before the process ends, because its children then get another parent.
    tree = list_tree(process.pid)
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for member in tree[1:]:
        with suppress(ProcessLookupError):
            # An id may have been reused. Only members of the process's session are its descendants.
            if os.getsid(member) == process.pid:
                os.kill(member, signal.SIGKILL)


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _read_last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "it said nothing")
