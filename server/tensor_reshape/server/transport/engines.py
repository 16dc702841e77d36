"""Chooses the I/O engine, which is the part of gRPC's core that reads the connections of a server.

- The *event engine* is gRPC's default. The event engine reads connections on its own threads. With the older *polling
  engine*, the server's receiving thread reads all connections. With the polling engine, a call wakes no other thread,
  which makes small calls faster. However, with the polling engine, a connection with expensive frames delays all other
  connections.
- The setting `auto` therefore selects the polling engine only if no other machine can connect.
- gRPC's core reads the choice from the environment variable GRPC_EXPERIMENTS once, when grpc is imported. This module
  therefore does not import grpc. If the operator has set GRPC_EXPERIMENTS, this module does not change its value.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tensor_reshape.runtime import experiments
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.server.config import ConfigError

AUTO, EVENT, POLLING = "auto", "event", "polling"
# The minus sign turns this gRPC experiment off, so that the polling engine reads the listeners and their connections.
# This setting was tested with the releases of grpcio that `runtime.experiments` lists. The test
# tests/e2e/test_engines.py checks which engine a running server uses.
_NO_EVENT_ENGINE = "-event_engine_listener"


class Engine(NamedTuple):
    """The chosen I/O engine.

    Attributes:
        name: EVENT or POLLING.
        experiments: the value that the variable `GRPC_EXPERIMENTS` must have, or None if it must not be set.
        obstacle: the reason why the best engine for the addresses could not be chosen, or an empty text.
    """

    name: str
    experiments: str | None
    obstacle: str = ""


def choose_engine(requested: str, addresses: Iterable[str], variable: str | None, *, is_imported: bool) -> Engine:
    """Returns the engine for a server with these addresses.

    Args:
        requested: AUTO, EVENT or POLLING.
        addresses: addresses in the form of `Config.listen`, which may be invalid.
        variable: the value of `GRPC_EXPERIMENTS`, or None if the variable is not set.
        is_imported: whether grpc is already imported, so that the engine can no longer be changed.

    Raises:
        ConfigError: the requested engine is not available.
    """
    found = POLLING if _NO_EVENT_ENGINE in [name.strip() for name in (variable or "").split(",")] else EVENT
    wanted = requested if requested != AUTO else POLLING if all(map(is_local, addresses)) else EVENT
    if wanted == found:
        return Engine(found, variable)
    obstacle = _find_obstacle(variable, is_imported=is_imported)
    if not obstacle:
        # If the variable GRPC_EXPERIMENTS is not set, the current I/O engine is the event engine. The wanted engine
        # differs from the current one, so it is the polling engine.
        return Engine(POLLING, _NO_EVENT_ENGINE)
    if requested != AUTO:
        message = f"--io-engine {requested} is not available: {obstacle}"
        raise ConfigError(message)
    return Engine(found, variable, obstacle)


def _find_obstacle(variable: str | None, *, is_imported: bool) -> str:
    """Returns the reason why `GRPC_EXPERIMENTS` cannot be changed or a change would have no effect, or ""."""
    if variable:
        return f"the environment already has {experiments.VARIABLE}={variable}"
    if is_imported:
        return "grpc was imported before the server started, for example by an instrumentation"
    if not experiments.are_known():
        return f"grpcio {experiments.find_version()} was not tested with the polling engine"
    return ""
