"""Scenarios in which hosts are disconnected, hang, are added and are replaced.

- The calls are those of the SDK with its defaults. Every result is checked, and a call that fails is a problem.
- The load of a host is measured at its network interface, so no server has to report it.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field

import numpy as np

from host_networks import CALLER_ADDRESS, Host, HostNetwork
from interruptions import Figures, keep_calling
from name_servers import NAME, NameServer, run_name_server
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client

MAX_NOTICE_SECONDS = 24.0
"""The limit for detecting a disconnected host: three times the SDK's timeout, because machines may be busy."""

MAX_HANG_SECONDS = 29.0
"""The limit for detecting a server that hangs: the default timeout of a call."""

_PORT = 50051
_AGE_SECONDS = 3
_ARRAY = np.arange(4096, dtype=np.float32)
_REST_SECONDS = 0.02  # between two calls of a caller, because four servers share this machine
_SOME_CALLS, _WARM_CALLS = 300, 60
_BUSY_BYTES = 100_000  # sent by a host with calls; a host without calls sends less than 1 KB a second
_MAX_UNEVEN = 1.25
_LATE_SECONDS = 1.0  # longer than any call without a failure
_LIMIT_SECONDS = 60.0


@dataclass
class Report:
    """The result of a scenario.

    Attributes:
        name: the name of the scenario.
        calls: the number of successful calls.
        failures: the kind and the error of each lost call.
        slowest_seconds: the duration of the longest call.
        facts: other measurements by name.
    """

    name: str
    calls: int
    failures: list[str]
    slowest_seconds: float
    facts: dict[str, float] = field(default_factory=dict)

    def describe(self) -> str:
        """Returns one line of text."""
        facts = "".join(f", {name} {value:.2f}" for name, value in self.facts.items())
        lost = f"{len(self.failures)} lost {sorted(set(self.failures)) or ''}".rstrip()
        return f"{self.name}: {self.calls} calls, {lost}, slowest {self.slowest_seconds:.2f} s{facts}"

    def to_json(self) -> dict[str, object]:
        """Returns the report as a JSON object."""
        return asdict(self)


@dataclass
class Site:
    """The hosts with their servers.

    Attributes:
        network: the hosts.
        names: the name server that resolves their name.
        servers: one server for each host, in order.
    """

    network: HostNetwork
    names: NameServer
    servers: list[ServerProcess]

    @property
    def addresses(self) -> list[str]:
        """The addresses of the hosts with servers."""
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
        return _await(lambda: self.network.count_bytes(host) - start > _BUSY_BYTES)


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
    with Client(_name_target()) as client:
        # Wait until all hosts have connections: the first connection is ready before the others, and takes all calls.
        _await(lambda: min(site.measure_shares(lambda: _call(client, figures, 9))) > _ARRAY.nbytes)
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
    with keep_calling(_name_target(), figures, rest_seconds=_REST_SECONDS):
        figures.await_calls(_WARM_CALLS)
        site.names.hosts = tuple(site.addresses)
        found = site.await_load(added)
    return _report("grow", figures, {"oldest connection": _AGE_SECONDS, "added host has calls after": found})


def replace(site: Site) -> Report:
    """Replaces all hosts by others, one after the other, like pods that get new addresses."""
    figures, half = Figures(), len(site.servers) // 2
    current = site.addresses[:half]
    site.names.hosts = tuple(current)
    with keep_calling(_name_target(), figures, rest_seconds=_REST_SECONDS):
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


def run_scenarios(network: HostNetwork, names: Sequence[str]) -> Iterator[Report]:
    """Runs the named scenarios."""
    groups = [(3, (), STEADY), (4, ("--max-connection-age-seconds", str(_AGE_SECONDS)), CHANGING)]
    for count, flags, scenarios in groups:
        wanted = [scenario for name, scenario in scenarios.items() if name in names]
        if wanted:
            with run_site(network, count, *flags) as site:
                yield from (scenario(site) for scenario in wanted)


def _call(client: Client, figures: Figures, count: int) -> None:
    for _ in range(count):
        began = time.monotonic()
        client.static_reshape(_ARRAY, [-1], special_zero=False)
        figures.note_call("unary", time.monotonic() - began)


def _name_target() -> str:
    return f"dns:///{NAME}:{_PORT}"


def _await(condition: Callable[[], bool]) -> float:
    """Returns the number of seconds until a condition holds."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > _LIMIT_SECONDS:
            message = f"the condition did not hold within {_LIMIT_SECONDS} s"
            raise TimeoutError(message)
        time.sleep(0.02)
    return time.monotonic() - began


def _await_late_calls(figures: Figures) -> float:
    """Returns the number of seconds until each kind of caller has had a call that was late or failed."""
    kinds = set(figures.calls)

    def find() -> bool:
        late = {kind for kind, seconds in figures.slowest_seconds.items() if seconds > _LATE_SECONDS}
        return kinds <= late | {failure.partition(":")[0] for failure in figures.failures}

    return _await(find)


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
