"""Cells. A cell is a load (a tensor or shape queries) of a size, and a number of concurrent clients."""

from typing import NamedTuple

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TENSOR = "tensor"
_UNITS = {"GiB": GIB, "MiB": MIB, "KiB": KIB}


class Cell(NamedTuple):
    """A load, its size and its clients.

    Attributes:
        size: the bytes of a tensor (a multiple of 8: float32 of shape (2, n)), or the number of queries.
        clients: the number of concurrent clients.
        load: `TENSOR`, or the name of queries in `benchmarks.questions`.
        processes: the number of processes with clients, each with the same number of them.
    """

    size: int
    clients: int = 1
    load: str = TENSOR
    processes: int = 1

    def __str__(self) -> str:
        """Returns the title of the cell: "1 KiB, 16 clients, tcp", or "1,000 questions, mixed"."""
        if self.load != TENSOR:
            return f"{self.size:,} question{'s' * (self.size > 1)}, {self.load}"
        where = f" in {self.processes} processes" if self.processes > 1 else ""
        unit, factor = next((unit, factor) for unit, factor in _UNITS.items() if self.size % factor == 0)
        return f"{self.size // factor} {unit}, {self.clients} client{'s' * (self.clients > 1)}{where}, tcp"
