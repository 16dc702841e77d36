"""Servers in separate processes, as users run them."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Record = dict[str, Any]
STOP_SECONDS = 60


@dataclass
class ServerProcess:
    process: subprocess.Popen[str]  # the process itself
    # the addresses with their bound ports, in the order of the `--listen` flags
    addresses: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)  # the log so far; complete when the process has ended
    _reader: threading.Thread | None = None
    _news: threading.Condition = field(default_factory=threading.Condition)

    @property
    def address(self) -> str:
        return self.addresses[0]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(STOP_SECONDS)
        if self._reader is not None:
            self._reader.join(STOP_SECONDS)
        return code

    def read_addresses(self, count: int) -> None:
        """Waits for `count` addresses, and then reads the log in the background."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._add_record(line)
            if len(self.addresses) == count:
                break
        else:
            message = f"the server ended with {self.process.wait()}: {self.records}"
            raise RuntimeError(message)
        self._reader = threading.Thread(target=self._read_rest, daemon=True)
        self._reader.start()

    def await_records(self, count: int, message: str, **fields: object) -> list[Record]:
        """Waits for `count` records with this message and these fields."""
        wanted = {"message": message, **fields}

        def find() -> list[Record]:
            return [record for record in self.records if wanted.items() <= record.items()]

        with self._news:
            assert self._news.wait_for(lambda: len(find()) >= count, STOP_SECONDS), self.records
        return find()

    def find_pid(self, worker: int) -> int:
        """Returns the current process id of a worker."""
        return int(self.await_records(1, "worker serves", worker=worker)[-1]["pid"])

    def _read_rest(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._add_record(line)

    def _add_record(self, line: str) -> None:
        record = _parse(line)
        with self._news:
            self.records.append(record)
            self._news.notify_all()
        if record["message"] == "listening":
            self.addresses.append(record["address"])


def _parse(line: str) -> Record:
    # gRPC's core also writes lines to stderr, which are not JSON.
    try:
        record: Record = json.loads(line)
    except ValueError:
        return {"message": line.rstrip()}
    return record if isinstance(record, dict) else {"message": line.rstrip()}


@contextmanager
def run_server(
    *arguments: str,
    listen: tuple[str, ...] = ("127.0.0.1:0",),
    env: dict[str, str] | None = None,
    command: tuple[str, ...] = ("tensor_reshape.server",),
    prefix: tuple[str, ...] = (),
    python: str | Path = sys.executable,
) -> Iterator[ServerProcess]:
    """Runs a server until the end of the block, with `prefix` in front of `python -m` and the arguments."""
    flags = [flag for address in listen for flag in ("--listen", address)]
    defaults = ["--log-format", "json", "--drain-seconds", "0"]
    process = subprocess.Popen(
        [*prefix, python, "-m", *command, *flags, *defaults, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",  # those lines may contain bytes from a client
        env={**os.environ, **(env or {})},
    )
    server = ServerProcess(process)
    try:
        server.read_addresses(len(listen))
        yield server
    finally:
        if process.poll() is None:
            process.kill()  # a test that needs a graceful end has already stopped it
        server.wait()
        assert process.stderr is not None
        process.stderr.close()


def await_end(pid: int) -> None:
    """Waits for the end of a process that is not a child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], STOP_SECONDS)[0], pid
    finally:
        os.close(descriptor)


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
