"""Measures the lateness of a busy machine: the factor by which work takes longer than on a free core.

If you run this module as a program, it computes for a moment again and again until the end of its standard input. Each
time it prints the time and the lateness.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

_WORK_SECONDS, _REST_SECONDS = 0.02, 0.18  # a tenth of a core, so that the meter itself adds little load


class LatenessMeter:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._notes = [self._process.stdout.readline()]

    def stop(self) -> None:
        self._notes += self._process.communicate()[0].splitlines()

    def find_lateness(self, begin: float, end: float) -> float:
        """Returns the average lateness between two times of `time.monotonic`, at least 1. Call `stop` first."""
        notes = [json.loads(note) for note in self._notes]
        times = [lateness for began, lateness in notes if begin <= began <= end]
        return max(1.0, sum(times) / len(times)) if times else 1.0


@contextmanager
def measure_lateness() -> Iterator[LatenessMeter]:
    """Measures the lateness of the machine until the end of the block."""
    meter = LatenessMeter()
    try:
        yield meter
    finally:
        meter.stop()


def _work() -> float:
    """Computes for a moment and returns the lateness: elapsed time divided by processor time."""
    began, work = time.monotonic(), time.process_time()
    while (worked := time.process_time() - work) < _WORK_SECONDS:
        pass
    return (time.monotonic() - began) / worked


def main() -> None:
    stopped = Thread(target=sys.stdin.read, daemon=True)
    stopped.start()
    while stopped.is_alive():
        print(json.dumps([time.monotonic(), _work()]), flush=True)
        stopped.join(_REST_SECONDS)


if __name__ == "__main__":
    main()
