"""Reads the memory of a process and its descendants from /proc."""

from pathlib import Path

_PROC = Path("/proc")
_PARENT = 1  # the index in the fields of /proc/PID/stat after the name


def list_tree(root: int) -> list[int]:
    """Returns the ids of a process and its descendants."""
    stats = {int(path.name): _read(int(path.name), "stat").rpartition(")")[2].split() for path in _PROC.glob("[0-9]*")}
    # A server that forks works in its children.
    tree = [root]
    for member in tree:  # the list grows during the loop
        tree += [process for process, stat in stats.items() if stat and int(stat[_PARENT]) == member]
    return tree


def read_memory(root: int, *, peak: bool = False) -> int:
    """Returns the resident bytes of the tree, or the sum of each member's peak since `reset_peak_memory`."""
    field = "VmHWM:" if peak else "VmRSS:"
    lines = (line for process in list_tree(root) for line in _read(process, "status").splitlines())
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def reset_peak_memory(root: int) -> None:
    """Sets the peak to the current resident memory."""
    for process in list_tree(root):
        (_PROC / str(process) / "clear_refs").write_text("5")  # 5: only VmHWM, see proc(5)


def _read(process: int, name: str) -> str:
    try:
        return (_PROC / str(process) / name).read_text()
    except OSError:  # the process has ended
        return ""
