"""Cells: what is measured at once is one size, one number of clients, one transport."""

from collections.abc import Iterable
from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
SIZES = (0, KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB, GIB)
CLIENTS = (1, 16, 64)
TCP = "tcp"
UNIX = "unix"
TRANSPORTS = (TCP, UNIX)
FRESH_BYTES = 64 * MIB
"""From this size on every measurement has a new server and a new client: what one keeps is not the next one's lack."""

MEMORY_BYTES = MIB
"""From this size on the first measurement has a new server, whose memory is measured."""

_UNITS = {"GiB": GIB, "MiB": MIB, "KiB": KIB, "B": 1}


@dataclass(frozen=True, slots=True)
class Cell:
    """What every contestant is measured in before the next begins.

    Attributes:
        size: bytes of the tensor.
        clients: how many call at once.
        transport: "tcp" or "unix".
    """

    size: int
    clients: int
    transport: str

    @property
    def is_fresh(self) -> bool:
        """Whether every measurement starts its processes anew."""
        return self.size >= FRESH_BYTES

    def __str__(self) -> str:
        """Returns what a reader calls the cell."""
        return f"{format_size(self.size)}, {self.clients} client{'s' * (self.clients > 1)}, {self.transport}"


def format_size(size: int) -> str:
    """Returns "0", "64 KiB", "1 GiB"."""
    for unit, factor in _UNITS.items():
        if size and size % factor == 0:
            return f"{size // factor} {unit}"
    return "0"


def parse_size(text: str) -> int:
    """Reads "0", "64KiB", "1 GiB", in multiples of 8 bytes.

    Raises:
        ValueError: it is none of these.
    """
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            size = int(text.removesuffix(unit)) * factor
            break
    else:
        size = int(text)
    if size < 0 or size % 8:
        message = f"{text}: a size is a multiple of 8 bytes"
        raise ValueError(message)
    return size


def list_cells(sizes: Iterable[int], clients: Iterable[int], transports: Iterable[str]) -> list[Cell]:
    """Returns every combination, transport after transport, small sizes first."""
    sizes, clients = sorted(sizes), sorted(clients)
    return [Cell(size, count, transport) for transport in transports for size in sizes for count in clients]
