"""Which of the two engines of gRPC's core reads a server's connections.

- The *event engine* is gRPC's own choice: threads of its own read the connections. The older *polling engine* has the
  thread that serves calls read them all. No other thread is woken for a call then, which makes small calls faster; but
  one connection whose frames cost that thread much keeps all others waiting.
- So `auto` takes the polling engine only where nobody can call from another machine.
- gRPC's core reads the choice from the environment once, when it is imported, so nothing here imports it. What the
  operator has set there is left as it is.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tensor_reshape.runtime import experiments
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.server.config import ConfigError

AUTO, EVENT, POLLING = "auto", "event", "polling"
# Without this experiment the polling engine has the listeners, and all that they accept. It was tried with the releases
# that `runtime.experiments` knows; which engine a socket waits in, the kernel says (tests/e2e/test_engines.py).
_NO_EVENT_ENGINE = "-event_engine_listener"


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


def choose_engine(asked: str, addresses: Iterable[str], variable: str | None, *, is_imported: bool) -> Engine:
    """Returns the engine for a server's addresses.

    Args:
        asked: AUTO, EVENT or POLLING.
        addresses: as `Config.listen` has them; they may be wrong.
        variable: the value that `GRPC_EXPERIMENTS` has; None: none.
        is_imported: whether grpc is imported already, so that nothing can be changed.

    Raises:
        ConfigError: the engine that was asked for cannot be had.
    """
    found = POLLING if _NO_EVENT_ENGINE in [name.strip() for name in (variable or "").split(",")] else EVENT
    wanted = asked if asked != AUTO else POLLING if all(map(is_local, addresses)) else EVENT
    if wanted == found:
        return Engine(found, variable)
    obstacle = _find_obstacle(variable, is_imported=is_imported)
    if not obstacle:
        return Engine(POLLING, _NO_EVENT_ENGINE)  # no other is wanted where the variable is empty
    if asked != AUTO:
        message = f"--io-engine {asked} cannot be had: {obstacle}"
        raise ConfigError(message)
    return Engine(found, variable, obstacle)


def _find_obstacle(variable: str | None, *, is_imported: bool) -> str:
    """Returns why the variable cannot be changed, or would not help; empty where it can and does."""
    if variable:
        return f"{experiments.VARIABLE}={variable} is left as it is"
    if is_imported:
        return "grpc was imported before the server was started, as by an instrumentation"
    if not experiments.are_known():
        return f"grpcio {experiments.find_version()} was not tried with the polling engine"
    return ""
