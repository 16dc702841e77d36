"""The choice of the I/O engine: which part of gRPC's core reads a server's connections.

- The *event engine* is gRPC's default. It reads connections on threads of its own. With the older *polling engine*, the
  serving thread reads all connections. A call then wakes no other thread, which makes small calls faster. However, one
  connection with expensive frames delays all others.
- `auto` therefore selects the polling engine only if no other machine can connect.
- gRPC's core reads the choice from the environment once, when it is imported. This module therefore does not import
  grpc. A value that the operator has set is not changed.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tensor_reshape.runtime import experiments
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.server.config import ConfigError

AUTO, EVENT, POLLING = "auto", "event", "polling"
# If this experiment is off, the polling engine reads the listeners and their connections. This was tested with the
# releases in `runtime.experiments`. tests/e2e/test_engines.py checks with the kernel which engine reads a socket.
_NO_EVENT_ENGINE = "-event_engine_listener"


class Engine(NamedTuple):
    """The chosen I/O engine.

    Attributes:
        name: EVENT or POLLING.
        experiments: the value to set for `GRPC_EXPERIMENTS`; None: not set.
        obstacle: why `auto` could not follow the addresses; empty if it could.
    """

    name: str
    experiments: str | None
    obstacle: str = ""


def choose_engine(asked: str, addresses: Iterable[str], variable: str | None, *, is_imported: bool) -> Engine:
    """Returns the engine for a server's addresses.

    Args:
        asked: AUTO, EVENT or POLLING.
        addresses: addresses in the form of `Config.listen`; they may be invalid.
        variable: the value of `GRPC_EXPERIMENTS`; None if it is not set.
        is_imported: whether grpc is already imported, so that the choice cannot be changed.

    Raises:
        ConfigError: the requested engine is not available.
    """
    found = POLLING if _NO_EVENT_ENGINE in [name.strip() for name in (variable or "").split(",")] else EVENT
    wanted = asked if asked != AUTO else POLLING if all(map(is_local, addresses)) else EVENT
    if wanted == found:
        return Engine(found, variable)
    obstacle = _find_obstacle(variable, is_imported=is_imported)
    if not obstacle:
        return Engine(POLLING, _NO_EVENT_ENGINE)  # without the variable, only the polling engine needs a change
    if asked != AUTO:
        message = f"--io-engine {asked} is not available: {obstacle}"
        raise ConfigError(message)
    return Engine(found, variable, obstacle)


def _find_obstacle(variable: str | None, *, is_imported: bool) -> str:
    """Returns why the variable cannot be changed, or would have no effect; empty if it can."""
    if variable:
        return f"the environment already has {experiments.VARIABLE}={variable}"
    if is_imported:
        return "grpc was imported before the server started, for example by an instrumentation"
    if not experiments.are_known():
        return f"grpcio {experiments.find_version()} was not tested with the polling engine"
    return ""
