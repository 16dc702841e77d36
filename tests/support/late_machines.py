"""How late a machine is whose cores many want: how much longer work takes there than if it had a core of its own.

Run as a program, this module works for a moment now and then until its standard input ends, and writes each time when
that was and how many times as long as its work it took.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

_WORK_SECONDS, _REST_SECONDS = 0.02, 0.18  # a tenth of a core: what it measures it must not cause


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
        """Returns how many times as long work took on average from `begin` to `end` by `time.monotonic`: 1 or more.

        It must have been stopped.
        """
        notes = [json.loads(note) for note in self._notes]
        times = [lateness for began, lateness in notes if begin <= began <= end]
        return max(1.0, sum(times) / len(times)) if times else 1.0


@contextmanager
def measure_lateness() -> Iterator[LatenessMeter]:
    """Notices how late the machine is until the end of the block."""
    meter = LatenessMeter()
    try:
        yield meter
    finally:
        meter.stop()


def _work() -> float:
    """Computes for a moment, and returns how many times as long as that it took."""
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
