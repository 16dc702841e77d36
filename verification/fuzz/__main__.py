"""Compares the reader of messages with the generated classes, on as many inputs as there is time for.

Every input is read by the product and, as a whole, by the generated class; both must say the same, or reject it for the
same reason. Every request is also answered by a server that has just been made, and by one that has seen all the others
of its batch; both must answer with the same bytes, whose numbers every reader in use takes. All follows from the seed.
"""

import argparse
import sys

import google.protobuf
from google.protobuf.internal import api_implementation

from verification.fuzz.runs import BATCH, run_batch
from verification.tasks import add_options, run_batches


def main() -> int:
    """Runs; 1 where there is a mismatch."""
    parser = argparse.ArgumentParser("scripts/verify fuzz", description=__doc__)
    parser.add_argument("inputs", nargs="?", type=int, default=1_000_000, help="how many")
    add_options(parser)
    arguments = parser.parse_args()
    print(f"protobuf {google.protobuf.__version__} ({api_implementation.Type()})", flush=True)
    return run_batches(run_batch, arguments.inputs, BATCH, arguments)


if __name__ == "__main__":
    sys.exit(main())
