"""A worker: the clients of one contestant, in a process and an environment of their own.

`python -m benchmarks.workers MODULE/VARIANT ADDRESS` reads one JSON object a line from stdin and answers with one line:

    {"do": "prepare", "size": 1024, "clients": 16}  connects, and checks one answer: shape and bytes
    {"do": "run", "seconds": 0.5}                   {"calls": ..., "seconds": ..., "p50": ..., "p99": ...}

An answer {"error": "..."} says what went wrong. The end of stdin ends the worker.
"""

import importlib
import json
import os
import sys
from typing import Any

from benchmarks.clients.sessions import Job, Session, summarize

_ERROR_LENGTH = 300


class Worker:
    """Holds the session that was prepared last."""

    def __init__(self, client: str, address: str) -> None:
        """Loads the module of the client."""
        module, _, self._variant = client.partition("/")
        self._client = importlib.import_module(f"benchmarks.clients.{module}")
        self._address = address
        self._session: Session | None = None

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Does what is asked; what goes wrong is the answer."""
        try:
            if question["do"] == "prepare":
                return self._prepare(question["size"], question["clients"])
            if self._session is None:
                return {"error": "nothing is prepared"}
            return summarize(*self._session.run(question["seconds"]))
        except Exception as error:  # noqa: BLE001 - whatever a peer's library raises belongs into the table
            return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:_ERROR_LENGTH]}

    def close(self) -> None:
        """Ends the session."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _prepare(self, size: int, clients: int) -> dict[str, Any]:
        self.close()
        job = Job.of(self._address, size, clients)
        session: Session = self._client.open_session(job, self._variant)
        self._session = session
        session.check()
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
