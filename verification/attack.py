"""Attacks servers beside polite clients, and prints what those saw: rows of the tables in docs/attacks.

With --proxy, a proxy with the file in deploy/proxies stands in front, and attackers and polite clients go through it.
Attacks that only a proxy stops run through it, or if they are named.

The servers listen on loopback, but read connections as those do that other machines can reach: by the event engine.
TENSOR_RESHAPE_IO_ENGINE=polling in the environment shows what users of the same machine can do.
"""

import argparse
import os
import sys
from collections.abc import Iterator

from attack_bounds import Attack
from attack_runs import Row, attack_address, run_attacks
from attacks import ATTACKS
from proxies import EDGES

_HEADER = "| attack | p50 | p99 | health | rejected | lost | MiB | back |\n|---|" + "---:|" * 7


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/verify attack", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what attacks there are")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=ATTACKS, default=[])
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each attack goes on")
    parser.add_argument("--repeat", type=int, default=1, help="how often there is each")
    parser.add_argument(
        "--proxy", choices=[proxy.name for proxy in EDGES], help="what stands in front; default: nothing"
    )
    parser.add_argument("--workers", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--address", help="attack what listens there, a proxy for example, and start no server")
    return parser.parse_args()


def main() -> int:
    """Attacks; 1 where others noticed more than they may."""
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(f"{name:24} {attack.sentence}" for name, attack in ATTACKS.items()))
        return 0
    os.environ.setdefault("TENSOR_RESHAPE_IO_ENGINE", "event")
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
    """Yields the rows of each number of workers, or of the address."""
    proxy = next((proxy for proxy in EDGES if proxy.name == arguments.proxy), None)
    names = arguments.only or [name for name, attack in ATTACKS.items() if runs(attack, arguments)]
    attacks = [ATTACKS[name] for name in names] * arguments.repeat
    if arguments.address:
        yield arguments.address, attack_address(attacks, arguments.seconds, arguments.address)
        return
    title = "no proxy" if proxy is None else proxy.find_version()
    for workers in arguments.workers:
        flags = ("--workers", str(workers))
        yield f"{title}, {' '.join(flags)}", run_attacks(attacks, arguments.seconds, *flags, proxy=proxy)


def runs(attack: Attack, arguments: argparse.Namespace) -> bool:
    """Returns whether an attack is run that was not named."""
    return not attack.is_http if arguments.proxy or arguments.address else not attack.needs_proxy


if __name__ == "__main__":
    sys.exit(main())
