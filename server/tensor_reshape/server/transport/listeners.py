"""Binds addresses, and refuses those that somebody else serves."""

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
# A name may stand for addresses that this machine does not have, ::1 most of all.
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_NO_REASON = "the address is taken, or nothing of this machine"
# The address was free a moment before, and OpenSSL has taken the files.
_NO_KEY = "gRPC takes no key of this kind: it takes RSA, Ed25519, and ECDSA on P-256, P-384 and P-521"


class Bindable(Protocol):
    """A server that can be bound."""

    def add_port(self, address: str, credentials: "grpc.ServerCredentials | None") -> int:
        """Binds an address, and returns its port; raises RuntimeError where it cannot be bound."""


def bind(server: Bindable, address: str, credentials: "grpc.ServerCredentials | None", *, held: bool = False) -> str:
    """Binds `server` to `address` and returns the address with its real port.

    Args:
        server: not started yet.
        address: as `Config.listen` has them.
        credentials: None serves in plain text.
        held: whoever started this process has called `hold`, so that it is taken, but by nobody else.

    Raises:
        ConfigError: the address is taken, or is not of this machine.
    """
    try:
        # grpc shares a port with whoever asks to, is content with one address of a name, and takes a unix socket from
        # the server that has it: so what it would do silently is refused before.
        if not held:
            _await_free(address)
        port = server.add_port(address, credentials)
    except RuntimeError as error:  # grpc keeps the reason to itself; that of the address is known by now
        message = f"cannot listen on {address}: {_NO_REASON if credentials is None else _NO_KEY}"
        raise ConfigError(message) from error
    except OSError as error:
        raise _explain(address, error) from error
    return address if address.startswith(_UNIX) else _replace_port(address, port)


def hold(address: str) -> tuple[str, tuple[socket.socket, ...]]:
    """Takes the port of a TCP address for processes that will share it, without listening.

    As long as the sockets are open, only processes of the same user that ask to share can bind the port.

    Returns:
        the address with its real port, and the sockets.

    Raises:
        ConfigError: the address is taken.
    """
    real, sockets = take(address)
    for held in sockets:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # or another server could bind it before we listen
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # only now: it was bound because nobody else has it
    return real, sockets


def take(address: str) -> tuple[str, tuple[socket.socket, ...]]:
    """Binds a TCP address for this process alone, which is to listen at once: until then, others can bind it as well.

    Returns:
        the address with its real port, and the sockets.

    Raises:
        ConfigError: the address is taken.
    """
    try:
        sockets = _bind_everywhere(address)
    except OSError as error:
        raise _explain(address, error) from error
    return (_replace_port(address, sockets[0].getsockname()[1]) if sockets else address), sockets


def share(address: str) -> tuple[str, tuple[socket.socket, ...]]:
    """Binds a TCP address that `hold` keeps for processes like this one.

    Returns:
        the address, and the sockets.

    Raises:
        ConfigError: the address is taken.
    """
    try:
        return address, _bind_everywhere(address, shares=True)
    except OSError as error:
        raise _explain(address, error) from error


def find_unbindable(addresses: Iterable[str]) -> Iterator[str]:
    """Yields why each address that cannot be listened on cannot; those that are none are passed over.

    All that can are held until the end, so that of two that are the same the second is found.
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
    """Returns what holds an address; nothing of a unix socket, which nobody else serves.

    Raises:
        OSError: somebody else serves it, or it is nothing of this machine.
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
    """Returns how many sockets an address stands for: a name may have several addresses."""
    if address.startswith(_UNIX):
        return 1
    host = address.rpartition(":")[0].strip("[]")
    try:
        return len({place for *_, place in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)})
    except OSError:
        return 1  # it cannot be bound either, which says why


def _explain(address: str, error: OSError) -> ConfigError:
    cause = f"{error.strerror}: {error.filename}" if error.filename else error.strerror or str(error)
    return ConfigError(f"cannot listen on {address}: {cause}")


def _replace_port(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"


def _await_free(address: str) -> None:
    """Waits for an address that somebody holds for a moment, as the source of a connection of his own may.

    The default port lies in the range from which Linux takes the ports of outgoing connections.

    Raises:
        OSError: somebody else serves the address.
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
    """Raises where anybody else serves the address."""
    if address.startswith(_UNIX):
        _check_unserved(address.removeprefix(_UNIX))
        return
    for probe in _bind_everywhere(address):
        probe.close()


def _check_unserved(path: str) -> None:
    """Raises where a server answers on the socket: binding would take its place. A stale one is no obstacle."""
    decoded = Path(unquote(path))  # the address is a URI: grpc decodes it, too
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(decoded))
        except ConnectionRefusedError:
            return  # a stale socket, or a file that is none, which grpc refuses
        except FileNotFoundError:
            probe.bind(str(decoded))
            decoded.unlink()
            return
    message = "another server does"
    raise OSError(message)


def _bind_everywhere(address: str, *, shares: bool = False) -> tuple[socket.socket, ...]:
    """Binds one port of every address of the host: grpc is content with one of them, and shares the name's port.

    Raises:
        OSError: one of them is taken.
    """
    host, _, port = address.rpartition(":")
    number, sockets = int(port), list[socket.socket]()
    found = socket.getaddrinfo(host.strip("[]"), number, type=socket.SOCK_STREAM)
    try:
        for family, (name, _, *rest) in dict.fromkeys((family, place) for family, _, _, _, place in found):
            if one := _bind_socket(family, (name, number, *rest), shares=shares):
                sockets.append(one)
                number = one.getsockname()[1]  # port 0 is any, but one and the same for the whole name
    except OSError:
        for one in sockets:
            one.close()
        raise
    return tuple(sockets)


def _bind_socket(family: int, place: tuple[Any, ...], *, shares: bool) -> socket.socket | None:
    """Returns a bound socket; None where the machine does not have the address."""
    try:
        with ExitStack() as stack:
            one = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that linger are no obstacle
            if shares:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(place)
            stack.pop_all()
            return one
    except OSError as error:
        if error.errno in _NOT_HERE:
            return None
        raise
