"""A worker: the clients of one contestant, in a process and an environment of their own.

`python -m benchmarks.worker MODULE/VARIANT ADDRESS` reads one JSON object a line from stdin and answers with one line:

    {"do": "prepare", "cell": [1024, 16, "tensor", 1]}  connects, and checks one answer; {}
    {"do": "run", "cell": [...], "seconds": 0.5}  {"calls": 9, "begin": ..., "end": ..., "p50": ..., "p99": ...}
    {"do": "close"}                                         disconnects; {}

Moments are of the machine's monotonic clock. An answer {"error": "..."} says what went wrong. The end of stdin ends the
worker.
"""

import gc
import importlib
import json
import os
import sys
from contextlib import ExitStack
from typing import Any

from benchmarks.cells import Cell
from benchmarks.sessions import Job, Session

_ERROR_LENGTH = 200


class Worker:
    """Holds the sessions of the cells that were prepared."""

    def __init__(self, client: str, address: str) -> None:
        """Loads the module of the client."""
        module, _, self._variant = client.partition("/")
        self._client = importlib.import_module(f"benchmarks.peers.{module}")
        self._address = address
        self._stack = ExitStack()
        self._sessions: dict[Cell, Session] = {}

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Does what is asked; what goes wrong is the answer."""
        try:
            return self._do(question)
        except Exception as error:  # noqa: BLE001 - whatever a peer's library raises belongs into the table
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
        # Else each run of the collector in a timed call would visit the thousands of questions that are prepared.
        gc.collect()
        gc.freeze()
        return {}


def main() -> None:
    """Answers line by line until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    worker = Worker(sys.argv[1], sys.argv[2])
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers)
    worker.close()


if __name__ == "__main__":
    main()
