"""A worker runs the clients of one contestant in its own process and environment.

`python -m benchmarks.worker MODULE/VARIANT ADDRESS` reads one JSON object a line from stdin, and writes one line for
each:

    {"do": "prepare", "cell": [1024, 16, "tensor", ...]}  connects, and checks one result; {}
    {"do": "run", "cell": [...], "seconds": 0.5}  {"calls": 9, "begin": ..., "end": ..., "p50": ..., "p99": ...}
    {"do": "close"}                                         disconnects; {}

Times are those of the machine's monotonic clock. A response {"error": "..."} has an error message. The worker ends at
the end of stdin.
"""

import gc
import importlib
import json
import os
import sys
from contextlib import ExitStack
from typing import Any

from benchmarks.contestants import Cell
from benchmarks.sessions import Job, Session

_ERROR_LENGTH = 200


class Worker:
    """Holds the sessions of the prepared cells."""

    def __init__(self, client: str, address: str) -> None:
        """Loads the module of the client."""
        module, _, self._variant = client.partition("/")
        self._client = importlib.import_module(f"benchmarks.peers.{module}")
        self._address = address
        self._stack = ExitStack()
        self._sessions: dict[Cell, Session] = {}

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Runs a command; an exception becomes an error response."""
        try:
            return self._do(question)
        except Exception as error:  # noqa: BLE001 - the table shows any exception of a peer's library
            return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:_ERROR_LENGTH]}

    def close(self) -> None:
        """Disconnects."""
        self._sessions.clear()
        self._stack.close()

    def _do(self, question: dict[str, Any]) -> dict[str, Any]:
        if question["do"] == "close":
            self.close()
            return {}
        cell = Cell(*question["cell"])
        if question["do"] == "run":
            return self._sessions[cell].run(question["seconds"])
        session: Session = self._client.open_session(self._variant, Job(self._address, cell), self._stack)
        session.check()
        self._sessions[cell] = session
        # Without this, each garbage collection in a timed call would visit the thousands of prepared queries.
        gc.collect()
        gc.freeze()
        return {}


def main() -> None:
    """Handles commands line by line until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keeps the output of libraries out of the responses
    worker = Worker(sys.argv[1], sys.argv[2])
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers)
    worker.close()


if __name__ == "__main__":
    main()
