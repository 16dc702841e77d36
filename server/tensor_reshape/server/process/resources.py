"""Limits of the system for this process and its workers: memory and file descriptors."""

import math
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROCESS_BYTES = 64 * 1024 * 1024
"""Memory of each process without calls."""

ADDRESS_BYTES = 464 * 1024 * 1024
"""Address space of each process without calls: libraries, heaps, and the stacks of its threads."""

RESERVED_DESCRIPTORS = 32
"""File descriptors of a process that are not for connections: listeners, the log, and files."""

_MEMORY = Path("/sys/fs/cgroup")
_SELF = Path("/proc/self/cgroup")


def find_available_memory(workers: int) -> int:
    """Returns how many bytes all running calls of `workers` processes may use together.

    This is half of the memory that the machine, the cgroup and the limits of each process leave, without the memory
    that the processes need before there are calls. The other half is for memory that the budget does not count:
    connections and the fragmentation of allocators.
    """
    processes = workers + (workers > 1)  # the supervisor
    shared = min(_find_machine_bytes(), find_cgroup_limit()) - processes * PROCESS_BYTES
    own = _find_process_limit() - ADDRESS_BYTES
    available = min(shared, own * workers) / 2
    return max(0, int(min(available, 2**62)))


def find_cgroup_limit(groups: Path = _SELF, mount: Path = _MEMORY) -> float:
    """Returns the smallest memory limit of the process's cgroup and its ancestors, in bytes; infinity if none has one.

    Args:
        groups: a file in the format of /proc/self/cgroup.
        mount: the directory of the hierarchies: that of version 2, with version 1 in `memory`.
    """
    limit = math.inf
    for file in _find_limit_files(groups, mount):
        with suppress(OSError, ValueError):  # the value may be "max", and some groups do not have the file
            limit = min(limit, int(file.read_text()))
    return limit


def raise_descriptor_limit() -> int:
    """Raises the soft limit of file descriptors to the hard limit, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # the hard limit may exceed what the kernel allows now
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return soft


def count_connections(wanted: int, listeners: int) -> int:
    """Returns how many connections each listener may accept: `wanted`, or less if there are too few descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, (soft - RESERVED_DESCRIPTORS) // listeners))


def _find_limit_files(groups: Path, mount: Path) -> Iterator[Path]:
    with suppress(OSError):
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            top, name = mount, "memory.max"
            if controllers:
                top, name = mount / "memory", "memory.limit_in_bytes"
            if controllers and "memory" not in controllers.split(","):
                continue
            # A container may see its own group as the root of the mount, although its path outside is longer.
            group = top / path.lstrip("/")
            yield from (folder / name for folder in (group, *group.parents) if folder.is_relative_to(top))


def _find_machine_bytes() -> float:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return math.inf


def _find_process_limit() -> float:
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=math.inf)
