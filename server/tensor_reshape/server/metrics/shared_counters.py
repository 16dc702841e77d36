"""The numbers that one process counts, in memory that another process may read.

- Where a number is follows from the metrics and the methods, so the process that counts and the one that shows agree.
- Each number has one writer at a time. Readers take no lock, because a number is eight bytes at a multiple of eight,
  which no machine that this runs on writes in two steps.
- A memory file outlives the process that counts in it: the counters of a worker that was killed are not lost, and the
  next worker goes on from them. `clear_gauges` forgets what was only true of the killed one.
"""

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeAlias

from google.rpc import code_pb2

from tensor_reshape.server.metrics.families import GAUGE, OTHER, PROCESS_FAMILIES, VALUES, Family
from tensor_reshape.wire.methods import split_method

Labels: TypeAlias = tuple[str, ...]
"""The values of a metric's labels, in their order."""

Cell: TypeAlias = "memoryview[float]"
"""The numbers of a metric for some labels, as many as `Family.width`."""

CODES = tuple(code_pb2.Code.keys())
"""What a call may end with."""

_FLOAT_BYTES = 8


class SharedCounters:
    """The numbers of one process.

    Attributes:
        cells: of each metric, by the values of its labels.
    """

    def __init__(self, methods: Sequence[str], descriptor: int | None = None) -> None:
        """Starts with zeros, or with what is in a memory file.

        Args:
            methods: the full names of those that are counted, `/service/method`.
            descriptor: of the file, from `os.memfd_create`; None: memory of this process.
        """
        places = list(_list_places(methods))
        size = _FLOAT_BYTES * sum(family.width for family, _ in places)
        if descriptor is not None:
            os.ftruncate(descriptor, size)  # a new file is empty; one that has this size stays as it is
        numbers = memoryview(bytearray(size) if descriptor is None else mmap.mmap(descriptor, size)).cast("d")
        self.cells: dict[Family, dict[Labels, Cell]] = {}
        for family, labels in places:
            self.cells.setdefault(family, {})[labels] = numbers[: family.width]
            numbers = numbers[family.width :]

    def set(self, family: Family, value: float, *labels: str) -> None:
        """Sets a gauge."""
        self.cells[family][labels][0] = value

    def clear_gauges(self) -> None:
        """Sets all gauges to zero."""
        for family, cells in self.cells.items():
            for labels in cells if family.kind == GAUGE else ():
                self.set(family, 0.0, *labels)


def observe(family: Family, cell: Cell, value: float) -> None:
    """Counts a value in a histogram."""
    cell[bisect_left(family.buckets, value)] += 1.0
    cell[-1] += value


def _list_places(methods: Sequence[str]) -> Iterator[tuple[Family, Labels]]:
    names: list[Labels] = [*map(split_method, methods), (OTHER, OTHER)]
    by_code: list[Labels] = [(*name, code) for name in names for code in CODES]
    for family in PROCESS_FAMILIES:
        if "method" in family.labels:
            yield from product([family], by_code if "code" in family.labels else names)
        else:
            yield from product([family], product(*(VALUES[label] for label in family.labels)))
