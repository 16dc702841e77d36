"""Meters, from /proc: the memory of a process and all it started."""

from pathlib import Path

_PROC = Path("/proc")
_PARENT = 1  # of the fields of /proc/PID/stat after the name


def list_tree(root: int) -> list[int]:
    """Returns the ids of a process and its descendants."""
    stats = {int(path.name): _read(int(path.name), "stat").rpartition(")")[2].split() for path in _PROC.glob("[0-9]*")}
    # A server that forks does its work in children.
    tree = [root]
    for member in tree:  # grows while it is walked
        tree += [process for process, stat in stats.items() if stat and int(stat[_PARENT]) == member]
    return tree


def read_memory(root: int, *, peak: bool = False) -> int:
    """Returns the resident bytes of the tree; or the most of each member since `reset_peak_memory`, added up."""
    field = "VmHWM:" if peak else "VmRSS:"
    lines = (line for process in list_tree(root) for line in _read(process, "status").splitlines())
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def reset_peak_memory(root: int) -> None:
    """Makes the peak what is resident now."""
    for process in list_tree(root):
        (_PROC / str(process) / "clear_refs").write_text("5")  # 5: VmHWM alone, see proc(5)


def _read(process: int, name: str) -> str:
    try:
        return (_PROC / str(process) / name).read_text()
    except OSError:  # it has ended
        return ""
