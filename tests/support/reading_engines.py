"""Which engine of gRPC's core reads the connections of a server, as the kernel has it."""

import re
from pathlib import Path

from meters import read_descriptors

_LISTENING_TCP, _LISTENING_UNIX = "0A", "00010000"
_STATE_COLUMN, _INODE_COLUMN = 3, 9  # of /proc/net/tcp
_FLAGS_COLUMN, _UNIX_INODE_COLUMN = 3, 6  # of /proc/net/unix


def find_engine(pid: int) -> str:
    """Returns the engine that waits for all connections to a process, by the core's two epoll instances.

    The polling engine has made its own when grpc was imported, the event engine when the server was made: so the lower
    descriptor is the polling engine's.
    """
    descriptors = read_descriptors(pid)
    listening = {number for number, what in descriptors.items() if what in _list_listening(pid)}
    polling, event = sorted(number for number, what in descriptors.items() if what == "anon_inode:[eventpoll]")
    assert listening, descriptors
    if listening <= _list_watched(pid, polling):
        return "polling"
    assert listening <= _list_watched(pid, event), descriptors
    return "event"


def _list_watched(pid: int, epoll: int) -> set[int]:
    """Returns the descriptors that an epoll instance waits for."""
    return set(map(int, re.findall(r"^tfd:\s+(\d+)", Path(f"/proc/{pid}/fdinfo/{epoll}").read_text(), re.MULTILINE)))


def _list_listening(pid: int) -> set[str]:
    """Returns the sockets that listen in the process's network, as links name them."""
    tcp = [row for name in ("tcp", "tcp6") for row in _read_rows(pid, name)]
    found = {row[_INODE_COLUMN] for row in tcp if row[_STATE_COLUMN] == _LISTENING_TCP}
    found |= {row[_UNIX_INODE_COLUMN] for row in _read_rows(pid, "unix") if row[_FLAGS_COLUMN] == _LISTENING_UNIX}
    return {f"socket:[{inode}]" for inode in found}


def _read_rows(pid: int, name: str) -> list[list[str]]:
    return [line.split() for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]]
