"""Runs millions of queries in batches, in several processes, and counts the outcomes."""

import argparse
import multiprocessing
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

_PROGRESS_SECONDS = 10.0
_MAX_SHOWN = 10

Task: TypeAlias = tuple[str, int, int]
"""The seed of a batch, its number, and its number of queries."""


@dataclass(slots=True)
class Tally:
    """The outcomes of queries.

    Attributes:
        done: the number of queries.
        outcomes: the number of queries with each outcome; a query may have several.
        findings: descriptions of errors.
    """

    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Adds the outcomes of others."""
        self.done += other.done
        self.outcomes += other.outcomes
        self.findings += other.findings


class Progress:
    """Prints the progress of a run every ten seconds."""

    def __init__(self, total: int) -> None:
        """Starts the clock."""
        self._total = total
        self._begin = self._shown = time.monotonic()

    def show(self, done: int, findings: int) -> None:
        """Prints the counts, if the last print was at least ten seconds ago."""
        now = time.monotonic()
        if now - self._shown > _PROGRESS_SECONDS:
            self._shown = now
            print(
                f"  {done} of {self._total}, {done / (now - self._begin):.0f} a second, {findings} findings", flush=True
            )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `run_batches`."""
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same text gives the same queries")
    parser.add_argument("--batch", type=int, help="number of the only batch to run, as in a finding")


def run_batches(run: Callable[[Task], Tally], count: int, size: int, options: argparse.Namespace) -> int:
    """Runs this number of queries in batches, and prints the outcomes; returns 1 if there is a finding, or if none ran.

    Args:
        run: runs a batch; a function of a module that a new process can import, which excludes the `__main__` of a
            package.
        count: the number of queries.
        size: the number of queries in a batch.
        options: the options of `add_options`.
    """
    print(f"seed {options.seed}", flush=True)
    tasks = [(f"{options.seed}-{at // size}", at // size, min(size, count - at)) for at in range(0, count, size)]
    if options.batch is not None:
        tasks = tasks[options.batch :][:1]
    total, progress, begin = Tally(), Progress(sum(task[2] for task in tasks)), time.monotonic()
    # Processes are spawned. A fork would inherit the threads and locks of gRPC and protobuf in an unknown state.
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        for tally in pool.imap_unordered(run, tasks):
            for finding in tally.findings[: max(_MAX_SHOWN - len(total.findings), 0)]:
                print(finding, flush=True)
            total.add(tally)
            progress.show(total.done, len(total.findings))
    for outcome, number in sorted(total.outcomes.items()):
        print(f"{number:10} {outcome}")
    print(f"{total.done} in {time.monotonic() - begin:.0f} s: {len(total.findings)} findings")
    return 1 if total.findings or not total.done else 0
