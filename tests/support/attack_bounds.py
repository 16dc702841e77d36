"""What an attack is, and what polite clients may see of it."""

from collections.abc import Callable
from typing import NamedTuple


class Bounds(NamedTuple):
    """What polite clients on other connections must see at the most.

    Attributes:
        p50_ms: of calls, raw and SDK together.
        p99_ms: of the same.
        health_p99_ms: of health checks.
        rejections: of raw calls. Of the SDK's there is none in any attack, and no call is ever lost.
        recovery_seconds: after the end of the attack, until the last slow or failed call is over.
        memory_mib: of the server, besides what it had before.
    """

    p50_ms: float = 50.0
    p99_ms: float = 100.0
    health_p99_ms: float = 100.0
    rejections: float = 0
    recovery_seconds: float = 1.0
    memory_mib: float = 1024 * 1.15  # the budget by default, and what the allocator loses


ONE, MANY = Bounds(), Bounds(p50_ms=100, p99_ms=500, rejections=float("inf"))
EDGE = Bounds(memory_mib=64)
"""Of attacks that do not reach the server if there is a proxy in front of it."""


class Attack(NamedTuple):
    """One attack: what it does, on how many connections at once, and within which bounds.

    Attributes:
        run: goes on for ever with an address.
        connections: how many do it at once; `run` may open more than one.
        bounds: what others must see at the most.
        is_http: whether it is for the port of JSON over HTTP, which the proxies do not forward.
        needs_proxy: whether only a proxy stops it.
        least_seconds: how long it must go on to show what it does.
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
        crowd = f" {self.connections} connections do it at once." if self.connections > 1 else ""
        return f"{(self.run.__doc__ or '').strip()}{crowd}"
