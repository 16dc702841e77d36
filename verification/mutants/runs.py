"""Runs tests in a copy of the checkout, with and without a change."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from verification.mutants.changes import Mutant

_FIRST_KILLED = "echo 1000 >/proc/self/oom_score_adj"  # a change may remove a limit of memory
_SETTLED = 1_000_000_000  # seconds since 1970, an old time from which the changed files count


class Outcome(NamedTuple):
    """What tests did: `passed`, `failed`, `broken` (no test was run) or `too long`, and the first failed test."""

    result: str
    seconds: float
    failed: str


class Copy:
    """A copy of the checkout with its own environment, in which one mutant is tried at a time."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        """Copies the files of a checkout, uncommitted ones included, and installs them."""
        self.folder = folder
        self._dates = _SETTLED
        subprocess.run(["git", "clone", "--quiet", "--shared", checkout, folder], check=True)
        listing = ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=checkout, stdout=subprocess.PIPE, check=True).stdout.decode()
        for name in filter(None, listed.split("\0")):
            if (checkout / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes((checkout / name).read_bytes())
            else:  # deleted
                (folder / name).unlink(missing_ok=True)
        subprocess.run(
            ["scripts/test", "--collect-only"], cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, check=True
        )

    def try_mutant(self, mutant: Mutant, command: Sequence[str], limit: float) -> Outcome:
        """Runs tests with a mutant, for at most `limit` seconds."""
        path = self.folder / mutant.file
        source = path.read_bytes()
        try:
            self._write(path, mutant.apply(source))
            return self.run(command, limit)
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: bytes) -> None:
        """Writes a module with a new time, because Python finds outdated bytecode by the time and size of a module."""
        self._dates += 1
        path.write_bytes(source)
        os.utime(path, (self._dates, self._dates))

    def run(self, command: Sequence[str], limit: float) -> Outcome:
        """Runs pytest until the first failure. Hypothesis has the same seed in each run, and no examples of others."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as examples, tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(
                ["sh", "-c", f'{_FIRST_KILLED}; exec "$@"', "sh", *command],
                cwd=self.folder,
                env=_environment() | {"HYPOTHESIS_STORAGE_DIRECTORY": examples},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
            output.seek(0)
            lines = output.read().splitlines()
        failed = next((line for line in lines if line.startswith(("FAILED tests/", "ERROR tests/"))), "")
        return Outcome(_name_result(status, failed), time.monotonic() - began, failed or "".join(lines[-1:]))


def _environment() -> dict[str, str]:
    """The environment without this program's own packages. The Python of the machine makes the one of the copy."""
    kept = {name: value for name, value in os.environ.items() if name not in {"VENV", "VIRTUAL_ENV", "PYTHONPATH"}}
    return kept | {"PYTHON": f"{sys.base_prefix}/bin/python3"}


def _name_result(status: int, failed: str) -> str:
    if status == 0:
        return "passed"
    if status == -signal.SIGKILL:
        return "too long"
    return "failed" if "::" in failed else "broken"
