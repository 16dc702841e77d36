"""Connections of untrusted clients, and helpers that wait until a server responds again."""

import socket
import time
from collections.abc import Callable

from http2 import Connection
from plain_requests import STATIC_RESHAPE, build_static_request

SECONDS = 60.0


def connect(address: str, content: bytes = b"") -> socket.socket:
    """Returns a TCP connection on which `content` was sent."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), SECONDS)
    connection.sendall(content)
    return connection


def retry(condition: Callable[[], bool], *, seconds: float = SECONDS) -> bool:
    """Checks a condition again and again. Returns whether it became true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def can_call(address: str) -> bool:
    """Returns whether a call on a new connection succeeds."""
    try:
        with Connection(address) as connection:
            return connection.call(STATIC_RESHAPE, build_static_request()).is_ok
    except OSError:
        return False
