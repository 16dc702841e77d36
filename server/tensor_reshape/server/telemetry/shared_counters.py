"""The metrics of one process. The metrics are in memory that the process with the metrics port can also read.

- The definitions of the metrics and the list of methods determine the position of each number in the shared memory. All
  processes therefore use the same positions.
- Only one thread at a time writes a number in the shared memory. Readers need no lock, because a number has eight bytes
  at an address that is a multiple of eight. Supported machines write such a number in one step.
- The memory file of a worker outlives the worker. If a worker is killed, the next worker resets the gauges with
  `clear_gauges` and continues the counters.
"""

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeAlias

from google.rpc import code_pb2

from tensor_reshape.server.telemetry.metric_families import (
    CALL_SECONDS,
    CALLS,
    GAUGE,
    OTHER,
    PROCESS_FAMILIES,
    REQUEST_BYTES,
    RESPONSE_BYTES,
    VALUES,
    Family,
)
from tensor_reshape.wire.methods import split_method

Labels: TypeAlias = tuple[str, ...]
"""The label values of a metric, in the order of its labels."""

Cell: TypeAlias = "memoryview[float]"
"""The numbers of a metric for one combination of labels. `Family.width` is the number of these numbers."""

CODES = tuple(code_pb2.Code.keys())
"""The names of the status codes."""

_FLOAT_BYTES = 8


class SharedCounters:
    """The metrics of one process.

    Attributes:
        cells: for each metric, a mapping from label values to numbers.
    """

    def __init__(self, methods: Sequence[str], descriptor: int | None = None) -> None:
        """Opens the memory file, or creates private memory that is filled with zeros.

        Args:
            methods: the full names of the counted methods, `/service/method`.
            descriptor: the descriptor of the memory file from `os.memfd_create`, or None for private memory.
        """
        keys = list(_list_labels(methods))
        size = _FLOAT_BYTES * sum(family.width for family, _ in keys)
        if descriptor is not None:
            os.ftruncate(descriptor, size)  # `ftruncate` does not change a file that already has this size
        numbers = memoryview(bytearray(size) if descriptor is None else mmap.mmap(descriptor, size)).cast("d")
        self.cells: dict[Family, dict[Labels, Cell]] = {}
        for family, labels in keys:
            self.cells.setdefault(family, {})[labels] = numbers[: family.width]
            numbers = numbers[family.width :]

    def set(self, family: Family, value: float, *labels: str) -> None:
        """Sets the value of a gauge, or of a counter that is copied from another module."""
        self.cells[family][labels][0] = value

    def clear_gauges(self) -> None:
        """Sets all gauges to zero."""
        for family, cells in self.cells.items():
            for labels in cells if family.kind == GAUGE else ():
                self.set(family, 0.0, *labels)


class MethodCells:
    """The numbers of one method.

    Attributes:
        codes: the number of calls, by status code.
        seconds: the histogram of durations.
        requests: the histogram of the sizes of requests.
        responses: the histogram of the sizes of responses.
    """

    __slots__ = ("codes", "requests", "responses", "seconds")

    def __init__(self, counters: SharedCounters, method: tuple[str, str]) -> None:
        """Finds the numbers of a method, which is a pair of a service and a name."""
        self.codes = {code: counters.cells[CALLS][*method, code] for code in CODES}
        self.seconds = counters.cells[CALL_SECONDS][method]
        self.requests, self.responses = counters.cells[REQUEST_BYTES][method], counters.cells[RESPONSE_BYTES][method]


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
