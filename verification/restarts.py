"""Restarts and kills servers under load, lets one reject everything for 20 seconds, and prints the lost calls.

Threads, tasks and streams make calls with the SDK's defaults and check every result. A scenario passes if no call
failed, and if no call took more than one second longer than the time without a server. A single server is down for a
moment during a restart; of two servers, one is always up. Behind a proxy and with killed workers, only lost calls
count. `--list` prints the scenarios. The proxies run with the files of deploy/proxies.
"""

import argparse
import json
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import numpy as np

from interruptions import (
    KILL_CALLS,
    REST_SECONDS,
    Figures,
    keep_calling,
    keep_running,
    note_lateness,
    run_kills,
    run_restarts,
)
from plain_requests import INFER, INFERRED
from proxies import PROXIES, Proxy, run_proxy
from replicas import replace_all, run_flood, run_pair, run_replicas, serve_tls
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client
from tensor_reshape.wire.methods import SERVICE

_CLIENTS, _CALLS_PER_SECOND, _BUSY_SECONDS = 50, 20.0, 20.0  # two cores serve about 1,700 such calls a second
_MAX_ATTEMPTS, _MAX_SETTLED_ATTEMPTS = 1.2, 1.02
_DRAIN = ("--drain-seconds", "0.5")  # the default; other test servers have no drain period
_CALLS_BETWEEN, _REST_SECONDS = 150, 0.01
_STREAM_BYTES, _STREAMS = 256 * 1024 * 1024, 5

_STOCK_CALLERS = 4
_STOCK_SECONDS = 30.0
_SOON = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 300))  # the SDK's settings
_ROUND_ROBIN: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
_HEALTH: dict[str, Any] = {**_ROUND_ROBIN, "healthCheckConfig": {"serviceName": SERVICE}}
# The settings of most clients.
_RETRIES: dict[str, Any] = {
    **_ROUND_ROBIN,
    "methodConfig": [
        {
            "name": [{"service": SERVICE}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
}
_STOCK_CONFIGS = {"stock": _ROUND_ROBIN, "stock, watches health": _HEALTH, "stock, retries": _RETRIES}
"""Options of grpcio channels without the SDK: only round_robin, or additional settings."""

Scenario = Callable[..., list[str]]
"""Runs with the options of the command line, flags of the servers and settings of the clients; returns the problems."""


def restart_lone(options: argparse.Namespace) -> list[str]:
    """Restarts a single server every two seconds."""
    return _show(run_restarts(options.seconds, *_DRAIN)).find_problems()


def kill_workers(options: argparse.Namespace) -> list[str]:
    """Kills one of two workers every one and a half seconds."""
    # A slow machine may start no worker in time, so the duration of calls is not checked.
    return _show(run_kills(options.calls)).failures


def restart_replicas(options: argparse.Namespace, /, *flags: str, **settings: Any) -> list[str]:
    """Restarts two servers behind one target, one after the other."""
    return _show(run_replicas((signal.SIGTERM,), options.seconds, *flags, *_DRAIN, **settings)).find_problems()


def kill_replicas(options: argparse.Namespace) -> list[str]:
    """Kills two servers behind one target, one after the other."""
    return _show(run_replicas((signal.SIGKILL,), options.seconds)).find_problems()


def restart_under_stock_callers(options: argparse.Namespace, /, *flags: str, **settings: Any) -> list[str]:
    """Runs the scenario `replicas` with clients without the SDK. Those that watch health must lose no call."""
    figures = _show(_run_stock_callers(options.seconds, settings, *flags, *_DRAIN))
    # A stopping server rejects new calls, so clients that do not watch health may lose a few.
    return [failure for failure in figures.failures if failure.startswith("stock, watches health:")]


def _run_stock_callers(seconds: float, settings: Mapping[str, Any], *flags: str) -> Figures:
    """Like `run_replicas` with SIGTERM, but with callers that do not use the SDK."""
    figures, end = Figures(has_replica=True), time.monotonic() + seconds
    with note_lateness(figures), run_pair(flags) as pair, _keep_stock_callers(pair.target, settings, figures):
        replace_all(pair, (signal.SIGTERM,), end, figures)
    return figures


@contextmanager
def _keep_stock_callers(target: str, settings: Mapping[str, Any], figures: Figures) -> Iterator[None]:
    finished = threading.Event()
    with ExitStack() as stack:
        callers = [
            partial(_keep_calling_plainly, channel, kind, figures, finished)
            for kind, config in _STOCK_CONFIGS.items()
            for channel in [stack.enter_context(_open_channel(target, config, **settings))]
            for _ in range(_STOCK_CALLERS)
        ]
        with keep_running(callers, finished):
            yield


def _open_channel(
    target: str,
    config: Mapping[str, Any],
    credentials: grpc.ChannelCredentials | None = None,
    options: Sequence[tuple[str, Any]] = (),
) -> grpc.Channel:
    all_options = [("grpc.service_config", json.dumps(config)), *_SOON, *options]
    if credentials is None:
        return grpc.insecure_channel(target, all_options)
    return grpc.secure_channel(target, credentials, all_options)


def _keep_calling_plainly(channel: grpc.Channel, kind: str, figures: Figures, finished: threading.Event) -> None:
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/InferShape")
    while not finished.wait(REST_SECONDS):
        with figures.measure(kind):
            assert call(INFER, timeout=_STOCK_SECONDS, wait_for_ready=True) == INFERRED


def run_over_tls(scenario: Scenario) -> Scenario:
    def run(options: argparse.Namespace) -> list[str]:
        with serve_tls() as (flags, settings):
            return scenario(options, *flags, **settings)

    run.__doc__ = f"The same over TLS: {scenario.__doc__}"
    return run


def reject_everything(_: argparse.Namespace) -> list[str]:
    """Runs a server that returns SERVER_BUSY for 20 seconds to 50 clients that keep their rate of calls."""
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


def run_behind(proxy: Proxy) -> Scenario:
    def run(options: argparse.Namespace) -> list[str]:
        if obstacle := proxy.find_obstacle():
            print(f"  {obstacle}")
            return []
        runs = [_show(restart_behind(proxy, one, options.restarts)) for one in (signal.SIGTERM, signal.SIGKILL)]
        show_streams(proxy)
        return [problem for figures in runs for problem in figures.failures]

    run.__doc__ = f"Restarts and kills one of two servers behind {proxy.name}, and times streams through it."
    return run


def restart_behind(proxy: Proxy, number: signal.Signals, restarts: int) -> Figures:
    """Stops one of two servers by a signal and starts another one, this number of times."""
    figures = Figures()
    with ExitStack() as stack, TemporaryDirectory() as folder:

        def start(listen: str = "127.0.0.1:0") -> ServerProcess:
            return stack.enter_context(run_server("--drain-seconds", "2", listen=(listen,)))

        servers = [start(), start()]
        addresses = [server.address for server in servers]
        address = stack.enter_context(run_proxy(proxy, addresses, Path(folder)))
        with keep_calling(address, figures, rest_seconds=_REST_SECONDS):
            for turn in range(restarts):
                figures.await_calls(_CALLS_BETWEEN)
                servers[turn % 2].stop(number)
                servers[turn % 2] = start(addresses[turn % 2])
                figures.interruptions += 1
            figures.await_calls(_CALLS_BETWEEN)
    return figures


def show_streams(proxy: Proxy) -> None:
    """Prints how long streams take through a proxy, compared with direct ones in the same run."""
    array, ratios = np.arange(_STREAM_BYTES // 8, dtype=np.int64), []
    with ExitStack() as stack, TemporaryDirectory() as folder:
        # The event engine, which a server uses for other machines. Otherwise the directly called servers would use
        # another one.
        servers = [stack.enter_context(run_server(env={"GRPC_EXPERIMENTS": "event_engine_listener"})) for _ in range(2)]
        through = stack.enter_context(run_proxy(proxy, [server.address for server in servers], Path(folder)))
        clients = [stack.enter_context(Client(address, timeout=120)) for address in (through, servers[0].address)]
        for _ in range(_STREAMS):
            times = [time.monotonic()]
            for client in clients:
                client.reshape(array, [-1, 2], special_zero=False, transfer="stream")
                times.append(time.monotonic())
            ratios.append((times[1] - times[0]) / (times[2] - times[1]))
    print(f"  a stream of {_STREAM_BYTES >> 20} MiB takes {median(ratios):.1f} times as long", flush=True)


SCENARIOS: dict[str, Scenario] = {
    "lone": restart_lone,
    "workers": kill_workers,
    "replicas": restart_replicas,
    "kills": kill_replicas,
    "tls": run_over_tls(restart_replicas),
    "stock": restart_under_stock_callers,
    "stock-tls": run_over_tls(restart_under_stock_callers),
    "busy": reject_everything,
    **{proxy.name: run_behind(proxy) for proxy in PROXIES},
}


def _show(figures: Figures) -> Figures:
    lost = Counter(failure.partition(":")[0] for failure in figures.failures)
    away = f"a server took at most {figures.stop_seconds:.2f} s to stop, {figures.start_seconds:.2f} s to start"
    print(f"  {figures.interruptions} interruptions; {away}; maximum delay {figures.lateness:.1f}")
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
    parser.add_argument("--restarts", type=int, default=10, help="restarts behind a proxy by each signal")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{name:10} {run.__doc__}" for name, run in SCENARIOS.items()))
        return 0
    problems = []
    for name in arguments.only:
        print(name, flush=True)
        problems += SCENARIOS[name](arguments)
    print("\n".join(problems) or "passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
