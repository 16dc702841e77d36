"""Runs hosts with servers and a client host in network namespaces, and measures the calls when hosts fail.

Hosts are disconnected, hang, are added and are replaced. The calls are those of the SDK with its defaults. Every result
is checked, and a call that fails is a problem. The load of a host is measured at its network interface, so no server
has to report it. The run passes if no call is lost and all failures are detected in time. `--json` prints the
measurements as JSON.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field

import numpy as np

from interruptions import Figures, keep_calling
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client
from verification.host_networks import (
    CALLER_ADDRESS,
    NAME,
    Host,
    HostNetwork,
    NameServer,
    build_command,
    build_environment,
    find_obstacle,
    run_name_server,
)
from waits import await_that

MAX_NOTICE_SECONDS = 24.0
"""The limit for detecting a disconnected host: three times the SDK's timeout, because machines may be busy."""

MAX_HANG_SECONDS = 29.0
"""The limit for detecting a server that hangs: the default timeout of a call."""

_PORT = 50051
_TARGET = f"dns:///{NAME}:{_PORT}"
_AGE_SECONDS = 3
_AGING = ("--max-connection-age-seconds", str(_AGE_SECONDS))
_ARRAY = np.arange(4096, dtype=np.float32)
_REST_SECONDS = 0.02  # between two calls of a caller, because four servers share this machine
_SOME_CALLS, _WARM_CALLS = 300, 60
_BUSY_BYTES = 100_000  # sent by a host with calls; a host without calls sends less than 1 KB a second
_MAX_UNEVEN = 1.25
_LATE_SECONDS = 1.0  # longer than any call without a failure


@dataclass
class Report:
    name: str  # the name of the scenario
    calls: int  # the number of successful calls
    failures: list[str]  # the kind and the error of each lost call
    slowest_seconds: float  # the duration of the longest call
    facts: dict[str, float] = field(default_factory=dict)  # other measurements by name

    def describe(self) -> str:
        facts = "".join(f", {name} {value:.2f}" for name, value in self.facts.items())
        lost = f"{len(self.failures)} lost {sorted(set(self.failures)) or ''}".rstrip()
        return f"{self.name}: {self.calls} calls, {lost}, slowest {self.slowest_seconds:.2f} s{facts}"


@dataclass
class Site:
    """The hosts with their servers."""

    network: HostNetwork  # the hosts
    names: NameServer  # the name server that resolves their name
    servers: list[ServerProcess]  # one server for each host, in order

    @property
    def addresses(self) -> list[str]:
        return [host.address for host in self.network.hosts[: len(self.servers)]]

    @property
    def target(self) -> str:
        """All addresses, as a target for `Client`."""
        return "ipv4:" + ",".join(f"{address}:{_PORT}" for address in self.addresses)

    def measure_shares(self, work: Callable[[], None]) -> list[int]:
        """Returns the bytes that each host sends during this work."""
        hosts = self.network.hosts[: len(self.servers)]
        before = [self.network.count_bytes(host) for host in hosts]
        work()
        return [self.network.count_bytes(host) - start for host, start in zip(hosts, before, strict=True)]

    def await_load(self, host: Host) -> float:
        """Returns the number of seconds until a host has calls."""
        start = self.network.count_bytes(host)
        return await_that(lambda: self.network.count_bytes(host) - start > _BUSY_BYTES)


@contextmanager
def run_site(network: HostNetwork, count: int, *flags: str) -> Iterator[Site]:
    """Runs a server on each of `count` hosts until the end of the block; the name has all their addresses."""
    with ExitStack() as stack:
        hosts = network.hosts[:count]
        names = stack.enter_context(run_name_server(CALLER_ADDRESS, [host.address for host in hosts]))
        listens = [(host.command_prefix, (f"{host.address}:{_PORT}",)) for host in hosts]
        flags = ("--drain-seconds", "0.5", *flags)
        servers = [stack.enter_context(run_server(*flags, listen=listen, prefix=prefix)) for prefix, listen in listens]
        yield Site(network, names, servers)


def spread(site: Site) -> Report:
    """Checks that calls are balanced over all addresses of a name: each host sends about the same number of bytes."""
    figures = Figures()
    with Client(_TARGET) as client:
        # Wait until all hosts have connections: the first connection is ready before the others, and takes all calls.
        await_that(lambda: min(site.measure_shares(lambda: _call(client, figures, 9))) > _ARRAY.nbytes)
        shares = site.measure_shares(lambda: _call(client, figures, _SOME_CALLS))
    uneven = max(shares) / min(shares)
    if uneven > _MAX_UNEVEN:
        figures.failures.append(f"the hosts sent {shares} bytes")
    return _report("spread", figures, {"most to least": uneven})


def cut_off(site: Site) -> Report:
    """Disconnects a host under load. Its calls move to the other hosts, and it gets calls again after it reconnects."""
    host, figures = site.network.hosts[0], Figures()
    with keep_calling(site.target, figures, rest_seconds=_REST_SECONDS):
        figures.await_calls(_WARM_CALLS)
        site.network.cut_off(host)
        noticed = _await_late_calls(figures)
        slowest = _forget_slowest(figures)
        figures.await_calls(_SOME_CALLS)
        after = max(figures.slowest_seconds.values())
        site.network.reconnect(host)
        back = site.await_load(host)
    report = _report("cut off", figures, {"detected by all after": noticed, "slowest then": after, "back after": back})
    return _check_slowest(report, slowest, MAX_NOTICE_SECONDS)


def hang(site: Site) -> Report:
    """Stops a server's process on a host that stays connected. Its calls move to other hosts before their timeout."""
    figures, process = Figures(), site.servers[0].process
    with keep_calling(site.target, figures, rest_seconds=_REST_SECONDS):
        figures.await_calls(_WARM_CALLS)
        os.kill(process.pid, signal.SIGSTOP)
        noticed = _await_late_calls(figures)
        slowest = _forget_slowest(figures)
        os.kill(process.pid, signal.SIGCONT)
    return _check_slowest(_report("hang", figures, {"detected by all after": noticed}), slowest, MAX_HANG_SECONDS)


def grow(site: Site) -> Report:
    """Adds a host to the name. It gets calls after connections reach their maximum age and clients resolve the name."""
    added, figures = site.network.hosts[len(site.servers) - 1], Figures()
    site.names.hosts = tuple(site.addresses[:-1])
    with keep_calling(_TARGET, figures, rest_seconds=_REST_SECONDS):
        figures.await_calls(_WARM_CALLS)
        site.names.hosts = tuple(site.addresses)
        found = site.await_load(added)
    return _report("grow", figures, {"oldest connection": _AGE_SECONDS, "added host has calls after": found})


def replace(site: Site) -> Report:
    """Replaces all hosts by others, one after the other, like pods that get new addresses."""
    figures, half = Figures(), len(site.servers) // 2
    current = site.addresses[:half]
    site.names.hosts = tuple(current)
    with keep_calling(_TARGET, figures, rest_seconds=_REST_SECONDS):
        figures.await_calls(_WARM_CALLS)
        for server, following in zip(site.servers, site.addresses[half:], strict=False):
            current = [*current[1:], following]
            site.names.hosts = tuple(current)
            server.stop()
        figures.await_calls(_WARM_CALLS)
    return _report("replace", figures, {"look-ups": site.names.questions})


STEADY = {"spread": spread, "cut off": cut_off, "hang": hang}
"""The scenarios with three hosts, by name."""

CHANGING = {"grow": grow, "replace": replace}
"""The scenarios with four hosts and a maximum connection age. The last one stops some of the servers."""

NAMES = (*STEADY, *CHANGING)


def _call(client: Client, figures: Figures, count: int) -> None:
    for _ in range(count):
        began = time.monotonic()
        client.static_reshape(_ARRAY, [-1], special_zero=False)
        figures.note_call("unary", time.monotonic() - began)


def _await_late_calls(figures: Figures) -> float:
    """Returns the number of seconds until each kind of caller has had a call that was late or failed."""
    kinds = set(figures.calls)

    def find() -> bool:
        late = {kind for kind, seconds in figures.slowest_seconds.items() if seconds > _LATE_SECONDS}
        return kinds <= late | {failure.partition(":")[0] for failure in figures.failures}

    return await_that(find, pause_seconds=0.02)


def _forget_slowest(figures: Figures) -> float:
    """Returns the duration of the longest call so far, and resets it."""
    slowest = max(figures.slowest_seconds.values())
    figures.slowest_seconds = {}
    return slowest


def _report(name: str, figures: Figures, facts: dict[str, float]) -> Report:
    return Report(name, figures.calls.total(), figures.failures, max(figures.slowest_seconds.values()), facts)


def _check_slowest(report: Report, seconds: float, limit: float) -> Report:
    report.slowest_seconds = seconds
    if seconds > limit:
        report.failures.append(f"a call took {seconds:.2f} s; {limit:g} s is the limit")
    return report


def main() -> int:
    """Runs the scenarios. The status is 1 if a scenario fails."""
    parser = argparse.ArgumentParser("scripts/verify hosts", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="scenarios")
    parser.add_argument("--json", action="store_true", help="print one line of JSON for each scenario")
    # This process already has its namespaces.
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        return run(arguments.only, as_json=arguments.json)
    if obstacle := find_obstacle():
        sys.exit(obstacle)
    command = build_command(sys.executable, "-m", "verification.hosts", "--inside", *sys.argv[1:])
    return subprocess.run(command, env=build_environment(), check=False).returncode


def run(names: Sequence[str], *, as_json: bool) -> int:
    network, lost = HostNetwork(4), 0
    for count, flags, scenarios in ((3, (), STEADY), (4, _AGING, CHANGING)):
        wanted = [scenario for name, scenario in scenarios.items() if name in names]
        if wanted:
            with run_site(network, count, *flags) as site:
                for report in (scenario(site) for scenario in wanted):
                    print(json.dumps(asdict(report)) if as_json else report.describe(), flush=True)
                    lost += len(report.failures)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
