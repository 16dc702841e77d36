"""An attacker in a process of its own, and load that has nothing to do with it.

Run as a program, this module is an attacker, with the arguments NAME ADDRESS, until its standard input ends. What it
says in the end is how often it has begun, and why its connections ended.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, Thread

from attackers.attacks import ATTACKS, Attack

STOP_SECONDS = 10.0
_PAUSE_SECONDS = 0.05  # an attacker that is refused at once leaves the machine to others


class AttackerProcess:
    """An attack that goes on.

    Attributes:
        report: what the attacker has to say in the end.
    """

    def __init__(self, attack: Attack, address: str) -> None:
        """Starts it, and awaits that it has begun."""
        self.report = ""
        self._process = subprocess.Popen(
            [sys.executable, __file__, attack.name, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), f"the attacker ended with {self._process.wait()}"

    def stop(self) -> str:
        """Ends it with all its connections, and returns its report."""
        try:
            self.report = self._process.communicate(timeout=STOP_SECONDS)[0].strip()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.report = f"killed: it did not end in {STOP_SECONDS} s {self._process.communicate()[0]}".strip()
        return self.report


@contextmanager
def run_attacker(attack: Attack, address: str) -> Iterator[AttackerProcess]:
    """Attacks until the end of the block."""
    with ExitStack() as stack:
        if attack.busy:
            stack.enter_context(run_busy_loops())
        attacker = AttackerProcess(attack, address)
        try:
            yield attacker
        finally:
            attacker.stop()


@contextmanager
def run_busy_loops(count: int = 2) -> Iterator[None]:
    """Keeps the machine busy until the end of the block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


class _Tries:
    """How often an attack has begun, and how each time has ended; safe to use from any thread."""

    def __init__(self) -> None:
        self._ends: Counter[str] = Counter()
        self._begun = 0
        self._lock = Lock()

    def go_on(self, attack: Attack, address: str) -> None:
        """Attacks again and again."""
        while True:
            with self._lock:
                self._begun += 1
            try:
                attack.run(address)
                end = "closed"
            except Exception as error:  # noqa: BLE001 - what the attacker meets is what it reports
                end = type(error).__name__ if isinstance(error, OSError) else repr(error)[:200]
            with self._lock:
                self._ends[end] += 1
            time.sleep(_PAUSE_SECONDS)

    def describe(self) -> str:
        with self._lock:
            return json.dumps({"begun": self._begun, "ended": dict(self._ends)})


def main() -> None:
    """Attacks until standard input ends."""
    attack, address = ATTACKS[sys.argv[1]], sys.argv[2]
    tries = _Tries()
    for _ in range(attack.connections):
        Thread(target=tries.go_on, args=(attack, address), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    print(tries.describe(), flush=True)
    os._exit(0)  # whatever its threads are doing


if __name__ == "__main__":
    main()
