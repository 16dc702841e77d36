"""Restarts and kills servers under load, lets one reject everything for ten seconds, and prints the lost calls.

Threads, tasks and streams make calls with the SDK's defaults and check every result. A scenario passes if no call
failed, and if no call took more than one second longer than the time without a server. A single server is down for a
moment during a restart; of two servers, one is always up. `--list` prints the scenarios.
"""

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from interruptions import KILL_CALLS, Figures, run_kills, run_restarts
from replicas import run_replicas, run_stock_callers, serve_tls
from retry_floods import run_flood

_CLIENTS, _CALLS_PER_SECOND, _BUSY_SECONDS = 50, 40.0, 10.0
_MAX_ATTEMPTS, _MAX_SETTLED_ATTEMPTS = 1.2, 1.02
_DRAIN = ("--drain-seconds", "0.5")  # the default; other test servers have no drain period


class Extent(NamedTuple):
    """The seconds of scenarios with restarts, and the number of calls while workers are killed."""

    seconds: float
    calls: int


def restart_lone(extent: Extent) -> list[str]:
    """Restarts a single server every two seconds."""
    return _show(run_restarts(extent.seconds, *_DRAIN)).find_problems()


def kill_workers(extent: Extent) -> list[str]:
    """Kills one of two workers every one and a half seconds."""
    # A slow machine may start no worker in time, so the duration of calls is not checked.
    return _show(run_kills(extent.calls)).failures


def restart_replicas(extent: Extent) -> list[str]:
    """Restarts two servers behind one target, one after the other."""
    return _show(run_replicas((signal.SIGTERM,), extent.seconds, *_DRAIN)).find_problems()


def kill_replicas(extent: Extent) -> list[str]:
    """Kills two servers behind one target, one after the other."""
    return _show(run_replicas((signal.SIGKILL,), extent.seconds)).find_problems()


def restart_encrypted_replicas(extent: Extent) -> list[str]:
    """Runs the scenario `replicas` over TLS."""
    with serve_tls() as (flags, settings):
        figures = run_replicas((signal.SIGTERM,), extent.seconds, *flags, *_DRAIN, **settings)
    return _show(figures).find_problems()


def restart_under_stock_callers(extent: Extent) -> list[str]:
    """Runs the scenario `replicas` with clients without the SDK. Those that watch health must lose no call."""
    return _find_lost_watchers(run_stock_callers(extent.seconds, {}, *_DRAIN))


def restart_encrypted_under_stock_callers(extent: Extent) -> list[str]:
    """Runs the scenario `stock` over TLS."""
    with serve_tls() as (flags, settings):
        return _find_lost_watchers(run_stock_callers(extent.seconds, settings, *flags, *_DRAIN))


def _find_lost_watchers(figures: Figures) -> list[str]:
    """Shows the figures. A stopping server rejects new calls, so clients that do not watch health may lose a few."""
    return [failure for failure in _show(figures).failures if failure.startswith("stock, watches health:")]


def reject_everything(_: Extent) -> list[str]:
    """Runs a server that returns SERVER_BUSY for ten seconds to 50 clients that keep their rate of calls."""
    figures = run_flood(_CLIENTS, _CALLS_PER_SECOND, _BUSY_SECONDS)
    print(
        f"  {len(figures.calls)} calls; with a busy server, each was sent {figures.attempts_per_call:.3f} times; "
        f"in the second half {figures.settled_attempts_per_call:.3f} times\n"
        f"  after that {len(figures.lost_after)} were lost, the slowest took {figures.slowest_after_seconds:.2f} s, "
        f"and in the first second {figures.recovered_share:.0%} of the usual number succeeded",
        flush=True,
    )
    problems = [f"lost after the server was busy: {failure}" for failure in set(figures.lost_after)]
    if figures.attempts_per_call > _MAX_ATTEMPTS or figures.settled_attempts_per_call > _MAX_SETTLED_ATTEMPTS:
        problems.append("the clients retried a busy server too often")
    return problems


SCENARIOS: dict[str, Callable[[Extent], list[str]]] = {
    "lone": restart_lone,
    "workers": kill_workers,
    "replicas": restart_replicas,
    "kills": kill_replicas,
    "tls": restart_encrypted_replicas,
    "stock": restart_under_stock_callers,
    "stock-tls": restart_encrypted_under_stock_callers,
    "busy": reject_everything,
}


def _show(figures: Figures) -> Figures:
    """Prints the results of a run."""
    lost = Counter(failure.partition(":")[0] for failure in figures.failures)
    away = f"{figures.stop_seconds:.2f} s to stop, {figures.start_seconds:.2f} s to start"
    print(
        f"  {figures.interruptions} interruptions; a server took at most {away}; maximum delay {figures.lateness:.1f}"
    )
    for kind in sorted({*figures.calls, *lost}):
        slowest = figures.slowest_seconds.get(kind, 0.0)
        print(f"  {figures.calls[kind]:8} {kind}, {lost[kind]} lost, slowest {slowest:.2f} s", flush=True)
    return figures


def main() -> int:
    """Runs the scenarios. The status is 1 if one fails."""
    parser = argparse.ArgumentParser("scripts/verify restarts", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=tuple(SCENARIOS), metavar="NAME")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of each scenario with restarts")
    parser.add_argument("--calls", type=int, default=KILL_CALLS, help="number of calls while workers are killed")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{name:10} {run.__doc__}" for name, run in SCENARIOS.items()))
        return 0
    problems = []
    for name in arguments.only:
        print(name, flush=True)
        problems += SCENARIOS[name](Extent(arguments.seconds, arguments.calls))
    print("\n".join(problems) or "passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
