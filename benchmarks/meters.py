"""Meters of a process and all it started: processor time and memory, from /proc."""

import os
from collections.abc import Sequence
from pathlib import Path

_SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - where Linux has it
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PARENT, _TIMES = 1, slice(11, 15)  # fields of /proc/PID/stat after the name; times with those of ended children


def list_tree(root: int) -> list[int]:
    """Returns the ids of a process and its descendants."""
    parents = {int(path.name): _read_stat(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    tree = [root]
    for member in tree:  # grows while it is walked
        tree += [process for process, stat in parents.items() if stat and int(stat[_PARENT]) == member]
    return tree


def read_cpu_seconds(root: int) -> float:
    """Returns user and system seconds of the tree so far."""
    stats = (_read_stat(Path("/proc") / str(process)) for process in list_tree(root))
    return sum(sum(map(int, stat[_TIMES])) for stat in stats if stat) / _TICKS_PER_SECOND


def read_memory(root: int) -> int:
    """Returns the resident bytes of the tree."""
    return sum(_read_status(process, "VmRSS") for process in list_tree(root))


def read_peak_memory(root: int) -> int:
    """Returns the most resident bytes of each member of the tree since `reset_peak_memory`, added up."""
    return sum(_read_status(process, "VmHWM") for process in list_tree(root))


def reset_peak_memory(root: int) -> None:
    """Makes the peak what is resident now."""
    for process in list_tree(root):
        (Path("/proc") / str(process) / "clear_refs").write_text("5")


def list_shared_memory(processes: Sequence[int]) -> set[Path]:
    """Returns the segments of named shared memory that the processes have mapped."""
    return {path for process in processes for path in _list_segments(process) if path.exists()}


def _list_segments(process: int) -> list[Path]:
    try:
        lines = (Path("/proc") / str(process) / "maps").read_text().splitlines()
    except OSError:
        return []
    return [Path(line.split(maxsplit=5)[5]) for line in lines if f" {_SHARED_MEMORY}" in line]


def _read_stat(folder: Path) -> list[str]:
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return []


def _read_status(process: int, field: str) -> int:
    try:
        lines = (Path("/proc") / str(process) / "status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
