"""The private parts of grpcio that the package `grpc` uses, and the tested releases of grpcio.

- One private part is the attribute `_credentials` of `grpc.ServerCredentials`. All other private parts are in
  `grpc._cython.cygrpc`, which grpcio's own server also uses.
- `check_release` does not import grpc, so the command `serve` can reject an untested release before it imports grpc.
"""

from typing import Any

from tensor_reshape.runtime import experiments
from tensor_reshape.server.config import ConfigError

FIRST_RELEASE, NEXT_RELEASE = (1, 80), (1, 86)
"""The first tested release, and the first newer release that is not tested. `pyproject.toml` has the same bounds."""

TESTED = "grpcio>={}.{},<{}.{}".format(*FIRST_RELEASE, *NEXT_RELEASE)
"""The requirement for a tested release, in the form that pip accepts."""

NAMES = (
    "CompletionQueue",
    "CompletionType",
    "ReceiveCloseOnServerOperation",
    "ReceiveMessageOperation",
    "SendInitialMetadataOperation",
    "SendMessageOperation",
    "SendStatusFromServerOperation",
    "Server",
    "auth_context",
)
"""The names of `grpc._cython.cygrpc` that this package uses."""


def load() -> Any:  # a module without types
    """Returns the module `grpc._cython.cygrpc`, which is grpcio's binding to gRPC's core."""
    from grpc._cython import cygrpc  # type: ignore[attr-defined]  # noqa: PLC0415 - after the release is checked

    return cygrpc


def check_release() -> None:
    """Checks that the installed release of grpcio is tested.

    Raises:
        ConfigError: the release is not tested.
    """
    release = experiments.find_release()
    if release is None or not FIRST_RELEASE <= release < NEXT_RELEASE:
        version = experiments.find_version() or "of an unknown version"
        message = f"grpcio {version} was not tested with this server. Run pip install '{TESTED}'"
        raise ConfigError(message)
