"""Waits for conditions that no event announces."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from tensor_reshape.server.process.pools import FairLock

WAIT_SECONDS = 60.0
_INTERRUPTED = """
import math, signal, sys
import numpy as np
from tensor_reshape.client import Client

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background inherit an ignored SIGINT
with Client(sys.argv[1], grpc_api=sys.argv[2], timeout=math.inf) as client:
    try:
        {call}
    except (KeyboardInterrupt, RuntimeError) as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A signal that arrives while a condition releases its lock raises "cannot release un-acquired lock".
        if isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
            print("interrupted")
"""


def await_that(condition: Callable[[], bool], seconds: float = WAIT_SECONDS, pause_seconds: float = 0.001) -> float:
    """Waits until a condition is true, and returns the seconds until then. Fails after `seconds`."""
    pause, began = threading.Event(), time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds
        pause.wait(pause_seconds)
    return time.monotonic() - began


def await_waiting(lock: FairLock, count: int) -> None:
    await_that(lambda: len(lock._waiting) >= count)


def interrupt_call(address: str, grpc_api: str, call: str, entered: threading.Event) -> str:
    """Makes a call of `client` in a process, and sends SIGINT to it until it ends. Returns its standard output.

    Python ignores an interruption that arrives in a finalizer or in a callback from C, so a single signal may have no
    effect.
    """
    command = [sys.executable, "-c", _INTERRUPTED.format(call=call), address, grpc_api]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert entered.wait(WAIT_SECONDS)
            deadline = time.monotonic() + WAIT_SECONDS
            while True:
                process.send_signal(signal.SIGINT)
                try:
                    written = process.communicate(timeout=5)[0]
                except subprocess.TimeoutExpired:
                    assert time.monotonic() < deadline
                else:
                    assert process.returncode == 0
                    return written
        finally:
            process.kill()
