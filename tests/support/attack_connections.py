"""Connections of attackers, which have a source address of their own."""

import os
import socket
import time
from contextlib import ExitStack

ATTACKER_HOST = f"127.1.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
"""A source address of this process only. Otherwise a proxy would still block an attack because of the previous one."""


attacker_host: str | None = ATTACKER_HOST
"""The source address of this process. None: the address that the system chooses, which other clients have, too."""


def find_source(address: str) -> tuple[str, int] | None:
    return (attacker_host, 0) if attacker_host and address.startswith("127.") else None


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 5, find_source(address))


def keep_connections(address: str, number: int, greeting: bytes, more: bytes = b"") -> None:
    """Opens connections and sends bytes on each every second. A closed connection is opened again."""
    with ExitStack() as stack:
        kept: dict[int, socket.socket] = {}
        while True:
            for index in range(number):
                try:
                    if index not in kept:
                        kept[index] = stack.enter_context(connect(address))
                        kept[index].sendall(greeting)
                    elif more:
                        kept[index].sendall(more)
                except OSError:
                    kept.pop(index, None)
            time.sleep(1)
