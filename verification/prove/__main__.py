"""Asks as many questions about shapes as there is time for, and compares the answers with brute force, and each other.

Two of three questions are small enough to try their instances one by one: `proofs` says what is compared. The others
are as wide as the contract. All of them go over the wire and back, alone and in batches with links: the answers must
be those of `infer_locally`. All questions follow from the seed.
"""

import argparse
import os
import secrets
import sys
import time

from tests.oracles.conformance_cases import count_tighter
from verification.prove.proofs import list_tasks, run_tasks


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/prove", description=__doc__)
    parser.add_argument("questions", nargs="?", type=int, default=1_000_000, help="how many")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same questions")
    parser.add_argument("--batch", type=int, help="only this one, as a violation names it")
    parser.add_argument("--share", type=float, default=1.0, help="of how many all is tried; the others go in batches")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--conformance", action="store_true", help="compare the cases of the libraries instead")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where there is a violation."""
    arguments = parse_arguments()
    if arguments.conformance:
        return 0 if compare_cases() else 1
    print(f"seed {arguments.seed}, {arguments.processes} processes", flush=True)
    begin = time.monotonic()
    tasks = list_tasks(arguments.seed, arguments.questions, arguments.share)
    tasks = tasks if arguments.batch is None else tasks[arguments.batch :][:1]
    tally = run_tasks(tasks, arguments.processes)
    for name, number in tally.outcomes.most_common():
        print(f"{number:10} {name}")
    print(f"{tally.instances:10} instances tried")
    print(f"{time.monotonic() - begin:.0f} s: {len(tally.violations)} violations")
    return 1 if tally.violations or not tasks else 0


def compare_cases() -> bool:
    """Prints how the answers compare with those of the libraries; False where one is wider."""
    counts = count_tighter()
    for name, number in counts.items():
        print(f"{number:10} {name}")
    return counts["wider"] == 0


if __name__ == "__main__":
    sys.exit(main())
