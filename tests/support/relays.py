"""A relay between clients and a server, which can stop one direction as a slow network does."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread

_SECONDS = 60.0
_PIECE_BYTES = 65536


class Relay:
    """Forwards bytes in both directions.

    Attributes:
        address: the address for clients.
        may_send: while it is not set, bytes of clients are not forwarded.
        may_answer: while it is not set, bytes of the server are not forwarded.
    """

    def __init__(self, listener: socket.socket, server: str) -> None:
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.may_send, self.may_answer = Event(), Event()
        self._listener = listener
        self._host, _, port = server.rpartition(":")
        self._port = int(port)

    def resume(self) -> None:
        """Forwards in both directions."""
        self.may_send.set()
        self.may_answer.set()

    def accept_all(self) -> None:
        """Forwards the bytes of each connection on two threads, until the listener is shut down."""
        with ExitStack() as stack, suppress(OSError):
            while True:
                client = stack.enter_context(self._listener.accept()[0])
                server = stack.enter_context(socket.create_connection((self._host, self._port)))
                for arguments in ((client, server, self.may_send), (server, client, self.may_answer)):
                    Thread(target=_forward, args=arguments, daemon=True).start()


def _forward(source: socket.socket, target: socket.socket, may_go: Event) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE_BYTES):
            may_go.wait(_SECONDS)
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def run_relay(server: str) -> Iterator[Relay]:
    """Runs a relay to the address of a server until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = Relay(listener, server)
        relay.resume()
        thread = Thread(target=relay.accept_all)
        thread.start()
        try:
            yield relay
        finally:
            relay.resume()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(_SECONDS)
