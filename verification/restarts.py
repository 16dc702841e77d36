"""Restarts and kills servers under load, and has one reject everything for ten seconds; says what callers lost.

Threads, tasks and streams call with the SDK's defaults and check every answer. It passes where no call failed, and no
call took more than a second longer than there was no server: a lone one that is restarted is away for a moment, of two
there is always one. `--list` names the scenarios.
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
_DRAIN = ("--drain-seconds", "0.5")  # the default, which test servers do without


class Extent(NamedTuple):
    """For how many seconds servers are restarted, and for how many calls workers are killed."""

    seconds: float
    calls: int


def restart_lone(extent: Extent) -> list[str]:
    """A lone server is restarted every two seconds."""
    return _show(run_restarts(extent.seconds, *_DRAIN)).find_problems()


def kill_workers(extent: Extent) -> list[str]:
    """One of two workers is killed every one and a half seconds."""
    # A machine that starts no worker in time has nobody to answer soon: so how long calls take is not looked at.
    return _show(run_kills(extent.calls)).failures


def restart_replicas(extent: Extent) -> list[str]:
    """Of two servers behind one target, one after the other is restarted."""
    return _show(run_replicas((signal.SIGTERM,), extent.seconds, *_DRAIN)).find_problems()


def kill_replicas(extent: Extent) -> list[str]:
    """Of two servers behind one target, one after the other is killed."""
    return _show(run_replicas((signal.SIGKILL,), extent.seconds)).find_problems()


def restart_encrypted_replicas(extent: Extent) -> list[str]:
    """As `replicas`, over TLS."""
    with serve_tls() as (flags, settings):
        figures = run_replicas((signal.SIGTERM,), extent.seconds, *flags, *_DRAIN, **settings)
    return _show(figures).find_problems()


def restart_under_stock_callers(extent: Extent) -> list[str]:
    """As `replicas`, with callers that know nothing of the SDK: those that watch health may lose no call."""
    return _find_lost_watchers(run_stock_callers(extent.seconds, {}, *_DRAIN))


def restart_encrypted_under_stock_callers(extent: Extent) -> list[str]:
    """As `stock`, over TLS."""
    with serve_tls() as (flags, settings):
        return _find_lost_watchers(run_stock_callers(extent.seconds, settings, *flags, *_DRAIN))


def _find_lost_watchers(figures: Figures) -> list[str]:
    """Shows the figures; a server that stops rejects what arrives, so that others may lose a few."""
    return [failure for failure in _show(figures).failures if failure.startswith("stock, watches health:")]


def reject_everything(_: Extent) -> list[str]:
    """A server says SERVER_BUSY for ten seconds to 50 clients that go on calling at their pace."""
    figures = run_flood(_CLIENTS, _CALLS_PER_SECOND, _BUSY_SECONDS)
    print(
        f"  {len(figures.calls)} calls; while the server was busy, one was sent {figures.attempts_per_call:.3f} times, "
        f"in the second half {figures.settled_attempts_per_call:.3f} times\n"
        f"  then {len(figures.lost_after)} were lost, the slowest took {figures.slowest_after_seconds:.2f} s, and "
        f"in the first second {figures.recovered_share:.0%} of the usual ones were answered",
        flush=True,
    )
    problems = [f"lost after the server was busy: {failure}" for failure in set(figures.lost_after)]
    if figures.attempts_per_call > _MAX_ATTEMPTS or figures.settled_attempts_per_call > _MAX_SETTLED_ATTEMPTS:
        problems.append("a busy server was asked again too often")
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
    """Prints what came of a run."""
    lost = Counter(failure.partition(":")[0] for failure in figures.failures)
    away = f"{figures.stop_seconds:.2f} s to stop, {figures.start_seconds:.2f} s to start"
    print(f"  {figures.interruptions} interruptions; a server took at most {away}; late by {figures.lateness:.1f}")
    for kind in sorted({*figures.calls, *lost}):
        slowest = figures.slowest_seconds.get(kind, 0.0)
        print(f"  {figures.calls[kind]:8} {kind}, {lost[kind]} lost, slowest {slowest:.2f} s", flush=True)
    return figures


def main() -> int:
    """Runs; 1 where something is not as it must be."""
    parser = argparse.ArgumentParser("scripts/verify restarts", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=tuple(SCENARIOS), metavar="NAME")
    parser.add_argument("--list", action="store_true", help="say what scenarios there are")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each scenario with restarts")
    parser.add_argument("--calls", type=int, default=KILL_CALLS, help="while workers are killed")
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
