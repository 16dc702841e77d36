"""Compares the message parser with the generated classes, on as many inputs as there is time for.

The product and the generated class parse every input. Both must return the same, or reject the input for the same
reason. A new server, and a server that has served all other requests of the batch, both answer every request. Both must
send the same bytes, which every parser in use accepts with the same numbers. All inputs follow from the seed.
"""

import argparse
import sys

import google.protobuf
from google.protobuf.internal import api_implementation

from verification.fuzz.runs import BATCH, run_batch
from verification.tasks import add_options, run_batches


def main() -> int:
    """Runs the comparison. The status is 1 if there is a mismatch."""
    parser = argparse.ArgumentParser("scripts/verify fuzz", description=__doc__)
    parser.add_argument("inputs", nargs="?", type=int, default=1_000_000, help="how many")
    add_options(parser)
    arguments = parser.parse_args()
    print(f"protobuf {google.protobuf.__version__} ({api_implementation.Type()})", flush=True)
    return run_batches(run_batch, arguments.inputs, BATCH, arguments)


if __name__ == "__main__":
    sys.exit(main())
