"""Experiments of gRPC's core that this project switches off, where the environment leaves it the choice.

- The core reads `GRPC_EXPERIMENTS` once, when grpc is imported. Nothing here imports it.
- The names are no promise of gRPC: each may vanish with any release, and the core then ignores it. So they count for
  those releases alone that they were tried with.
"""

import re
from importlib.metadata import PackageNotFoundError, version

VARIABLE = "GRPC_EXPERIMENTS"
"""Names separated by commas; one with a minus before it is switched off."""

NO_CLIENT_ENGINE = "-event_engine_client"
"""Whoever waits for an answer reads the connection, in place of a thread of the event engine."""

NO_LISTENER_ENGINE = "-event_engine_listener"
"""The thread that serves calls reads all of a server's connections, in place of the threads of the event engine."""

_TRIED = ((1, 80), (1, 85))
"""The first and the last release of grpcio that both names were tried with: by what reads a socket then."""


def are_known() -> bool:
    """Whether the installed grpcio is of a release that the names were tried with."""
    first, last = _TRIED
    found = re.match(r"(\d+)\.(\d+)", find_version())
    return found is not None and first <= (int(found[1]), int(found[2])) <= last


def find_version() -> str:
    """Returns the version of the installed grpcio, without importing it; empty where nothing says."""
    try:
        return version("grpcio")
    except PackageNotFoundError:
        return ""


def split_names(value: str | None) -> tuple[str, ...]:
    """Returns the names in the value of the variable, as the core reads them."""
    return tuple(name for name in map(str.strip, (value or "").split(",")) if name)
