"""Restarts and kills servers under load, and has one refuse everything for ten seconds; says what callers lost.

Threads, tasks and streams call with the SDK's defaults and check every answer. It passes where no call failed, and no
call took more than a second longer than there was no server: a lone one that is restarted is away for a moment, of two
there is always one. `--list` names the scenarios.
"""

import argparse
import sys
from itertools import product

from interruptions import KILL_CALLS
from verification.restarts.scenarios import SCENARIOS, Extent

_SERVINGS = ("inline", "threads")


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/restarts", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=tuple(SCENARIOS), metavar="NAME")
    parser.add_argument("--list", action="store_true", help="say what scenarios there are")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each scenario with restarts")
    parser.add_argument("--calls", type=int, default=KILL_CALLS, help="while workers are killed")
    parser.add_argument("--serving", nargs="+", choices=_SERVINGS, default=_SERVINGS[:1])
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where something is not as it must be."""
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(f"{name:10} {(run.__doc__ or '').splitlines()[0]}" for name, run in SCENARIOS.items()))
        return 0
    problems = []
    for serving, name in product(arguments.serving, arguments.only):
        print(f"{name}, {serving}", flush=True)
        problems += SCENARIOS[name](Extent(arguments.seconds, arguments.calls, ("--serving", serving)))
    print("\n".join(problems) or "passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
