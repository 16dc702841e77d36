"""Machines: what a run ran on."""

import os
import platform
from pathlib import Path
from typing import Any

from benchmarks.environments import Peers

GIB = 1024**3


def describe_machine(peers: Peers) -> dict[str, Any]:
    """Returns the processor, the memory, the systems and the versions of what is compared."""
    return {
        "processor": _read_field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gib": round(int(_read_field("/proc/meminfo", "MemTotal").split()[0]) * 1024 / GIB, 1),
        "hypervisor": " hypervisor " in _read_field("/proc/cpuinfo", "flags") + " ",
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        "python": platform.python_version(),
        "versions": peers.list_versions(),
    }


def read_free_memory() -> int:
    """Returns the bytes of memory that can be had."""
    return int(_read_field("/proc/meminfo", "MemAvailable").split()[0]) * 1024


def _read_field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0"
