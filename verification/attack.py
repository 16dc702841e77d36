"""Attacks servers beside polite clients, and prints what those saw: rows of the table in docs/attacks.

The servers listen on loopback, but read connections as those do that other machines can reach: by the event engine.
TENSOR_RESHAPE_ENGINE=polling in the environment shows what users of the same machine can do.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from itertools import product

from attack_runs import Row, attack_address, run_attacks
from attacks import ATTACKS

_HEADER = "| attack | p50 | p99 | health | refused | lost | MiB | back |\n|---|" + "---:|" * 7


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/verify attack", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what attacks there are")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each attack goes on")
    parser.add_argument("--repeat", type=int, default=1, help="how often there is each")
    parser.add_argument("--serving", nargs="+", choices=("inline", "threads"), default=("inline", "threads"))
    parser.add_argument("--workers", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--address", help="attack what listens there, a proxy for example, and start no server")
    return parser.parse_args()


def main() -> int:
    """Attacks; 1 where others noticed more than they may."""
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(f"{name:24} {attack.sentence}" for name, attack in ATTACKS.items()))
        return 0
    os.environ.setdefault("TENSOR_RESHAPE_ENGINE", "event")
    problems = []
    for title, rows in run(arguments):
        print(f"\n## {title}\n\n{_HEADER}")
        for row in rows:
            print(row.describe(), flush=True)
            misses = row.find_misses(ATTACKS[row.attack].bounds)
            problems += [f"{title}, {row.attack}: {miss}; its connections ended {row.attacker}" for miss in misses]
    print("", *problems or ["passed"], sep="\n")
    return 1 if problems else 0


def run(arguments: argparse.Namespace) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yields the rows of each way of serving, or of the address."""
    attacks = [ATTACKS[name] for name in arguments.only] * arguments.repeat
    if arguments.address:
        yield arguments.address, attack_address(attacks, arguments.seconds, arguments.address)
        return
    for serving, workers in product(arguments.serving, arguments.workers):
        flags = ("--serving", serving, "--workers", str(workers))
        yield " ".join(flags), run_attacks(attacks, arguments.seconds, *flags)


if __name__ == "__main__":
    sys.exit(main())
