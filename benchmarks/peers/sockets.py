"""A raw socket copy: a length, then so many bytes, each piece of which is sent back as it comes."""

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
"""So much is sent before anything is received: the buffers of the sockets hold it."""


def serve(address: str) -> None:
    """Serves each connection on a thread of its own."""
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port)), backlog=128) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # its connections have it, too
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
    """Returns a call that receives into an array that is there already; another thread sends a large tensor."""
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
            orders.put(True)  # noqa: FBT003 - an order
        left = received
        while left:
            left = left[connected.recv_into(left) :]
        return out

    # One thread for all calls: to start one costs as much as the copy of a small tensor.
    threading.Thread(target=send_orders, daemon=True).start()
    stack.callback(orders.put, False)  # noqa: FBT003 - the end of orders
    return call
