"""Cells: what is asked at once, a load (a tensor, or questions about shapes) of a size, by some clients."""

import re
from typing import NamedTuple

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TCP, UNIX = "tcp", "unix"
TENSOR = "tensor"
_UNITS = {"GiB": GIB, "MiB": MIB, "KiB": KIB, "B": 1}


class Cell(NamedTuple):
    """What is asked.

    Attributes:
        size: the bytes of a tensor, or how many questions.
        clients: how many call at once.
        transport: "tcp" or "unix".
        load: `TENSOR`, or the name of questions, see `benchmarks.questions`.
        processes: in how many the clients are, as many in each.
    """

    size: int
    clients: int = 1
    transport: str = TCP
    load: str = TENSOR
    processes: int = 1

    def __str__(self) -> str:
        """Returns what a reader calls the cell: "1 KiB, 16 clients, tcp", or "1,000 questions, mixed"."""
        if self.load != TENSOR:
            return f"{self.size:,} question{'s' * (self.size > 1)}, {self.load}"
        where = f" in {self.processes} processes" if self.processes > 1 else ""
        return f"{format_size(self.size)}, {self.clients} client{'s' * (self.clients > 1)}{where}, {self.transport}"


def parse_cell(text: str) -> Cell | None:
    """Returns the cell of a tensor that `str` gave this text; None where the text is something else."""
    match = re.fullmatch(r"(\d+(?: [KMG]iB| B)?), (\d+) clients?(?: in (\d+) processes)?, (tcp|unix)", text)
    return Cell(parse_size(match[1]), int(match[2]), match[4], processes=int(match[3] or 1)) if match else None


def format_size(size: int) -> str:
    """Returns "0", "64 KiB", "1 GiB"."""
    unit, factor = next(((unit, factor) for unit, factor in _UNITS.items() if size and size % factor == 0), ("", 1))
    return f"{size // factor} {unit}".strip()


def parse_size(text: str) -> int:
    """Reads "0", "64KiB", "1 GiB", in bytes.

    Raises:
        ValueError: it is none of these, or not a multiple of 8 bytes (the tensors are float32 of shape (2, n)).
    """
    match = re.fullmatch(r"(\d+) ?([KMG]iB|B)?", text)
    size = int(match[1]) * _UNITS[match[2] or "B"] if match else None
    if size is None or size % 8:
        message = f"{text}: a size is a multiple of 8 bytes, as in 0, 64KiB, 1GiB"
        raise ValueError(message)
    return size
