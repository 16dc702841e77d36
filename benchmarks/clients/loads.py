"""h2load sends the request: a client that costs next to nothing, so the server alone is what is measured."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.clients import channels
from benchmarks.clients.sessions import Job

_HEADERS = ("content-type: application/grpc", "te: trailers")
_FRAME_HEAD_BYTES = 5
_LEAST_SECONDS = 1


class LoadSession:
    """h2load with a connection for each client."""

    def __init__(self, job: Job) -> None:
        """Writes the request to a file.

        Raises:
            FileNotFoundError: h2load is not installed.
        """
        self._job = job
        self._program = shutil.which("h2load") or ""
        if not self._program:
            message = "h2load is not installed"
            raise FileNotFoundError(message)
        request = channels.encode_request(job)
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        self._body = Path(self._folder.name) / "request"
        self._body.write_bytes(b"\0" + len(request).to_bytes(_FRAME_HEAD_BYTES - 1, "big") + request)

    def check(self) -> None:
        """Checks the answer to the same bytes through a channel."""
        connection = channels.ChannelConnection(self._job, self._body.read_bytes()[_FRAME_HEAD_BYTES:])
        self._job.check(connection.read(connection.call()))
        connection.close()

    def run(self, seconds: float) -> tuple[float, list[float]]:
        """Runs h2load, which counts whole seconds.

        Raises:
            RuntimeError: it failed, or the server did not answer everything with a success.
        """
        duration = max(_LEAST_SECONDS, round(seconds))
        log = Path(self._folder.name) / "log"
        log.unlink(missing_ok=True)
        headers = [word for header in _HEADERS for word in ("-H", header)]
        command = [self._program, "-D", str(duration), "-c", str(self._job.clients), "-m", "1", "-t", "1", *headers]
        url = f"http://{self._job.address}{channels.METHOD}"
        done = subprocess.run(
            [*command, f"--data={self._body}", f"--log-file={log}", url], capture_output=True, text=True, check=False
        )
        rows = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        if done.returncode != 0 or not rows or any(row[1] != "200" for row in rows):
            message = f"h2load: {done.stdout[-200:]} {done.stderr[-200:]}"
            raise RuntimeError(message)
        return duration, [int(row[2]) / 1e6 for row in rows]

    def close(self) -> None:
        """Removes the files."""
        self._folder.cleanup()


def open_session(job: Job, variant: str) -> LoadSession:
    """Prepares h2load; there is one variant."""
    del variant
    return LoadSession(job)
