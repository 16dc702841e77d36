"""Restarts a lone server every two seconds, and kills one of two workers every one and a half, under load.

Threads, tasks and streams call with the SDK's defaults and check every answer. It passes where no call failed, and no
call took more than a second longer than the longest time that a server which restarts was away.
"""

import argparse
import sys

from interruptions import KILL_CALLS, Figures, run_kills, run_restarts


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/restarts", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of restarts; 0: none")
    parser.add_argument("--calls", type=int, default=KILL_CALLS, help="while workers are killed; 0: none")
    parser.add_argument("--serving", choices=("inline", "threads"), default="inline")
    parser.add_argument("--drain-seconds", default="0.5", help="of the server that is restarted")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where something is not as it must be."""
    arguments = parse_arguments()
    flags, problems = ("--serving", arguments.serving), []
    if arguments.seconds:
        figures = run_restarts(arguments.seconds, *flags, "--drain-seconds", arguments.drain_seconds)
        show("restarts", figures)
        problems += figures.find_problems()
    if arguments.calls:
        figures = run_kills(arguments.calls, *flags)
        show("kills", figures)
        problems += figures.failures
    print("\n".join(problems) or "passed")
    return 1 if problems else 0


def show(title: str, figures: Figures) -> None:
    """Prints what came of a run."""
    lost = len(figures.failures)
    away = f"{figures.stop_seconds:.2f} s to stop, {figures.start_seconds:.2f} s to start"
    print(f"{figures.interruptions} {title}, {lost} calls lost; the server took at most {away}")
    for kind, count in sorted(figures.calls.items()):
        print(f"  {count:8} {kind}, slowest {figures.slowest_seconds[kind]:.2f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
