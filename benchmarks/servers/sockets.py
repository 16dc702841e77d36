"""A raw socket copy: receives a length, then so many bytes, and sends each piece back as it comes."""

import socket
import struct
import sys
import threading

PIECE_BYTES = 1024 * 1024
_LENGTH = struct.Struct("<Q")


def copy(connection: socket.socket) -> None:
    """Answers one connection until it ends; an empty tensor is answered with one byte."""
    buffer = memoryview(bytearray(PIECE_BYTES))
    with connection:
        while head := connection.recv(_LENGTH.size, socket.MSG_WAITALL):
            (left,) = _LENGTH.unpack(head)
            if left == 0:
                connection.sendall(b"\0")
            while left:
                received = connection.recv_into(buffer, min(left, PIECE_BYTES))
                connection.sendall(buffer[:received])
                left -= received


def listen(address: str) -> socket.socket:
    """Returns a socket that listens."""
    if address.startswith("unix:"):
        server = socket.socket(socket.AF_UNIX)
        server.bind(address.removeprefix("unix:"))
    else:
        server = socket.socket()
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # its connections have it, too
        host, _, port = address.rpartition(":")
        server.bind((host, int(port)))
    server.listen(128)
    return server


def main() -> None:
    """Serves on the address that is the argument."""
    server = listen(sys.argv[1])
    while True:
        connection, _ = server.accept()
        threading.Thread(target=copy, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
