"""Stops and kills servers behind HAProxy and nginx one after the other, under load, and times streams through them.

The proxies run with the files of deploy/proxies. The run passes if no call of the SDK with its defaults is lost.
"""

import argparse
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from interruptions import Figures, keep_calling
from proxies import PROXIES, Proxy, run_proxy
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client

_SIGNALS = (signal.SIGTERM, signal.SIGKILL)
_CALLS_BETWEEN, _REST_SECONDS = 150, 0.01
_STREAM_BYTES, _STREAMS = 256 * 1024 * 1024, 5


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/verify proxies", description=__doc__)
    parser.add_argument("--restarts", type=int, default=10, help="restarts of servers by each signal")
    return parser.parse_args()


def main() -> int:
    """Runs the scenarios. The status is 1 if a call was lost."""
    arguments, lost = parse_arguments(), 0
    for proxy in PROXIES:
        if obstacle := proxy.find_obstacle():
            print(obstacle)
            continue
        for number in _SIGNALS:
            figures = restart_servers(proxy, number, arguments.restarts)
            show(f"{proxy.name}, {number.name}", figures)
            lost += len(figures.failures)
        show_streams(proxy)
    return 1 if lost else 0


def restart_servers(proxy: Proxy, number: signal.Signals, restarts: int) -> Figures:
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


def show(title: str, figures: Figures) -> None:
    """Prints the results of the calls."""
    slowest = max(figures.slowest_seconds.values())
    lost = f"{len(figures.failures)} lost {sorted(set(figures.failures)) or ''}".rstrip()
    print(
        f"{title}: {figures.interruptions} restarts, {figures.calls.total()} calls, {lost}, slowest {slowest:.2f} s",
        flush=True,
    )


def show_streams(proxy: Proxy) -> None:
    """Prints how long streams take through a proxy, compared with direct ones in the same run."""
    array = np.arange(_STREAM_BYTES // 8, dtype=np.int64)
    with ExitStack() as stack, TemporaryDirectory() as folder:
        # The event engine, which a server uses for other machines. Otherwise the directly called servers would use
        # another one.
        servers = [stack.enter_context(run_server(env={"GRPC_EXPERIMENTS": "event_engine_listener"})) for _ in range(2)]
        through = stack.enter_context(run_proxy(proxy, [server.address for server in servers], Path(folder)))
        clients = [stack.enter_context(Client(address, timeout=120)) for address in (through, servers[0].address)]
        ratios = []
        for _ in range(_STREAMS):
            took = [time_stream(client, array) for client in clients]
            ratios.append(took[0] / took[1])
    print(f"{proxy.name}: a stream of {_STREAM_BYTES >> 20} MiB takes {median(ratios):.1f} times as long", flush=True)


def time_stream(client: Client, array: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> float:
    """Returns the seconds that the array takes to the server and back."""
    began = time.monotonic()
    client.reshape(array, [-1, 2], special_zero=False, transfer="stream")
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
