"""What happens to servers under load; each prints what came of it, and returns what is not as it must be."""

import signal
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from interruptions import Figures, run_kills, run_restarts
from replicas import run_replicas, run_stock_callers, serve_tls
from retry_floods import run_flood

CLIENTS, CALLS_PER_SECOND, BUSY_SECONDS = 50, 40.0, 10.0
_MAX_ATTEMPTS, _MAX_SETTLED_ATTEMPTS = 1.2, 1.02
_DRAIN = ("--drain-seconds", "0.5")  # the default, which test servers do without


class Extent(NamedTuple):
    """How long a scenario goes on, and with which flags.

    Attributes:
        seconds: of restarts.
        calls: while workers are killed.
        flags: of the servers.
    """

    seconds: float
    calls: int
    flags: tuple[str, ...]


def restart_lone(extent: Extent) -> list[str]:
    """A lone server is restarted every two seconds."""
    return _show(run_restarts(extent.seconds, *extent.flags, *_DRAIN))


def kill_workers(extent: Extent) -> list[str]:
    """One of two workers is killed every one and a half seconds."""
    figures = run_kills(extent.calls, *extent.flags)
    _show(figures)
    return figures.failures  # a machine that starts no worker in time has nobody to answer soon


def restart_replicas(extent: Extent) -> list[str]:
    """Of two servers behind one target, one after the other is restarted."""
    return _show(run_replicas((signal.SIGTERM,), extent.seconds, *extent.flags, *_DRAIN))


def kill_replicas(extent: Extent) -> list[str]:
    """Of two servers behind one target, one after the other is killed."""
    return _show(run_replicas((signal.SIGKILL,), extent.seconds, *extent.flags))


def restart_encrypted_replicas(extent: Extent) -> list[str]:
    """As `replicas`, over TLS."""
    with serve_tls() as (flags, settings):
        return _show(run_replicas((signal.SIGTERM,), extent.seconds, *extent.flags, *flags, *_DRAIN, **settings))


def restart_under_stock_callers(extent: Extent) -> list[str]:
    """As `replicas`, with callers that know nothing of the SDK: none of their calls may be lost."""
    return _show(run_stock_callers(extent.seconds, {}, *extent.flags, *_DRAIN))


def restart_encrypted_under_stock_callers(extent: Extent) -> list[str]:
    """As `stock`, over TLS: only those that neither watch health nor retry may lose calls."""
    with serve_tls() as (flags, settings):
        figures = run_stock_callers(extent.seconds, settings, *extent.flags, *flags, *_DRAIN)
    _show(figures)
    return [failure for failure in figures.failures if not failure.startswith("stock:")]


def refuse_everything(extent: Extent) -> list[str]:
    """A server says SERVER_BUSY for ten seconds to 50 clients that go on calling at their pace."""
    del extent
    figures = run_flood(CLIENTS, CALLS_PER_SECOND, BUSY_SECONDS)
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


SCENARIOS: Mapping[str, Callable[[Extent], list[str]]] = MappingProxyType(
    {
        "lone": restart_lone,
        "workers": kill_workers,
        "replicas": restart_replicas,
        "kills": kill_replicas,
        "tls": restart_encrypted_replicas,
        "stock": restart_under_stock_callers,
        "stock-tls": restart_encrypted_under_stock_callers,
        "busy": refuse_everything,
    }
)


def _show(figures: Figures) -> list[str]:
    """Prints what came of a run, and returns what is not as it must be."""
    lost = Counter(failure.partition(":")[0] for failure in figures.failures)
    away = f"{figures.stop_seconds:.2f} s to stop, {figures.start_seconds:.2f} s to start"
    print(f"  {figures.interruptions} interruptions; a server took at most {away}; late by {figures.lateness:.1f}")
    for kind in sorted({*figures.calls, *lost}):
        slowest = figures.slowest_seconds.get(kind, 0.0)
        print(f"  {figures.calls[kind]:8} {kind}, {lost[kind]} lost, slowest {slowest:.2f} s", flush=True)
    return figures.find_problems()
