"""Asks questions like those of real models, and hostile ones, and looks for an instance at each end of each answer.

An end that an instance reaches cannot be moved; the rules, as the tests' oracle has them, check each instance. An end
that none reaches, for sure, is too wide; of some it is not found out. It passes where at least 99.9 % of the answers to
questions of models are tight for sure.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from verification.tasks import run_all
from verification.tightness.model_questions import FILE, read_models
from verification.tightness.runs import join_tallies, list_tasks, run_task
from verification.tightness.tables import describe, join_models, write_page

LEAST_SHARE = 0.999


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/tightness", description=__doc__)
    parser.add_argument("questions", nargs="?", type=int, default=200, help="how many hostile ones of each kind")
    parser.add_argument("--varied", type=int, default=5, help="how many variants of each question of a model")
    parser.add_argument("--seed", default="1", help="any text; the same one gives the same questions")
    parser.add_argument("--show", type=int, default=3, help="so many answers of each kind that are not tight")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", action="store_true", help="the table, into its page")
    parser.add_argument("--read", nargs="+", type=Path, metavar="MODEL", help="take the questions of these ONNX models")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where too many answers to questions of models are not tight."""
    arguments = parse_arguments()
    if arguments.read:
        FILE.write_text("".join(f"{line}\n" for line in read_models(arguments.read)), encoding="utf-8")
        return 0
    begin = time.monotonic()
    tasks = list_tasks(arguments.seed, arguments.questions, arguments.varied)
    tallies = join_tallies(run_all(run_task, tasks, arguments.processes))
    for tally in tallies:
        print(describe(tally), *tally.shown[: arguments.show], sep="\n  ")
    print(f"seed {arguments.seed}: {sum(tally.answers for tally in tallies)} answers, {time.monotonic() - begin:.0f} s")
    if arguments.write:
        write_page(tallies)
    return 0 if join_models(tallies).least_share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
