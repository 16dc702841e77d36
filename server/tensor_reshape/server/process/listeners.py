"""Binds sockets to the addresses of a server. If another server uses an address, binding this address fails."""

import errno
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from tensor_reshape.server.config import ConfigError, is_address

if TYPE_CHECKING:
    import grpc

_UNIX = "unix:"
_FREE_SECONDS, _RETRY_SECONDS = 1.0, 0.05
# The system reports these errors for an address that this machine does not have. A host name may resolve to such an
# address, often to ::1.
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_NO_REASON = "the address is in use, or does not belong to this machine"
# If gRPC cannot bind a TLS address, an unsupported kind of key is the most likely reason. The address was free just
# before, and OpenSSL has accepted the key and the certificate.
_NO_KEY = "gRPC does not support this kind of key. Use RSA, Ed25519, or ECDSA on P-256, P-384 or P-521"


class Bindable(Protocol):
    """The interface of a gRPC server that `bind` can bind to an address."""

    def add_port(self, address: str, credentials: "grpc.ServerCredentials | None") -> int:
        """Binds an address and returns its port. Raises RuntimeError if the address cannot be bound."""


def bind(server: Bindable, address: str, credentials: "grpc.ServerCredentials | None", *, held: bool = False) -> str:
    """Binds `server` to `address` and returns the address with its real port instead of port 0.

    Args:
        server: the server to bind, which must not have started yet.
        address: an address in the form of `Config.listen`.
        credentials: the TLS credentials, or None for plain text.
        held: whether the parent process has reserved the port for this process with `hold`.

    Raises:
        ConfigError: the address is in use, or does not belong to this machine.
    """
    try:
        # First check whether the address is free, because gRPC does not report all conflicts. gRPC might share a port
        # with another server, bind only some addresses of a host name, or take a unix socket from another server.
        if not held or address.startswith(_UNIX):
            _await_free(address)
        port = server.add_port(address, credentials)
    # gRPC does not report why it cannot bind the address. The address was free just before.
    except RuntimeError as error:
        message = f"cannot listen on {address}: {_NO_REASON if credentials is None else _NO_KEY}"
        raise ConfigError(message) from error
    except OSError as error:
        raise _explain(address, error) from error
    return address if address.startswith(_UNIX) else _replace_port(address, port)


@contextmanager
def hold(address: str) -> Iterator[str]:
    """Reserves a port that several processes will share, and yields the address with its real port instead of port 0.

    The calling process does not listen on the port. During the `with` block, a process can bind the port only if it
    belongs to the same user and uses SO_REUSEPORT. For a unix socket, this function does nothing, because processes
    cannot share the socket.

    Raises:
        ConfigError: the address is in use, or does not belong to this machine.
    """
    if address.startswith(_UNIX):
        yield address
        return
    real, sockets = take(address)
    with ExitStack() as stack:
        for held in map(stack.enter_context, sockets):
            # If SO_REUSEADDR were 1, other servers could bind the port.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            # SO_REUSEPORT is only set after the port is bound, because binding must fail if another server uses it.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield real


def take(address: str, *, held: bool = False) -> tuple[str, tuple[socket.socket, ...]]:
    """Binds sockets to a TCP address, without listening on them.

    If the port is not reserved (`held` is False), call `listen` on the sockets at once. Until then, other processes can
    bind the same port.

    Args:
        address: the address in the form `host:port`.
        held: whether the parent process has reserved the port for this process with `hold`.

    Returns:
        the address with its real port, and the bound sockets.

    Raises:
        ConfigError: the address is in use, or does not belong to this machine.
    """
    try:
        sockets = _bind_everywhere(address, shares=held)
    except OSError as error:
        raise _explain(address, error) from error
    return _replace_port(address, sockets[0].getsockname()[1]), sockets


def find_unbindable(addresses: Iterable[str]) -> Iterator[str]:
    """Yields an error text for each address that cannot be bound. Addresses with an invalid form are skipped.

    Addresses that can be bound stay bound until all addresses are checked. If an address is listed twice, the second
    entry is therefore reported.
    """
    with ExitStack() as stack:
        for address in filter(is_address, addresses):
            try:
                held = _take(address)
            except OSError as error:
                yield str(_explain(address, error))
                continue
            for one in held:
                # With SO_REUSEADDR, a second entry with the same address could also be bound.
                stack.enter_context(one).setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)


def _take(address: str) -> tuple[socket.socket, ...]:
    """Binds sockets to a TCP address and returns them.

    For a unix socket, only checks that it is free, and returns none.

    Raises:
        OSError: the address is in use, or does not belong to this machine.
    """
    if address.startswith(_UNIX):
        _check_unserved(address.removeprefix(_UNIX))
        return ()
    return _bind_everywhere(address, shares=False)


def count_listeners(address: str) -> int:
    """Returns the number of sockets that an address needs, because a host name may have several IP addresses."""
    if address.startswith(_UNIX):
        return 1
    host = address.rpartition(":")[0].strip("[]")
    try:
        return len({socket_address for *_, socket_address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)})
    except OSError:
        return 1  # the error is ignored here, because `bind` fails later and reports it


def _explain(address: str, error: OSError) -> ConfigError:
    cause = f"{error.strerror}: {error.filename}" if error.filename else error.strerror or str(error)
    return ConfigError(f"cannot listen on {address}: {cause}")


def _replace_port(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"


def _await_free(address: str) -> None:
    """Waits until an address is free, but at most a second.

    An outgoing connection of this machine may use the port for a moment. The reason is that Linux takes the local ports
    of outgoing connections from a range that includes the server's default port.

    Raises:
        OSError: the address is in use.
    """
    deadline = time.monotonic() + _FREE_SECONDS
    while True:
        try:
            for probe in _take(address):
                probe.close()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _check_unserved(path: str) -> None:
    """Raises OSError if a server listens on a unix socket, because binding would take the socket from that server.

    If no server listens on the socket file, the function raises no error.
    """
    decoded = Path(unquote(path))  # the address is a URI, and grpc decodes the path in the same way
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(decoded))
        except ConnectionRefusedError:
            return  # the path is a socket on which no server listens, or another kind of file, which gRPC will reject
        except FileNotFoundError:
            probe.bind(str(decoded))
            decoded.unlink()
            return
    raise OSError("another server listens on this socket")


def _bind_everywhere(address: str, *, shares: bool) -> tuple[socket.socket, ...]:
    """Binds the same port on all addresses of a host.

    All these addresses must be free. In contrast, gRPC would start even if only one of the addresses were free.

    Raises:
        OSError: one of the addresses is in use, or none of them belongs to this machine.
    """
    host, _, port = address.rpartition(":")
    number, sockets = int(port), list[socket.socket]()
    found = socket.getaddrinfo(host.strip("[]"), number, type=socket.SOCK_STREAM)
    try:
        for family, (name, _, *rest) in dict.fromkeys((info[0], info[4]) for info in found):
            if one := _bind_socket(family, (name, number, *rest), shares=shares):
                sockets.append(one)
                # If the port is 0, the first address gets a free port, and the other addresses get the same port.
                number = one.getsockname()[1]
    except OSError:
        for one in sockets:
            one.close()
        raise
    if not sockets:
        raise OSError(_NO_REASON)
    return tuple(sockets)


def _bind_socket(family: int, socket_address: tuple[Any, ...], *, shares: bool) -> socket.socket | None:
    """Returns a bound socket, or None if the address does not belong to this machine."""
    try:
        with ExitStack() as stack:
            one = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            # With SO_REUSEADDR, the port can be bound although old connections are still in the state TIME_WAIT.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shares:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(socket_address)
            stack.pop_all()
            return one
    except OSError as error:
        if error.errno in _NOT_HERE:
            return None
        raise
