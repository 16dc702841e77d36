"""Connections without HTTP/2, and calls that nobody has to answer at once."""

import socket
import time
from collections.abc import Callable

from http2 import Connection
from plain_requests import STATIC_RESHAPE, build_static_request

SECONDS = 60.0


def connect(address: str, content: bytes = b"") -> socket.socket:
    host, _, port = address.rpartition(":")
    stranger = socket.create_connection((host, int(port)), SECONDS)
    stranger.sendall(content)
    return stranger


def retry(condition: Callable[[], bool], *, seconds: float = SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def call_anew(address: str) -> bool:
    """Returns whether a call on a new connection is answered."""
    try:
        with Connection(address) as connection:
            return connection.call(STATIC_RESHAPE, build_static_request()).is_ok
    except OSError:
        return False
