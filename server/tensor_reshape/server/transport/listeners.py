"""Binding of addresses; an address that another server uses is rejected."""

import errno
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from tensor_reshape.server.config import ConfigError, is_address

if TYPE_CHECKING:
    import grpc

_UNIX = "unix:"
_FREE_SECONDS, _RETRY_SECONDS = 1.0, 0.05
# A host name may resolve to addresses that this machine does not have, most often ::1.
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_NO_REASON = "the address is in use, or does not belong to this machine"
# The address was free just before, and OpenSSL accepted the files.
_NO_KEY = "gRPC does not support this kind of key. Use RSA, Ed25519, or ECDSA on P-256, P-384 or P-521"


class Bindable(Protocol):
    """A server that can be bound."""

    def add_port(self, address: str, credentials: "grpc.ServerCredentials | None") -> int:
        """Binds an address and returns its port; raises RuntimeError if it cannot be bound."""


def bind(server: Bindable, address: str, credentials: "grpc.ServerCredentials | None", *, held: bool = False) -> str:
    """Binds `server` to `address` and returns the address with its real port.

    Args:
        server: a server that is not started.
        address: an address in the form of `Config.listen`.
        credentials: None serves in plain text.
        held: whether the parent process holds the port for this one by `hold`.

    Raises:
        ConfigError: the address is in use, or does not belong to this machine.
    """
    try:
        # Check first, because grpc would silently share a port, bind only one address of a host name, or take a unix
        # socket from another server.
        if not held:
            _await_free(address)
        port = server.add_port(address, credentials)
    except RuntimeError as error:  # grpc gives no reason, but the address was checked above
        message = f"cannot listen on {address}: {_NO_REASON if credentials is None else _NO_KEY}"
        raise ConfigError(message) from error
    except OSError as error:
        raise _explain(address, error) from error
    return address if address.startswith(_UNIX) else _replace_port(address, port)


def hold(address: str) -> tuple[str, tuple[socket.socket, ...]]:
    """Reserves the port of a TCP address for processes that will share it, without listening.

    As long as the sockets are open, only processes of the same user that use SO_REUSEPORT can bind the port.

    Returns:
        the address with its real port, and the sockets.

    Raises:
        ConfigError: the address is in use.
    """
    real, sockets = take(address)
    for held in sockets:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # otherwise another server could bind it first
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # only after the bind, which must fail if in use
    return real, sockets


def take(address: str) -> tuple[str, tuple[socket.socket, ...]]:
    """Binds a TCP address for this process only. Listen at once, because until then other processes can bind it too.

    Returns:
        the address with its real port, and the sockets.

    Raises:
        ConfigError: the address is in use.
    """
    try:
        sockets = _bind_everywhere(address)
    except OSError as error:
        raise _explain(address, error) from error
    return (_replace_port(address, sockets[0].getsockname()[1]) if sockets else address), sockets


def share(address: str) -> tuple[str, tuple[socket.socket, ...]]:
    """Binds a TCP address that the parent process has reserved with `hold`.

    Returns:
        the address, and the sockets.

    Raises:
        ConfigError: the address is in use.
    """
    try:
        return address, _bind_everywhere(address, shares=True)
    except OSError as error:
        raise _explain(address, error) from error


def find_unbindable(addresses: Iterable[str]) -> Iterator[str]:
    """Yields the reason for each address that cannot be bound. Invalid addresses are skipped.

    Addresses that can be bound stay bound until the end, so that the second of two equal addresses is reported.
    """
    with ExitStack() as stack:
        for address in filter(is_address, addresses):
            try:
                held = _take(address)
            except OSError as error:
                yield str(_explain(address, error))
                continue
            for one in held:
                stack.enter_context(one).setsockopt(
                    socket.SOL_SOCKET, socket.SO_REUSEADDR, 0
                )  # or another could bind it


def _take(address: str) -> tuple[socket.socket, ...]:
    """Returns the sockets that hold an address; none for a unix socket that is free.

    Raises:
        OSError: the address is in use, or does not belong to this machine.
    """
    if address.startswith(_UNIX):
        _check_unserved(address.removeprefix(_UNIX))
        return ()
    held = _bind_everywhere(address)
    if not held:
        raise OSError(_NO_REASON)
    return held


def find_port(address: str) -> int:
    """Returns the port of a TCP address."""
    return int(address.rpartition(":")[2])


def count_listeners(address: str) -> int:
    """Returns the number of sockets of an address, because a host name may have several addresses."""
    if address.startswith(_UNIX):
        return 1
    host = address.rpartition(":")[0].strip("[]")
    try:
        return len({place for *_, place in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)})
    except OSError:
        return 1  # `bind` will fail as well and report the reason


def _explain(address: str, error: OSError) -> ConfigError:
    cause = f"{error.strerror}: {error.filename}" if error.filename else error.strerror or str(error)
    return ConfigError(f"cannot listen on {address}: {cause}")


def _replace_port(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"


def _await_free(address: str) -> None:
    """Waits up to a second for an address, which an outgoing connection may use for a moment.

    The default port is in the range from which Linux takes the ports of outgoing connections.

    Raises:
        OSError: the address is in use.
    """
    deadline = time.monotonic() + _FREE_SECONDS
    while True:
        try:
            _check_free(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _check_free(address: str) -> None:
    """Raises OSError if another server uses the address."""
    if address.startswith(_UNIX):
        _check_unserved(address.removeprefix(_UNIX))
        return
    for probe in _bind_everywhere(address):
        probe.close()


def _check_unserved(path: str) -> None:
    """Raises OSError if a server listens on the socket, because binding would replace it. A stale socket is fine."""
    decoded = Path(unquote(path))  # the address is a URI, which grpc decodes as well
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(decoded))
        except ConnectionRefusedError:
            return  # a stale socket, or another kind of file, which grpc rejects
        except FileNotFoundError:
            probe.bind(str(decoded))
            decoded.unlink()
            return
    message = "another server does"
    raise OSError(message)


def _bind_everywhere(address: str, *, shares: bool = False) -> tuple[socket.socket, ...]:
    """Binds the same port of every address of a host; grpc would accept it if only one of them could be bound.

    Raises:
        OSError: one of the addresses is in use.
    """
    host, _, port = address.rpartition(":")
    number, sockets = int(port), list[socket.socket]()
    found = socket.getaddrinfo(host.strip("[]"), number, type=socket.SOCK_STREAM)
    try:
        for family, (name, _, *rest) in dict.fromkeys((family, place) for family, _, _, _, place in found):
            if one := _bind_socket(family, (name, number, *rest), shares=shares):
                sockets.append(one)
                number = one.getsockname()[1]  # with port 0, all addresses of the host get the same free port
    except OSError:
        for one in sockets:
            one.close()
        raise
    return tuple(sockets)


def _bind_socket(family: int, place: tuple[Any, ...], *, shares: bool) -> socket.socket | None:
    """Returns a bound socket; None if the address does not belong to this machine."""
    try:
        with ExitStack() as stack:
            one = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT do not matter
            if shares:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(place)
            stack.pop_all()
            return one
    except OSError as error:
        if error.errno in _NOT_HERE:
            return None
        raise
