"""A raw socket: the bytes go out in one thread and come back in another, into an array that is there already."""

import queue
import socket
import struct
import threading

import numpy as np

from benchmarks.clients.sessions import Array, Job, ThreadSession

_SMALL_BYTES = 64 * 1024
"""So much is sent before anything is received: the buffers of the sockets hold it."""


class SocketConnection:
    """One socket, and the thread that sends."""

    def __init__(self, job: Job) -> None:
        """Connects."""
        self._socket = connect(job)
        self._head = struct.pack("<Q", job.array.nbytes)
        self._data = job.array.view(np.uint8).data
        self._out = np.zeros(job.target, np.float32)
        self._received = self._out.reshape(-1).view(np.uint8).data
        self._orders: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send_orders, daemon=True)
        self._sender.start()

    def call(self) -> Array:
        """One copy there and back."""
        if len(self._data) <= _SMALL_BYTES:
            self._send()
        else:
            self._orders.put(True)  # noqa: FBT003 - an order
        left = self._received
        while left:
            left = left[self._socket.recv_into(left) :]
        if not self._received:
            self._socket.recv(1)  # an empty tensor is answered with a byte, or there would be nothing to wait for
        return self._out

    def read(self, answer: Array) -> Array:
        """The answer is the array."""
        return answer

    def close(self) -> None:
        """Disconnects."""
        self._orders.put(False)  # noqa: FBT003 - the end of orders
        self._sender.join()
        self._socket.close()

    def _send(self) -> None:
        self._socket.sendall(self._head)
        self._socket.sendall(self._data)

    def _send_orders(self) -> None:
        while self._orders.get():
            self._send()


def connect(job: Job) -> socket.socket:
    """Returns a connected socket."""
    if job.path:
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(job.path)
        return connected
    connected = socket.create_connection((job.host, job.port))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def open_session(job: Job, variant: str) -> ThreadSession:
    """Opens sockets; there is one variant."""
    del variant
    return ThreadSession(job, lambda: SocketConnection(job))
