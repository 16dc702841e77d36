"""Sends the request with h2load, which uses almost no processor time, so that only the server is measured."""

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.peers import channels
from benchmarks.sessions import Job, summarize

_FIRST_CALLS = 50
"""The calls of each connection in the first run. Its rate determines the number of calls in the next run."""

_HEADERS = ("content-type: application/grpc", "te: trailers")


class LoadSession:
    """h2load with a connection for each client. On large machines, it uses a quarter of the cores."""

    def __init__(self, job: Job, stack: ExitStack) -> None:
        """Writes the request to a file."""
        self._job = job
        program = shutil.which("h2load")
        if not program:
            message = "h2load is not installed"
            raise FileNotFoundError(message)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        self._log = folder / "log"
        (request,) = channels.encode_messages("unary", job)
        # The header of a gRPC message: not compressed, and a length of four bytes.
        (folder / "request").write_bytes(b"\0" + len(request).to_bytes(4, "big") + request)
        headers = [word for header in _HEADERS for word in ("-H", header)]
        files = (f"--data={folder / 'request'}", f"--log-file={self._log}")
        clients, threads = job.cell.clients, max(1, (os.cpu_count() or 1) // 4)
        load = ("-c", str(clients), "-m", str(job.cell.streams), "-t", str(min(clients, threads)))
        self._command = [program, *load, *headers, *files]
        self._url = f"http://{job.address}{channels.SERVICE}/StaticReshape"
        self._calls_per_second = 0.0

    def check(self) -> None:
        """Checks the response to the same bytes through a channel."""
        with ExitStack() as stack:
            channels.open_session("unary", self._job, stack).check()
        self.run(0)

    def run(self, seconds: float) -> dict[str, float]:
        """Runs h2load for about that time."""
        # The number of calls is fixed, not the time, because h2load measures whole seconds after a warm-up of one
        # second.
        calls = max(_FIRST_CALLS * self._job.cell.clients, round(self._calls_per_second * seconds))
        rows = self._call(calls)
        begin, end = rows[0][0], max(start + latency for start, latency in rows)
        self._calls_per_second = len(rows) / (end - begin)
        return summarize(begin, end, [latency for _, latency in rows])

    def _call(self, calls: int) -> list[tuple[float, float]]:
        """Returns the begin and the duration of each call in seconds, in the order of their begins."""
        self._log.unlink(missing_ok=True)
        command = [*self._command, "-n", str(calls), self._url]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        rows = [line.split() for line in self._log.read_text().splitlines()] if self._log.exists() else []
        # h2load does not read the status of gRPC. A response with an error has no tensor, so all have too few bytes.
        data = int(next(iter(re.findall(r"\((\d+)\) data", done.stdout)), 0))
        is_short = len(rows) != calls or data < calls * self._job.cell.size
        if done.returncode != 0 or is_short or any(row[1] != "200" for row in rows):
            message = f"h2load: {done.stdout[-200:]} {done.stderr[-200:]}"
            raise RuntimeError(message)
        return sorted((int(row[0]) / 1e6, int(row[2]) / 1e6) for row in rows)


def open_session(variant: str, job: Job, stack: ExitStack) -> LoadSession:
    """Prepares h2load; there is one variant."""
    del variant
    return LoadSession(job, stack)
