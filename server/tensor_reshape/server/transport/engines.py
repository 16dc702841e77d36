"""Which of the two engines of gRPC's core reads a server's connections.

- The *event engine* is gRPC's own choice: threads of its own read the connections. The older *polling engine* has the
  thread that serves calls read them all. No other thread is woken for a call then, which makes small calls faster; but
  one connection whose frames cost that thread much keeps all others waiting.
- So `auto` takes the polling engine only where nobody can call from another machine.
- The choice is made by the environment, before grpc is imported, so nothing here imports it. What the operator has set
  there is left as it is.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tensor_reshape.runtime import experiments
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.runtime.experiments import NO_CLIENT_ENGINE, NO_LISTENER_ENGINE
from tensor_reshape.server.config import ConfigError

AUTO, EVENT, POLLING = "auto", "event", "polling"
# A value of these alone is this project's own, the SDK's or the server's: no wish of an operator's is overridden.
_OWN_NAMES = frozenset({NO_CLIENT_ENGINE, NO_LISTENER_ENGINE})


class Engine(NamedTuple):
    """The engine that a server is to have.

    Attributes:
        name: EVENT or POLLING.
        experiments: the value that `GRPC_EXPERIMENTS` is to have for that; None: none.
        obstacle: why it is not the one that goes with the addresses; empty where it is.
    """

    name: str
    experiments: str | None
    obstacle: str = ""


def choose_engine(asked: str, addresses: Iterable[str], variable: str | None) -> Engine:
    """Returns the engine for a server's addresses.

    Args:
        asked: AUTO, EVENT or POLLING.
        addresses: as `Config.listen` has them; they may be wrong.
        variable: the value that `GRPC_EXPERIMENTS` has; None: none.

    Raises:
        ConfigError: the engine that was asked for cannot be had.
    """
    names = experiments.split_names(variable)
    found = POLLING if NO_LISTENER_ENGINE in names else EVENT
    wanted = _choose_by_addresses(addresses) if asked == AUTO else asked
    if wanted == found:
        return Engine(found, variable)
    obstacle = _find_obstacle(found, names)
    if not obstacle:
        return Engine(wanted, ",".join((*names, NO_LISTENER_ENGINE)))
    if asked != AUTO:
        message = f"--engine {asked} cannot be had: {obstacle}"
        raise ConfigError(message)
    return Engine(found, variable, obstacle)


def _choose_by_addresses(addresses: Iterable[str]) -> str:
    return POLLING if all(map(is_local, addresses)) else EVENT


def _find_obstacle(found: str, names: tuple[str, ...]) -> str:
    """Returns why the engine cannot be another than the one found; empty where it can."""
    # Polling is found where an operator has asked for it by this very name, or a server that called this very program.
    if found == POLLING or not _OWN_NAMES.issuperset(names):
        return f"{experiments.VARIABLE}={','.join(names)} is left as it is"
    if not experiments.are_known():
        return f"grpcio {experiments.find_version()} was not tried with the polling engine"
    return ""
