"""Results: what was measured, as it is stored in results.json."""

import dataclasses
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cells import Cell

OK = "ok"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One contestant in one round of a cell.

    Attributes:
        round: which.
        calls: how many were answered.
        seconds: how long they took, all clients together.
        p50: the median latency in seconds.
        p99: the 99th percentile.
        cpu_seconds: of the server and all it started.
    """

    round: int
    calls: int
    seconds: float
    p50: float
    p99: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.calls / self.seconds


@dataclass(slots=True)
class Entry:
    """One contestant in one cell.

    Attributes:
        cell: the cell.
        contestant: its name.
        status: "ok", or why there is nothing, or not all.
        peak_bytes: the most memory of the server above what it has at rest; None: not measured.
        rounds: the measurements.
    """

    cell: Cell
    contestant: str
    status: str = OK
    peak_bytes: int | None = None
    rounds: list[Measurement] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        """The median of calls a second; None where it was not, or not wholly, measured."""
        return statistics.median(one.rate for one in self.rounds) if self.rounds and self.status == OK else None

    @property
    def seconds(self) -> float:
        """How long the measurements took."""
        return sum(one.seconds for one in self.rounds)

    @property
    def cpu_seconds_per_gb(self) -> float | None:
        """Processor seconds of the server for 10^9 bytes of tensor, which go both ways; None where there are none."""
        moved = sum(one.calls for one in self.rounds) * self.cell.size / 1e9
        return sum(one.cpu_seconds for one in self.rounds) / moved if moved and self.status == OK else None

    @property
    def peak_per_tensor(self) -> float | None:
        """Bytes of memory above rest for each byte of the tensors in flight; None where it was not measured."""
        if self.peak_bytes is None or not self.cell.size or self.status != OK:
            return None
        return self.peak_bytes / (self.cell.size * self.cell.clients)


@dataclass(slots=True)
class Results:
    """A run.

    Attributes:
        machine: what it ran on.
        settings: what it was asked for.
        entries: everything measured.
    """

    machine: dict[str, Any]
    settings: dict[str, Any]
    entries: list[Entry] = field(default_factory=list)

    def find(self, cell: Cell, contestant: str) -> Entry | None:
        """Returns the entry, None where there is none."""
        return next((one for one in self.entries if one.cell == cell and one.contestant == contestant), None)

    def list_cells(self) -> list[Cell]:
        """Returns the cells, transport after transport, small ones first."""
        return sorted({one.cell for one in self.entries}, key=lambda cell: (cell.transport, cell.clients, cell.size))

    def save(self, path: Path) -> None:
        """Writes the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Reads the file."""
        content = json.loads(path.read_text())
        entries = [_read_entry(row) for row in content["entries"]]
        return cls(content["machine"], content["settings"], entries)


def _read_entry(row: dict[str, Any]) -> Entry:
    cell = Cell(**row["cell"])
    rounds = [Measurement(**one) for one in row["rounds"]]
    return Entry(cell, row["contestant"], row["status"], row["peak_bytes"], rounds)
