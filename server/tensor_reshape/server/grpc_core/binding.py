"""The parts of grpcio that are not public, and the releases of grpcio with which they were tested.

All of them are in `grpc._cython.cygrpc`, the binding on which grpcio's own server stands, except the attribute
`_credentials` of `grpc.ServerCredentials`. `load` checks the names of the binding before they are used.
"""

from typing import Any

import grpc

FIRST_RELEASE, NEXT_RELEASE = (1, 80), (1, 86)
"""The releases that were tested: from the first one on, below the second. `pyproject.toml` has the same bounds."""

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


class SeamError(Exception):
    """The installed grpcio cannot be served with by this package; the text says why."""


def load() -> Any:  # a module without types
    """Returns grpcio's binding.

    Raises:
        SeamError: the installed grpcio was not tested, or lacks a name.
    """
    check_release(grpc.__version__)
    try:
        from grpc._cython import cygrpc  # type: ignore[attr-defined]  # noqa: PLC0415 - not before the release is known
    except ImportError as error:
        message = f"grpcio {grpc.__version__} has no grpc._cython.cygrpc"
        raise SeamError(message) from error
    binding: Any = cygrpc
    missing = [name for name in NAMES if not hasattr(binding, name)]
    if missing:
        message = f"grpcio {grpc.__version__} has no cygrpc.{missing[0]}"
        raise SeamError(message)
    return cygrpc


def check_release(version: str) -> None:
    """Checks that a release of grpcio was tested.

    Raises:
        SeamError: it was not.
    """
    try:
        release = tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        release = ()
    if not FIRST_RELEASE <= release < NEXT_RELEASE:
        first, following = (".".join(map(str, bound)) for bound in (FIRST_RELEASE, NEXT_RELEASE))
        message = f"grpcio {version} was not tested: the tested releases are {first} and newer, below {following}"
        raise SeamError(message)
