"""The numbers of a process that serves, in memory which another process may read.

- A tally is an array of floats. The layout says which stands for what, and follows from the table of the metrics and
  the methods alone: whoever serves and whoever shows have the same.
- Each number has one writer at a time; which thread that is, is said where it is written. Readers take no lock: a
  number is eight bytes at a multiple of eight, which no machine that this runs on writes in two steps.
- In shared memory a tally outlives the process that writes it: the counters of a worker that was killed are not lost,
  and the next one goes on from them. Gauges of a process that is gone mean nothing: see `clear_gauges`.
"""

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import product

import grpc

from tensor_reshape.server.metrics.families import GAUGE, OTHER, PROCESS_FAMILIES, VALUES, Family
from tensor_reshape.wire.methods import split_method

CODES = tuple(code.name for code in grpc.StatusCode)
"""What a call may end with."""

Labels = tuple[str, ...]
"""The values of a metric's labels, in their order."""

_FLOAT_BYTES = 8


class Layout:
    """Where everything is.

    Attributes:
        methods: the service and the method of each, by the full name of the method; in the order of the numbers.
        cells: where the numbers of each metric begin, by the values of its labels.
        size: how many numbers there are.
    """

    def __init__(self, methods: Sequence[str]) -> None:
        """Lays out the metrics of the methods with these full names, `/service/method`."""
        self.methods = {name: split_method(name) for name in methods}
        self.cells: dict[Family, dict[Labels, int]] = {}
        self.size = 0
        for family in PROCESS_FAMILIES:
            labels = list(self._list_labels(family))
            self.cells[family] = {one: self.size + family.width * number for number, one in enumerate(labels)}
            self.size += family.width * len(labels)

    def _list_labels(self, family: Family) -> Iterable[Labels]:
        if "method" not in family.labels:
            return product(*(VALUES[label] for label in family.labels))
        methods = (*self.methods.values(), (OTHER, OTHER))
        if "code" in family.labels:
            return ((*method, code) for method in methods for code in CODES)
        return methods


class Tally:
    """The numbers of one process.

    Attributes:
        layout: which number is what.
        numbers: all of them.
    """

    def __init__(self, layout: Layout, descriptor: int | None = None) -> None:
        """Starts with zeros, or with what is in the memory file `descriptor`; see `make_memory`."""
        self.layout = layout
        size = layout.size * _FLOAT_BYTES
        memory = bytearray(size) if descriptor is None else mmap.mmap(descriptor, size)
        self.numbers = memoryview(memory).cast("d")

    def clear_gauges(self) -> None:
        """Forgets what was so in a process that has ended, or in the one before this."""
        for family, cells in self.layout.cells.items():
            if family.kind == GAUGE:
                for begin in cells.values():
                    self.numbers[begin] = 0.0

    def observe(self, family: Family, begin: int, value: float) -> None:
        """Counts a value in the histogram that begins there."""
        buckets, numbers = family.buckets, self.numbers
        numbers[begin + bisect_left(buckets, value)] += 1.0
        numbers[begin + len(buckets) + 1] += value


def make_memory(layout: Layout) -> int:
    """Returns the descriptor of a memory file of zeros for a tally that processes share; Linux alone has such files."""
    descriptor = os.memfd_create("tensor-reshape-metrics")
    os.ftruncate(descriptor, layout.size * _FLOAT_BYTES)
    return descriptor
