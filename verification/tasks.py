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
    done: int = 0  # the number of queries
    # the number of queries with each outcome; a query may have several
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)  # descriptions of errors


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same text gives the same queries")
    parser.add_argument("--batch", type=int, help="number of the only batch to run, as in a finding")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds, with the batches that are done")


def run_batches(run: Callable[[Task], Tally], count: int, size: int, options: argparse.Namespace) -> int:
    """Runs queries in batches of a size, and prints the outcomes; returns 1 if there is a finding, or if none ran."""
    print(f"seed {options.seed}", flush=True)
    tasks = [(f"{options.seed}-{at // size}", at // size, min(size, count - at)) for at in range(0, count, size)]
    if options.batch is not None:
        tasks = tasks[options.batch :][:1]
    total, count, begin = Tally(), sum(task[2] for task in tasks), time.monotonic()
    shown = begin
    # Processes are spawned. A fork would inherit the threads and locks of gRPC and protobuf in an unknown state.
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        for tally in pool.imap_unordered(run, tasks):
            for finding in tally.findings[: max(_MAX_SHOWN - len(total.findings), 0)]:
                print(finding, flush=True)
            total.done += tally.done
            total.outcomes += tally.outcomes
            total.findings += tally.findings
            if (now := time.monotonic()) - shown > _PROGRESS_SECONDS:
                rate, shown = f"{total.done / (now - begin):.0f} a second", now
                print(f"  {total.done} of {count}, {rate}, {len(total.findings)} findings", flush=True)
            if options.seconds is not None and now - begin > options.seconds:
                break
    for outcome, number in sorted(total.outcomes.items()):
        print(f"{number:10} {outcome}")
    print(f"{total.done} in {time.monotonic() - begin:.0f} s: {len(total.findings)} findings")
    return 1 if total.findings or not total.done else 0
