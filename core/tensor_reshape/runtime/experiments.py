"""Experiments of gRPC's core: where they are named, and the releases of grpcio with which servers may change them.

- The core reads `GRPC_EXPERIMENTS` once, when grpc is imported. Nothing here imports it.
- The names are no promise of gRPC: each may vanish with any release. So they count for those alone that were tried.
"""

import re

VARIABLE = "GRPC_EXPERIMENTS"
"""Names separated by commas; one with a minus before it is switched off."""

# The oldest and the newest: end-to-end tests run with both. Those in between know the names too, but how servers fare
# with them has not been seen.
_TRIED = frozenset({(1, 80), (1, 85)})


def are_known() -> bool:
    """Whether the installed grpcio is of a release that was tried."""
    return find_release() in _TRIED


def find_release() -> tuple[int, int] | None:
    """Returns the release of the installed grpcio, as in (1, 85); None where nothing says."""
    found = re.match(r"(\d+)\.(\d+)\.", find_version())
    return (int(found[1]), int(found[2])) if found else None


def find_version() -> str:
    """Returns the version of the installed grpcio, without importing it; empty where nothing says."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - it takes longer than all else here

    try:
        return version("grpcio")
    except PackageNotFoundError:
        return ""
