"""Finds how much memory and how many cores and file descriptors the system allows this process to use."""

import math
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROCESS_BYTES = 64 * 1024 * 1024
"""Memory in bytes that each process of the server needs without calls."""

ADDRESS_BYTES = 464 * 1024 * 1024
"""Address space in bytes that each process needs without calls, for libraries, heaps and thread stacks."""

MAX_CONNECTIONS = 4096
"""Largest number of connections that each listener of a process may accept."""

RESERVED_DESCRIPTORS = 32
"""Number of file descriptors that each process needs for listeners, the log and files instead of connections."""

_MOUNT = Path("/sys/fs/cgroup")
_SELF = Path("/proc/self/cgroup")


def find_available_memory(servers: int) -> int:
    """Returns how many bytes all running calls of `servers` processes may use together.

    First, the memory that the processes need without calls is subtracted from the memory limit. The result is half of
    the remaining memory. The other half is for memory that the memory budget does not count, such as the memory of
    connections and the fragmentation of allocators.
    """
    return max(0, find_memory_limit(servers) - _count_processes(servers) * PROCESS_BYTES) // 2


def find_memory_limit(servers: int) -> int:
    """Returns how many bytes `servers` processes and their supervisor may use together.

    The number depends on the memory of the machine, the memory limit of the cgroup, and the limits of each process.
    """
    own = _find_process_limit() - ADDRESS_BYTES
    limit = min(_find_machine_bytes(), find_cgroup_limit(), own * servers + _count_processes(servers) * PROCESS_BYTES)
    return int(max(0, min(limit, 2**63)))


def find_cgroup_limit(groups: Path = _SELF, mount: Path = _MOUNT) -> float:
    """Returns the smallest memory limit in bytes of the process's cgroup and its ancestors, or infinity if none is set.

    Args:
        groups: the file that lists the cgroups of this process, in the format of /proc/self/cgroup.
        mount: the directory with the files of cgroup version 2. The folder `memory` in this directory has the files of
            cgroup version 1.
    """
    limit = math.inf
    for folder, is_old in _list_groups("memory", groups, mount):
        # The file of a memory limit may contain "max" instead of a number, and some cgroups do not have the file.
        with suppress(OSError, ValueError):
            limit = min(limit, int((folder / ("memory.limit_in_bytes" if is_old else "memory.max")).read_text()))
    return limit


def count_cores(groups: Path = _SELF, mount: Path = _MOUNT) -> int:
    """Returns the number of whole processor cores that the process may use, at least 1.

    The number is limited by the processor affinity of the process, and by the processor quotas of its cgroup and of the
    cgroup's ancestors.

    Args:
        groups: the file that lists the cgroups of this process, in the format of /proc/self/cgroup.
        mount: the directory with the files of cgroup version 2, and the folder `cpu` of version 1.
    """
    has_affinity = hasattr(os, "sched_getaffinity")  # only on Linux
    cores: float = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    for folder, is_old in _list_groups("cpu", groups, mount):
        with suppress(OSError, ValueError):  # as above
            if is_old:
                quota, period = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
            else:
                quota, period = map(int, (folder / "cpu.max").read_text().split())
            cores = min(cores, quota / period if quota > 0 else cores)  # cgroup version 1 writes -1 for no quota
    return max(1, int(cores))


def raise_descriptor_limit() -> None:
    """Raises the soft limit of file descriptors to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # the kernel may allow less than the hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def count_connections(listeners: int) -> int:
    """Returns the number of connections that each listener may accept.

    The number is `MAX_CONNECTIONS`, or less if the process may open too few file descriptors.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, (soft - RESERVED_DESCRIPTORS) // listeners))


def _list_groups(controller: str, groups: Path, mount: Path) -> Iterator[tuple[Path, bool]]:
    """Yields the folders of the process's cgroup and its ancestors, with True for cgroup version 1 and False for 2."""
    with suppress(OSError):
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            # In cgroup version 1, controllers that are mounted together have one folder, for example `cpu,cpuacct`.
            top = next((mount / name for name in (controllers, controller) if (mount / name).is_dir()), mount)
            # In a container, the cgroup file system may contain only the container's own cgroup. Some folders in the
            # path of the process's cgroup may then not exist. All parent folders are therefore checked as well.
            group = top / path.lstrip("/")
            found = (folder for folder in (group, *group.parents) if folder.is_relative_to(top))
            yield from ((folder, bool(controllers)) for folder in found)


def _count_processes(servers: int) -> int:
    return servers + (servers > 1)  # several server processes also need a supervisor process


def _find_machine_bytes() -> float:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return math.inf


def _find_process_limit() -> float:
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=math.inf)
