"""What becomes of calls while hosts are cut off, hang, come and go.

- Calls are those of the SDK with its defaults, every answer is checked, and a call that fails is a problem.
- What a host has to do is read from its cable, so nobody has to say so.
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
"""How soon it must be noticed that a host is cut off: thrice what the SDK waits for it, as machines may be busy."""

MAX_HANG_SECONDS = 29.0
"""How soon it must be noticed that a server hangs: within the default timeout of a call."""

_PORT = 50051
_AGE_SECONDS = 3
_ARRAY = np.arange(4096, dtype=np.float32)
_REST_SECONDS = 0.02  # between two calls of a caller: there are four servers on this machine
_SOME_CALLS, _WARM_CALLS = 300, 60
_BUSY_BYTES = 100_000  # of what a host sends when it has calls; without any, it is less than 1 KB a second
_MAX_UNEVEN = 1.25
_LATE_SECONDS = 1.0  # no call takes so long where nothing is amiss
_LIMIT_SECONDS = 60.0


@dataclass
class Report:
    """What came of a scenario.

    Attributes:
        name: of the scenario.
        calls: how many were answered.
        failures: the kind and the error of each that was lost.
        slowest_seconds: the longest call.
        facts: what else was measured, by what it is.
    """

    name: str
    calls: int
    failures: list[str]
    slowest_seconds: float
    facts: dict[str, float] = field(default_factory=dict)

    def describe(self) -> str:
        """Returns one line for people."""
        facts = "".join(f", {name} {value:.2f}" for name, value in self.facts.items())
        lost = f"{len(self.failures)} lost {sorted(set(self.failures)) or ''}".rstrip()
        return f"{self.name}: {self.calls} calls, {lost}, slowest {self.slowest_seconds:.2f} s{facts}"

    def to_json(self) -> dict[str, object]:
        """Returns it as JSON has it."""
        return asdict(self)


@dataclass
class Site:
    """The hosts with their servers.

    Attributes:
        network: the hosts.
        names: answers for their name.
        servers: one for each host, in their order.
    """

    network: HostNetwork
    names: NameServer
    servers: list[ServerProcess]

    @property
    def addresses(self) -> list[str]:
        """Of the hosts that serve."""
        return [host.address for host in self.network.hosts[: len(self.servers)]]

    @property
    def target(self) -> str:
        """All of them, as `Client` takes it."""
        return "ipv4:" + ",".join(f"{address}:{_PORT}" for address in self.addresses)

    def measure_shares(self, work: Callable[[], None]) -> list[int]:
        """Returns what each host sends while there is this work."""
        hosts = self.network.hosts[: len(self.servers)]
        before = [self.network.count_bytes(host) for host in hosts]
        work()
        return [self.network.count_bytes(host) - start for host, start in zip(hosts, before, strict=True)]

    def await_load(self, host: Host) -> float:
        """Returns after how many seconds a host has calls."""
        start = self.network.count_bytes(host)
        return _await(lambda: self.network.count_bytes(host) - start > _BUSY_BYTES)


@contextmanager
def run_site(network: HostNetwork, count: int, *flags: str) -> Iterator[Site]:
    """Runs a server with these flags on so many hosts until the end of the block; all are in the name."""
    with ExitStack() as stack:
        hosts = network.hosts[:count]
        names = stack.enter_context(run_name_server(CALLER_ADDRESS, [host.address for host in hosts]))
        listens = [(host.command_prefix, (f"{host.address}:{_PORT}",)) for host in hosts]
        flags = ("--drain-seconds", "0.5", *flags)
        servers = [stack.enter_context(run_server(*flags, listen=listen, prefix=prefix)) for prefix, listen in listens]
        yield Site(network, names, servers)


def spread(site: Site) -> Report:
    """Calls go round all addresses of a name: each host sends as much as any other."""
    figures = Figures()
    with Client(_name_target()) as client:
        # The first connection is there before the others, and calls go round those that are.
        _await(lambda: min(site.measure_shares(lambda: _call(client, figures, 9))) > _ARRAY.nbytes)
        shares = site.measure_shares(lambda: _call(client, figures, _SOME_CALLS))
    uneven = max(shares) / min(shares)
    if uneven > _MAX_UNEVEN:
        figures.failures.append(f"the hosts sent {shares} bytes")
    return _report("spread", figures, {"most to least": uneven})


def cut_off(site: Site) -> Report:
    """A host is cut off under load; its calls go elsewhere, and it has some again when it is back."""
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
    report = _report("cut off", figures, {"noticed by all after": noticed, "slowest then": after, "back after": back})
    return _check_slowest(report, slowest, MAX_NOTICE_SECONDS)


def hang(site: Site) -> Report:
    """A server hangs, on a host that is there: its calls go elsewhere before their timeout."""
    figures, process = Figures(), site.servers[0].process
    with keep_calling(site.target, figures, rest_seconds=_REST_SECONDS):
        figures.await_calls(_WARM_CALLS)
        os.kill(process.pid, signal.SIGSTOP)
        noticed = _await_late_calls(figures)
        slowest = _forget_slowest(figures)
        os.kill(process.pid, signal.SIGCONT)
    return _check_slowest(_report("hang", figures, {"noticed by all after": noticed}), slowest, MAX_HANG_SECONDS)


def grow(site: Site) -> Report:
    """A host is added to the name: it has calls once connections are old, and clients look the name up."""
    added, figures = site.network.hosts[len(site.servers) - 1], Figures()
    site.names.hosts = tuple(site.addresses[:-1])
    with keep_calling(_name_target(), figures, rest_seconds=_REST_SECONDS):
        figures.await_calls(_WARM_CALLS)
        site.names.hosts = tuple(site.addresses)
        found = site.await_load(added)
    return _report("grow", figures, {"oldest connection": _AGE_SECONDS, "added host has calls after": found})


def replace(site: Site) -> Report:
    """All hosts are replaced, one after the other, by others; as pods with new addresses are."""
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
"""Scenarios of three hosts, by name."""

CHANGING = {"grow": grow, "replace": replace}
"""Scenarios of four hosts, whose connections grow old; the last one ends some of the servers."""

NAMES = (*STEADY, *CHANGING)


def run_scenarios(network: HostNetwork, names: Sequence[str]) -> Iterator[Report]:
    """Runs the scenarios of these names."""
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
    """Returns after how many seconds a condition holds."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > _LIMIT_SECONDS:
            message = f"nothing came of it in {_LIMIT_SECONDS} s"
            raise TimeoutError(message)
        time.sleep(0.02)
    return time.monotonic() - began


def _await_late_calls(figures: Figures) -> float:
    """Returns after how many seconds each kind of caller has had a call that was late, or failed."""
    kinds = set(figures.calls)

    def find() -> bool:
        late = {kind for kind, seconds in figures.slowest_seconds.items() if seconds > _LATE_SECONDS}
        return kinds <= late | {failure.partition(":")[0] for failure in figures.failures}

    return _await(find)


def _forget_slowest(figures: Figures) -> float:
    """Returns the longest call so far, and begins to look for it anew."""
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
