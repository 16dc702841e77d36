"""The definition of an attack, and the bounds of its effect on well-behaved clients."""

from collections.abc import Callable
from typing import NamedTuple


class Bounds(NamedTuple):
    """The largest allowed effect of an attack on well-behaved clients, which use other connections.

    Calls of the SDK may never be rejected, and no call may be lost.

    Attributes:
        p50_ms: median time of a call, of raw clients and the SDK together.
        p99_ms: 99th percentile of the same times.
        health_p99_ms: 99th percentile of the time of health checks.
        http_p99_ms: 99th percentile of the time of calls over HTTP.
        rejections: number of rejected calls of raw clients.
        recovery_seconds: time from the end of the attack to the end of the last slow or failed call.
        memory_mib: memory of the server in addition to that before the attack.
    """

    p50_ms: float = 50.0
    p99_ms: float = 100.0
    health_p99_ms: float = 100.0
    http_p99_ms: float = 100.0
    rejections: float = 0
    recovery_seconds: float = 1.0
    memory_mib: float = 1024 * 1.15  # the default budget and losses of the allocator


ONE, MANY = Bounds(), Bounds(p50_ms=100, p99_ms=500, http_p99_ms=500, rejections=float("inf"))
EDGE = Bounds(memory_mib=64)
"""Bounds of attacks that do not reach the server if a proxy is in front of it."""


class Attack(NamedTuple):
    """One attack with its number of connections and its bounds.

    Attributes:
        run: attacks an address until its process ends.
        connections: how many threads run it at the same time. Each may open more than one connection.
        bounds: the largest allowed effect on other clients.
        is_http: whether it attacks the HTTP port, which the proxies do not forward.
        needs_proxy: whether only a proxy stops it.
        least_seconds: the shortest duration that shows its effect.
        number: the number of calls on each connection; 0: the default of the attack.
        has_shared_address: whether the attacker has the address of the well-behaved clients.
    """

    run: Callable[..., None]
    connections: int = 1
    bounds: Bounds = ONE
    is_http: bool = False
    needs_proxy: bool = False
    least_seconds: float = 0.0
    number: int = 0
    has_shared_address: bool = False

    @property
    def name(self) -> str:
        name = self.run.__name__.replace("_", "-") + (f"-{self.connections}" if self.connections > 1 else "")
        return name + (f"x{self.number}" if self.number else "") + ("-shared" if self.has_shared_address else "")

    def attack(self, address: str) -> None:
        """Attacks an address until the server closes the connection."""
        self.run(address, *([self.number] if self.number else []))

    @property
    def sentence(self) -> str:
        sentence = " ".join((self.run.__doc__ or "").split())
        if self.number:
            sentence = f"{sentence[:-1]}, but {self.number} at once."
        if self.has_shared_address:
            sentence = f"{sentence[:-1]}, from the address of the other clients."
        if self.connections == 1:
            return sentence
        return f"On each of {self.connections} connections, {sentence[0].lower()}{sentence[1:]}"
