"""Compares the reader of messages with the generated classes, on as many inputs as there is time for.

Every input is read by the product and, as a whole, by the generated class; both must say the same, or refuse it for the
same reason. Every request is also answered by a server that has just been made, and by one that has seen all the others
of its batch; both must answer with the same bytes, whose numbers every reader in use takes. All follows from the seed.
"""

import argparse
import os
import secrets
import sys
import time

import google.protobuf
from google.protobuf.internal import api_implementation

from verification.fuzz.runs import find_plants, list_tasks, run_tasks, show


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/verify fuzz", description=__doc__)
    parser.add_argument("inputs", nargs="?", type=int, default=1_000_000, help="how many")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same inputs")
    parser.add_argument("--batch", type=int, help="only this one, as a mismatch names it")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--plant", action="store_true", help="put known bugs into the reader: each must be found")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where there is a mismatch, or a planted bug is not found."""
    arguments = parse_arguments()
    version = f"protobuf {google.protobuf.__version__} ({api_implementation.Type()})"
    print(f"seed {arguments.seed}, {arguments.processes} processes, {version}", flush=True)
    if arguments.plant:
        return 0 if find_plants(arguments.seed, arguments.processes) else 1
    tasks = list_tasks(arguments.seed, arguments.inputs)
    begin = time.monotonic()
    tally = run_tasks(tasks if arguments.batch is None else tasks[arguments.batch :][:1], arguments.processes)
    show(tally, time.monotonic() - begin)
    return 1 if tally.mismatches or not tally.inputs else 0


if __name__ == "__main__":
    sys.exit(main())
