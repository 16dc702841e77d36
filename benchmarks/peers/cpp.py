"""The C++ client of streams, which is a separate program (stream_client.cc)."""

import subprocess
from contextlib import ExitStack

from benchmarks.sessions import Job, summarize


class ProgramSession:
    """A program that makes the calls, and times them with the same clock as this process."""

    def __init__(self, job: Job, stack: ExitStack, program: str, kind: str) -> None:
        """Starts the program."""
        if job.cell.clients != 1:
            message = "the C++ client is one client"
            raise ValueError(message)
        command = [program, job.address, str(job.cell.size), kind]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._process = stack.enter_context(process)  # closes its stdin, which ends the process

    def check(self) -> None:
        """Makes one call. The program checks the shape and every byte."""
        answer = self._send("check")
        if answer != "right":
            raise ValueError(answer)

    def run(self, seconds: float) -> dict[str, float]:
        """Makes calls in the program for this time."""
        begin, end, *latencies = map(float, self._send(str(seconds)).split())
        return summarize(begin, end, latencies)

    def _send(self, line: str) -> str:
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().strip() if self._process.stdout else ""
        if not answer:
            message = f"the C++ client ended with {self._process.wait()}"
            raise RuntimeError(message)
        return answer


def open_session(variant: str, job: Job, stack: ExitStack) -> ProgramSession:
    """Starts the program; a variant is its path, a colon, and "messages" or "slices"."""
    program, _, kind = variant.rpartition(":")
    return ProgramSession(job, stack, program, kind)
