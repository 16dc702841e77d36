"""A single question beside clients that only send batches, each of which is a process of its own.

`python -m benchmarks.peers.batches ADDRESS LOAD` is one of these: it sends one batch after another until stdin ends.
"""

import math
import subprocess
import sys
import threading
from contextlib import ExitStack
from itertools import count

from benchmarks.questions import ALL_HOSTILE, ShapeQuestion, check_answers, make_questions
from benchmarks.sessions import Job, ThreadSession
from tensor_reshape.client import Client, InferredShape

PLAIN, SEARCHED = "plain", "searched"
QUIET = "nothing"
SENDERS = 2
_BATCH_QUESTIONS = {ALL_HOSTILE: 1_000}  # which are more work than ten thousand of models
_DEFAULT_QUESTIONS = 10_000


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens one client of the SDK; "LOAD-KIND" says what batches ask, or "nothing", and its own questions.

    They all differ. A plain one is answered on the thread that received it, one that is searched takes another thread.
    """
    load, _, kind = variant.partition("-")
    for _ in range(SENDERS if load != QUIET else 0):
        _start_sender(job.address, load, stack)
    client = stack.enter_context(Client(job.address, timeout=math.inf))
    numbers = count(1)

    def ask() -> tuple[ShapeQuestion, InferredShape]:
        one = _make_question(kind, next(numbers))
        return one, client.infer_shape(one.data, one.target, special_zero=True, operation="reshape")

    return ThreadSession(job, stack, lambda: ask, lambda asked: check_answers([asked[0]], [asked[1]]))


def _start_sender(address: str, load: str, stack: ExitStack) -> None:
    command = [sys.executable, "-m", __name__, address, load]
    process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    stack.callback(process.kill)
    if process.stdout is None or not process.stdout.readline():
        message = f"a client that sends batches ended with {process.wait()}"
        raise RuntimeError(message)


def _make_question(kind: str, number: int) -> ShapeQuestion:
    if kind == PLAIN:
        return ShapeQuestion(["N", 12, 63 + number], [0, -1], None)
    return ShapeQuestion([(1, 8 + number), (2, 7)], [None, (1, 50), -1], None)


def _send_batches(address: str, load: str) -> None:
    queries = [one.query for one in make_questions(load, _BATCH_QUESTIONS.get(load, _DEFAULT_QUESTIONS))]
    with Client(address, timeout=math.inf) as client:
        print("ready", flush=True)
        while True:
            client.infer_shapes(queries)


if __name__ == "__main__":
    threading.Thread(target=_send_batches, args=sys.argv[1:], daemon=True).start()
    sys.stdin.read()
