"""Questions by the million, in batches that processes of their own work on: what became of them."""

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
"""The seed of a batch, its number, and how many questions it has."""


@dataclass(slots=True)
class Tally:
    """What became of questions.

    Attributes:
        done: how many there were.
        outcomes: how many had which outcome; a question may have several.
        findings: what is wrong, for people.
    """

    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Adds what became of others."""
        self.done += other.done
        self.outcomes += other.outcomes
        self.findings += other.findings


class Progress:
    """Prints how far a run is, every ten seconds."""

    def __init__(self, total: int) -> None:
        """Starts the clock."""
        self._total = total
        self._begin = self._shown = time.monotonic()

    def show(self, done: int, findings: int) -> None:
        """Prints the counts, unless ten seconds have not passed since it last did."""
        now = time.monotonic()
        if now - self._shown > _PROGRESS_SECONDS:
            self._shown = now
            print(
                f"  {done} of {self._total}, {done / (now - self._begin):.0f} a second, {findings} findings", flush=True
            )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `run_batches`."""
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same questions")
    parser.add_argument("--batch", type=int, help="only this one, as a finding names it")


def run_batches(run: Callable[[Task], Tally], count: int, size: int, options: argparse.Namespace) -> int:
    """Prints what became of so many questions, in batches of a size; returns 1 where something is wrong, or none ran.

    Args:
        run: works on a batch; of a module that a fresh process can import, which the `__main__` of a package is not.
        count: how many questions.
        size: of a batch.
        options: those of `add_options`.
    """
    print(f"seed {options.seed}", flush=True)
    tasks = [(f"{options.seed}-{at // size}", at // size, min(size, count - at)) for at in range(0, count, size)]
    if options.batch is not None:
        tasks = tasks[options.batch :][:1]
    total, progress, begin = Tally(), Progress(sum(task[2] for task in tasks)), time.monotonic()
    # Spawned, not forked: a fork would inherit the threads and locks of gRPC and protobuf in an unknown state.
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
