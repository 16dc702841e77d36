"""The metrics of one process, in memory that the process with the metrics port can read.

- The position of each number follows from the definitions of the metrics and the methods, so all processes agree on it.
- Each number has one writer at a time. Readers need no lock, because a number has eight bytes at a multiple of eight,
  and supported machines write these at once.
- The memory file outlives its process. If a worker is killed, its successor continues its counters, after
  `clear_gauges` has reset the gauges.
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
"""The label values of a metric, in the order of its labels."""

Cell: TypeAlias = "memoryview[float]"
"""The numbers of a metric for one combination of labels, as many as `Family.width`."""

CODES = tuple(code_pb2.Code.keys())
"""The names of the status codes."""

_FLOAT_BYTES = 8


class SharedCounters:
    """The metrics of one process.

    Attributes:
        cells: the numbers of each metric, by its label values.
    """

    def __init__(self, methods: Sequence[str], descriptor: int | None = None) -> None:
        """Opens the memory file, or creates private memory that is filled with zeros.

        Args:
            methods: the full names of the counted methods, `/service/method`.
            descriptor: the memory file, from `os.memfd_create`; None: private memory.
        """
        keys = list(_list_labels(methods))
        size = _FLOAT_BYTES * sum(family.width for family, _ in keys)
        if descriptor is not None:
            os.ftruncate(descriptor, size)  # a file of this size keeps its contents
        numbers = memoryview(bytearray(size) if descriptor is None else mmap.mmap(descriptor, size)).cast("d")
        self.cells: dict[Family, dict[Labels, Cell]] = {}
        for family, labels in keys:
            self.cells.setdefault(family, {})[labels] = numbers[: family.width]
            numbers = numbers[family.width :]

    def set(self, family: Family, value: float, *labels: str) -> None:
        """Sets a gauge, or a counter that has another source."""
        self.cells[family][labels][0] = value

    def clear_gauges(self) -> None:
        """Sets all gauges to zero."""
        for family, cells in self.cells.items():
            for labels in cells if family.kind == GAUGE else ():
                self.set(family, 0.0, *labels)


def observe(family: Family, cell: Cell, value: float) -> None:
    """Adds a value to a histogram."""
    cell[bisect_left(family.buckets, value)] += 1.0
    cell[-1] += value


def _list_labels(methods: Sequence[str]) -> Iterator[tuple[Family, Labels]]:
    names: list[Labels] = [*map(split_method, methods), (OTHER, OTHER)]
    by_code: list[Labels] = [(*name, code) for name in names for code in CODES]
    for family in PROCESS_FAMILIES:
        if "method" in family.labels:
            yield from product([family], by_code if "code" in family.labels else names)
        else:
            yield from product([family], product(*(VALUES[label] for label in family.labels)))
