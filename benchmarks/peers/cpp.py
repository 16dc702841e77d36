"""The C++ client of streams, a program of its own: see stream_client.cc."""

import subprocess
from contextlib import ExitStack

from benchmarks.sessions import Job, summarize


class ProgramSession:
    """A program that makes the calls and times them itself, with the clock of this process."""

    def __init__(self, job: Job, stack: ExitStack, program: str, kind: str) -> None:
        """Starts the program.

        Raises:
            ValueError: the cell asks for what the program cannot do.
        """
        if job.cell.clients != 1:
            message = "the C++ client is one client"
            raise ValueError(message)
        command = [program, job.address, str(job.cell.size), kind]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._process = stack.enter_context(process)  # closes its stdin, which ends it

    def check(self) -> None:
        """Makes one call; the program looks at the shape and at every byte.

        Raises:
            ValueError: the answer is wrong.
        """
        answer = self._ask("check")
        if answer != "right":
            raise ValueError(answer)

    def run(self, seconds: float) -> dict[str, float]:
        """Lets the program call until the time is over."""
        begin, end, *latencies = map(float, self._ask(str(seconds)).split())
        return summarize(begin, end, latencies)

    def _ask(self, line: str) -> str:
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
