"""Attacks servers while well-behaved clients call them, and prints what these clients measured.

The output has the rows of the tables in docs/attacks. With --proxy, the attackers and the other clients connect through
a proxy that has its configuration file from deploy/proxies. Attacks that only a proxy stops run if --proxy is given or
if you name them.

After the table, the program prints how much longer the calls over gRPC took during each attack on HTTP, as the ratio
of the p50 to that of `no-attack`. The goal is a ratio of at most 1.5, because another process serves HTTP. Attackers
also use the processors, so use a machine with more than two.

The servers listen on loopback, but they use the event engine, as a server does that other machines can reach. Set
GRPC_EXPERIMENTS=-event_engine_listener in the environment to measure attacks by users of the same machine.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from statistics import median

from attack_runs import Row, attack_address, run_attacks
from attacks import ATTACKS
from proxies import EDGES

GOAL_RATIO = 1.5
"""The largest wanted ratio of the p50 of calls over gRPC during an attack on HTTP to the p50 without an attack."""

_HEADER = "| attack | p50 | p99 | health | HTTP | rejected | lost | MiB | back |\n|---|" + "---:|" * 8


def main() -> int:
    """Runs the attacks. The status is 1 if other clients were affected more than the limits allow."""
    parser = argparse.ArgumentParser("scripts/verify attack", description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the attacks")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=ATTACKS, default=[])
    parser.add_argument("--seconds", type=float, default=3.0, help="duration of each attack")
    parser.add_argument("--repeat", type=int, default=1, help="number of runs of each attack")
    proxies = [proxy.name for proxy in EDGES]
    parser.add_argument("--proxy", choices=proxies, help="proxy in front of the server; default: none")
    parser.add_argument("--workers", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--address", help="attack this address, for example a proxy, and start no server")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{name:24} {attack.sentence}" for name, attack in ATTACKS.items()))
        return 0
    os.environ.setdefault("GRPC_EXPERIMENTS", "event_engine_listener")
    problems = []
    for title, rows in run(arguments):
        print(f"\n## {title}\n\n{_HEADER}")
        shown = []
        for row in rows:
            print(row.describe(), flush=True)
            shown.append(row)
            misses = row.find_misses(ATTACKS[row.attack].bounds)
            problems += [
                f"{title}, {row.attack}: {miss}; the attacker's connections ended {row.attacker}" for miss in misses
            ]
        print("", *compare_with_calm(shown), sep="\n")
    print("", *problems or ["passed"], sep="\n")
    return 1 if problems else 0


def run(arguments: argparse.Namespace) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yields the rows of each number of workers, or of the address."""
    proxy = next((proxy for proxy in EDGES if proxy.name == arguments.proxy), None)
    calm = ["no-attack"] if any(ATTACKS[name].is_http for name in arguments.only) else []
    is_foreign = bool(arguments.proxy or arguments.address)
    own = [name for name, attack in ATTACKS.items() if not (attack.is_http if is_foreign else attack.needs_proxy)]
    names = [*calm, *arguments.only] or own
    attacks = [ATTACKS[name] for name in names] * arguments.repeat
    if arguments.address:
        yield arguments.address, attack_address(attacks, arguments.seconds, arguments.address)
        return
    title = "no proxy" if proxy is None else proxy.find_version()
    for workers in arguments.workers:
        rows = run_attacks(attacks, arguments.seconds, "--workers", str(workers), proxy=proxy)
        yield f"{title}, --workers {workers}", rows


def compare_with_calm(rows: Sequence[Row]) -> list[str]:
    """Returns a line for each attack on HTTP, with the p50 of calls over gRPC as a multiple of that of `no-attack`."""
    calm = [row.p50_ms for row in rows if row.attack == "no-attack" and row.p50_ms]
    if not calm:
        return []
    return [
        f"{row.attack}: calls over gRPC take {row.p50_ms / median(calm):.2f} times as long, {GOAL_RATIO:g} is the goal"
        for row in rows
        if row.attack in ATTACKS and ATTACKS[row.attack].is_http and row.p50_ms
    ]


if __name__ == "__main__":
    sys.exit(main())
