"""What the system lets this process, and its workers, take: memory and descriptors."""

import math
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tensor_reshape.server.process.pools import STACK_BYTES

PROCESS_BYTES = 64 * 1024 * 1024
"""What each process has in memory before there is a call."""

ADDRESS_BYTES = 448 * 1024 * 1024
"""What each process has of address space before there is a call, besides its threads' stacks: libraries, heaps."""

RESERVED_DESCRIPTORS = 32
"""What a process needs besides connections: listeners, the log, files that are read."""

_MEMORY = Path("/sys/fs/cgroup")
_SELF = Path("/proc/self/cgroup")


def find_memory_room(workers: int, threads: int) -> int:
    """Returns how many bytes all calls under way may take together without the system being short of memory.

    That is half of what is left of the machine, of the cgroup, and of each process's own limits, beside what processes
    take without any call. The other half is for what the budget does not count: connections, what allocators lose.

    Args:
        workers: how many processes serve.
        threads: how many threads each has.
    """
    processes = workers + (workers > 1)  # the supervisor
    shared = min(_find_machine_bytes(), find_cgroup_limit()) - processes * PROCESS_BYTES
    own = _find_process_limit() - ADDRESS_BYTES - threads * STACK_BYTES
    room = min(shared, own * workers) / 2
    return max(0, int(min(room, 2**62)))


def find_cgroup_limit(groups: Path = _SELF, mount: Path = _MEMORY) -> float:
    """Returns the least memory limit of the process's cgroup and of those it is in, in bytes; infinite without one.

    Args:
        groups: a file in the form of /proc/self/cgroup.
        mount: where the hierarchies are mounted: version 2 there, version 1 in `memory`.
    """
    limit = math.inf
    for file in _find_limit_files(groups, mount):
        with suppress(OSError, ValueError):  # "max" is no number, and not every group has the file
            limit = min(limit, int(file.read_text()))
    return limit


def raise_descriptor_limit() -> int:
    """Raises the soft limit of descriptors to the hard one, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a hard limit above what the kernel grants now
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return soft


def count_connections(wanted: int, listeners: int) -> int:
    """Returns how many connections each listener may take: `wanted`, where descriptors are left for so many."""
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
            # A container may see its own group as the root of the mount, whatever its path is called outside.
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
