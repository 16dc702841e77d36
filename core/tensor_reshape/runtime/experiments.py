"""Decides by the release of grpcio whether a server may change the experiments of gRPC's core.

- gRPC's core reads the environment variable `GRPC_EXPERIMENTS` once, when grpc is imported. This module does not import
  grpc, so that a server can set the variable first.
- gRPC may remove an experiment in any release, so a server changes experiments only for tested releases of grpcio.
"""

import re

VARIABLE = "GRPC_EXPERIMENTS"
"""The environment variable with the names of experiments, separated by commas. A minus before a name disables the
experiment.
"""

# These are the oldest and the newest supported release of grpcio. The end-to-end tests run with both of these releases,
# but not with the releases between them.
_TRIED = frozenset({(1, 80), (1, 85)})


def are_known() -> bool:
    """Whether a server may change experiments, because they were tested with the installed release of grpcio."""
    return find_release() in _TRIED


def find_release() -> tuple[int, int] | None:
    """Returns the release of the installed grpcio, such as (1, 85); None if the release is unknown."""
    found = re.match(r"(\d+)\.(\d+)\.", find_version())
    return (int(found[1]), int(found[2])) if found else None


def find_version() -> str:
    """Returns the version of the installed grpcio without importing grpc; empty if grpcio is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - a slow import

    try:
        return version("grpcio")
    except PackageNotFoundError:
        return ""
