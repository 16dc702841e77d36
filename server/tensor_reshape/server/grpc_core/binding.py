"""The private parts of grpcio that the package `grpc_core` uses, and the tested releases of grpcio.

One private part is the attribute `_credentials` of `grpc.ServerCredentials`. All other private parts are in
`grpc._cython.cygrpc`, which grpcio's own server also uses. `load` checks that the names in `grpc._cython.cygrpc` exist
before they are used.
"""

from typing import Any

import grpc

FIRST_RELEASE, NEXT_RELEASE = (1, 80), (1, 86)
"""The first tested release, and the first newer release that is not tested. `pyproject.toml` has the same bounds."""

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


class CoreUnavailableError(Exception):
    """The package `grpc_core` cannot serve with the installed grpcio. The message of the error contains the reason."""


def load() -> Any:  # a module without types
    """Returns the module `grpc._cython.cygrpc`, which is grpcio's binding to gRPC's core.

    Raises:
        CoreUnavailableError: the installed release of grpcio is not tested, or lacks a name in `NAMES`.
    """
    check_release(grpc.__version__)
    try:
        from grpc._cython import cygrpc  # type: ignore[attr-defined]  # noqa: PLC0415 - not before the release is known
    except ImportError as error:
        message = f"grpcio {grpc.__version__} has no grpc._cython.cygrpc"
        raise CoreUnavailableError(message) from error
    binding: Any = cygrpc
    missing = [name for name in NAMES if not hasattr(binding, name)]
    if missing:
        message = f"grpcio {grpc.__version__} has no cygrpc.{missing[0]}"
        raise CoreUnavailableError(message)
    return cygrpc


def check_release(version: str) -> None:
    """Checks that a release of grpcio is tested.

    Raises:
        CoreUnavailableError: the release is not tested.
    """
    try:
        release = tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        release = ()
    if not FIRST_RELEASE <= release < NEXT_RELEASE:
        first, following = (".".join(map(str, bound)) for bound in (FIRST_RELEASE, NEXT_RELEASE))
        message = f"grpcio {version} was not tested: the tested releases are {first} and newer, below {following}"
        raise CoreUnavailableError(message)
