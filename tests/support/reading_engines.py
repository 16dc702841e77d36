"""Finds out from the kernel which I/O engine of gRPC reads the connections of a server."""

import re
from pathlib import Path

from meters import read_descriptors

_LISTENING_TCP, _LISTENING_UNIX = "0A", "00010000"
_STATE_COLUMN, _INODE_COLUMN = 3, 9  # columns of /proc/net/tcp
_FLAGS_COLUMN, _UNIX_INODE_COLUMN = 3, 6  # columns of /proc/net/unix


def find_engine(pid: int) -> str:
    """Returns the engine that waits for the connections of a process. gRPC's core has an epoll instance for each.

    The polling engine makes its instance when grpc is imported, and the event engine when the server is created. So the
    lower descriptor belongs to the polling engine.
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
    """Returns the descriptors for which an epoll instance waits."""
    return set(map(int, re.findall(r"^tfd:\s+(\d+)", Path(f"/proc/{pid}/fdinfo/{epoll}").read_text(), re.MULTILINE)))


def _list_listening(pid: int) -> set[str]:
    """Returns the listening sockets in the network of a process, named as in the links of its descriptors."""
    tcp = [row for name in ("tcp", "tcp6") for row in _read_rows(pid, name)]
    found = {row[_INODE_COLUMN] for row in tcp if row[_STATE_COLUMN] == _LISTENING_TCP}
    found |= {row[_UNIX_INODE_COLUMN] for row in _read_rows(pid, "unix") if row[_FLAGS_COLUMN] == _LISTENING_UNIX}
    return {f"socket:[{inode}]" for inode in found}


def _read_rows(pid: int, name: str) -> list[list[str]]:
    return [line.split() for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]]
