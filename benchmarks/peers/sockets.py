"""A raw socket copy. The client sends a length and the bytes, and the server sends each received part back."""

import queue
import socket
import struct
import threading
from contextlib import ExitStack
from functools import partial

import numpy as np

from benchmarks.sessions import Array, Call, Job, ThreadSession

_LENGTH = struct.Struct("<Q")
_PIECE_BYTES = 1024 * 1024
_SMALL_BYTES = 64 * 1024
"""The number of bytes that are sent before anything is received; they fit into the socket buffers."""


def serve(address: str) -> None:
    """Serves each connection on its own thread."""
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port)), backlog=128) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # also applies to accepted connections
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_copy, args=(connection,), daemon=True).start()


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens sockets; there is one variant."""
    del variant
    return ThreadSession(job, stack, partial(_connect, job, stack), job.check)


def _copy(connection: socket.socket) -> None:
    buffer = memoryview(bytearray(_PIECE_BYTES))
    with connection:
        while header := connection.recv(_LENGTH.size, socket.MSG_WAITALL):
            (left,) = _LENGTH.unpack(header)
            while left:
                received = connection.recv_into(buffer, min(left, _PIECE_BYTES))
                connection.sendall(buffer[:received])
                left -= received


def _connect(job: Job, stack: ExitStack) -> Call:
    """Returns a call that receives into an existing array; another thread sends a large tensor."""
    host, _, port = job.address.rpartition(":")
    connected = stack.enter_context(socket.create_connection((host, int(port))))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data, out = job.array.view(np.uint8).data, np.zeros(job.target, np.float32)
    received = out.reshape(-1).view(np.uint8).data
    orders: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def send() -> None:
        connected.sendall(_LENGTH.pack(len(data)))
        connected.sendall(data)

    def send_orders() -> None:
        while orders.get():
            send()

    def call() -> Array:
        if len(data) <= _SMALL_BYTES:
            send()
        else:
            orders.put(True)  # noqa: FBT003 - a queued command
        left = received
        while left:
            left = left[connected.recv_into(left) :]
        return out

    # One thread makes all calls, because starting a thread takes as long as the copy of a small tensor.
    threading.Thread(target=send_orders, daemon=True).start()
    stack.callback(orders.put, False)  # noqa: FBT003 - the last command
    return call
