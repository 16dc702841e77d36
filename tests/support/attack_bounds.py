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
        is_http: whether it attacks the port of JSON over HTTP, which the proxies do not forward.
        needs_proxy: whether only a proxy stops it.
        least_seconds: the shortest duration that shows its effect.
    """

    run: Callable[[str], None]
    connections: int = 1
    bounds: Bounds = ONE
    is_http: bool = False
    needs_proxy: bool = False
    least_seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.run.__name__.replace("_", "-") + (f"-{self.connections}" if self.connections > 1 else "")

    @property
    def sentence(self) -> str:
        sentence = " ".join((self.run.__doc__ or "").split())
        if self.connections == 1:
            return sentence
        return f"On each of {self.connections} connections, {sentence[0].lower()}{sentence[1:]}"
