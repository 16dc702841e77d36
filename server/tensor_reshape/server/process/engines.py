"""Checks the release of gRPC's core, and chooses its I/O engine, which is the part that reads a server's connections.

- The *event engine* is gRPC's default. The event engine reads connections on its own threads. With the older *polling
  engine*, the server's receiving thread reads all connections. With the polling engine, a call wakes no other thread,
  which makes small calls faster. However, with the polling engine, a connection with expensive frames delays all other
  connections.
- The server therefore chooses the polling engine only if other machines cannot connect to the server.
- gRPC's core reads the choice of the engine from the environment variable GRPC_EXPERIMENTS once, when grpc is imported.
  This module therefore does not import grpc. If the operator has set GRPC_EXPERIMENTS, this module does not change its
  value.
"""

import os
import sys
from collections.abc import Iterable

from tensor_reshape.runtime import experiments
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.server.config import ConfigError

FIRST_RELEASE, NEXT_RELEASE = (1, 80), (1, 86)
"""The first tested release, and the first newer release that is not tested. `pyproject.toml` has the same bounds."""

TESTED = "grpcio>={}.{},<{}.{}".format(*FIRST_RELEASE, *NEXT_RELEASE)
"""The requirement for a tested release, in the form that pip accepts."""

# The minus sign turns this gRPC experiment off, so that the polling engine reads the listeners and their connections.
# This setting was tested with the releases of grpcio that `runtime.experiments` lists. The test
# tests/e2e/test_engines.py checks which engine a running server uses.
_NO_EVENT_ENGINE = "-event_engine_listener"


def check_release() -> None:
    """Raises ConfigError if the installed release of grpcio is not tested."""
    release = experiments.find_release()
    if release is None or not FIRST_RELEASE <= release < NEXT_RELEASE:
        version = experiments.find_version() or "of an unknown version"
        message = f"grpcio {version} was not tested with this server. Run pip install '{TESTED}'"
        raise ConfigError(message)


def choose_engine(addresses: Iterable[str]) -> None:
    """Selects the polling engine through GRPC_EXPERIMENTS, if other machines cannot reach any of the addresses.

    Does nothing if the installed release of gRPC was not tested with this engine, if the operator has set
    GRPC_EXPERIMENTS, or if grpc is already imported. The addresses have the form of `Config.listen`, and may be
    invalid.
    """
    is_free = not os.environ.get(experiments.VARIABLE) and "grpc" not in sys.modules  # noqa: TID251
    if is_free and experiments.are_known() and all(map(is_local, addresses)):
        os.environ[experiments.VARIABLE] = _NO_EVENT_ENGINE  # noqa: TID251


def name_engine() -> str:
    """Returns the name of the I/O engine that GRPC_EXPERIMENTS selects, which is "event" or "polling"."""
    names = os.environ.get(experiments.VARIABLE, "").split(",")  # noqa: TID251
    return "polling" if _NO_EVENT_ENGINE in [name.strip() for name in names] else "event"
