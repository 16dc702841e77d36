"""Rounds. Compared entries are measured in turn in each round, so that drift of the machine affects all of them.

1. Only measurements of the same round are compared: a ratio has two of them.
2. Each round begins with another entry, and each entry follows another one. The effects of an entry on the next one (a
   warm cache, a lower clock frequency, memory that must be freed) are therefore spread over all entries.
3. A server and its workers start with each group and run in all its rounds, because starting processes takes longer
   than a measurement.
4. Clients in several processes begin at the same time, and the time is from the first begin to the last end.
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Self

from benchmarks.contestants import KIB, MIB, TENSOR, Cell, Contestant
from benchmarks.environments import Environment
from benchmarks.processes import ProcessError, ServerProcess, WorkerProcess, read_memory, reset_peak_memory

# Connections, caches and the processor's clock are stable after some hundred small calls.
_WARM_UP_SECONDS = 0.2
_LEAST_ROUNDS, _ENTRY_SECONDS = 2, 60
"""An entry that has been measured for this long is not measured after the second round. Some calls take a minute."""

# The maximum time for a response. It includes making a large tensor and checking its bytes.
_ANSWER_SECONDS = 300
_STATUS_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Pace:
    """The number and duration of measurements."""

    rounds: int  # the rounds of each group
    seconds: float  # the duration of each measurement; a running call is completed
    measures_memory: bool = True  # whether the servers' memory is measured


@dataclass(frozen=True, slots=True)
class Sample:
    """One entry in one round."""

    calls: int  # the number of completed calls
    seconds: float  # from the first begin of a call to the last end
    p50: float  # the median latency; with several processes, the median of their medians
    p99: float  # the 99th percentile; with several processes, the greatest of theirs

    @property
    def rate(self) -> float:
        """The number of calls per second."""
        return self.calls / self.seconds


@dataclass(slots=True)
class Entry:
    """A contestant in a cell."""

    contestant: Contestant  # the contestant
    cell: Cell  # the cell
    status: str = ""  # why the entry was not measured completely; "" if it was
    peak_bytes: int | None = None  # the server's peak memory above its idle memory; None if it was not measured
    samples: dict[int, Sample] = field(default_factory=dict)  # the measurements by round

    @property
    def failure(self) -> str:
        """The status as text that fits into a table cell; "" if there was no failure."""
        return self.status[:_STATUS_LENGTH].replace("|", "/")

    def list_samples(self) -> list[Sample]:
        """Returns all samples, or none if the entry was not measured completely."""
        return [] if self.status else [*self.samples.values()]

    def list_values(self, name: str) -> list[float]:
        """Returns an attribute of all samples, or nothing if the entry was not measured completely."""
        return [*map(attrgetter(name), self.list_samples())]

    def compare(self, under: Self, name: str = "rate") -> list[float]:
        """Returns the ratios of an attribute to that of another entry, round by round."""
        rounds = [] if self.status or under.status else sorted(self.samples.keys() & under.samples.keys())
        read = attrgetter(name)
        return [read(self.samples[number]) / read(under.samples[number]) for number in rounds]


def measure_group(entries: Sequence[Entry], environments: Mapping[str, Environment], pace: Pace) -> None:
    """Measures entries that are compared with each other; a failure becomes the status of its entry."""
    with _RunningProcesses(environments, pace) as arena:
        for number in range(pace.rounds):
            for entry in arrange_round(entries, number):
                spent = sum(sample.seconds for sample in entry.samples.values())
                if not entry.status and (number < _LEAST_ROUNDS or spent < _ENTRY_SECONDS):
                    arena.measure(entry, number)
            print(f"{entries[0].cell}: round {number + 1} of {pace.rounds}", file=sys.stderr, flush=True)


def arrange_round(entries: Sequence[Entry], number: int) -> list[Entry]:
    """Returns the order of a round; in as many rounds as entries (an even number), each follows each other once."""
    # Williams' Latin square: the steps of 0, 1, -1, 2, -2 ... are all different, so no pair occurs twice in a square.
    # For an odd number, every second square is reversed, and each entry follows each other one twice in two squares.
    count = len(entries)
    places = [(step + 1) // 2 * (1 if step % 2 else -1) for step in range(count)]
    sign = -1 if count % 2 and number // count % 2 else 1
    return [entries[(number + sign * place) % count] for place in places]


def format_number(number: float) -> str:
    """Returns three significant digits: "12,300", "45.1", "0.670"."""
    digits = next((digits for limit, digits in ((100, 0), (10, 1), (1, 2), (0.1, 3)) if number >= limit), 4)
    return f"{number:,.{digits}f}"


def find_quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns the lower quartile, the median and the upper quartile of at least one value."""
    # Quartiles are used, not the mean and its deviation, because other load on the machine makes some rounds much
    # longer.
    low, middle, high = statistics.quantiles(values, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return low, middle, high


def format_quartiles(values: Sequence[float]) -> str:
    """Returns the median with the quartiles in brackets: "2.61 (2.55-2.70)"; a dash for no value."""
    if not values:
        return "-"
    low, middle, high = map(format_number, find_quartiles(values))
    return f"{middle} ({low}-{high})"


def format_latency(entry: Entry) -> str:
    """Returns the medians of p50 and p99 in milliseconds; a dash if there are none."""
    samples = entry.list_samples()
    values = ([one.p50 for one in samples], [one.p99 for one in samples])
    return " / ".join(format_number(statistics.median(one) * 1e3) for one in values) if samples else "-"


class _Processes:
    """The processes of a contestant: its server, if it has one, and its workers."""

    def __init__(self, contestant: Contestant, cell: Cell, environment: Environment) -> None:
        with ExitStack() as stack:
            # The stack ends the server if the worker does not start.
            command, ready = contestant.server, contestant.ready
            self._server = ServerProcess(command, environment, ready) if command else None
            if self._server:
                stack.callback(self._server.stop)
            address = self._server.address if self._server else "-"
            self._workers = []
            for _ in range(cell.processes):
                self._workers.append(WorkerProcess(contestant.client, address, environment, contestant.experiments))
                stack.callback(self._workers[-1].stop)
            self.stop = stack.pop_all().close
        self.server_id = self._server.pid if self._server else None
        self._prepared: set[Cell] = set()

    def prepare(self, cell: Cell, warm_up_seconds: float) -> None:
        """Connects the clients, checks a result, and makes calls for a while, once for each cell."""
        if cell in self._prepared:
            return
        self.send(cell, do="prepare")
        self._prepared.add(cell)
        # For a large tensor, the check is a call that takes long enough to be the warm-up.
        if cell.load != TENSOR or cell.size <= MIB:
            self.send(cell, do="run", seconds=warm_up_seconds)

    def send(self, cell: Cell, **question: Any) -> list[dict[str, Any]]:
        """Sends a command to all workers at the same time; each has its part of the clients."""
        part = cell._replace(clients=cell.clients // cell.processes, processes=1)
        for worker in self._workers:
            worker.send(cell=part, **question)
        return [worker.await_response(_ANSWER_SECONDS) for worker in self._workers]

    def run(self, cell: Cell, seconds: float) -> Sample:
        """Makes calls with the clients."""
        answers = self.send(cell, do="run", seconds=seconds)
        return Sample(
            calls=sum(answer["calls"] for answer in answers),
            seconds=max(answer["end"] for answer in answers) - min(answer["begin"] for answer in answers),
            p50=statistics.median(answer["p50"] for answer in answers),
            p99=max(answer["p99"] for answer in answers),
        )

    def measure_idle_memory(self, cell: Cell) -> int:
        """Makes small calls with every client, and returns the server's memory after them."""
        self.prepare(cell._replace(size=KIB), 0)
        # Read while the clients are connected, because threads and connection buffers are not a cost of a large tensor.
        memory = read_memory(self.server_id or 0)
        reset_peak_memory(self.server_id or 0)
        self.send(cell, do="close")
        self._prepared.clear()
        return memory


class _RunningProcesses:
    """The running pairs, at most one for each contestant."""

    def __init__(self, environments: Mapping[str, Environment], pace: Pace) -> None:
        self._environments = environments
        self._pace = pace
        self._pairs: dict[str, _Processes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._pairs):
            self._stop(name)

    def measure(self, entry: Entry, number: int) -> None:
        """Adds a sample to an entry, or sets its status if something failed."""
        name = entry.contestant.name
        is_large = entry.cell.load == TENSOR and entry.cell.size >= MIB
        measures_memory = self._pace.measures_memory and is_large and number == 0
        try:
            if name not in self._pairs:
                environment = self._environments[entry.contestant.environment]
                self._pairs[name] = _Processes(entry.contestant, entry.cell, environment)
            self._measure(self._pairs[name], entry, number, measures_memory=measures_memory)
        except ProcessError as error:
            entry.status = str(error)
            print(f"{entry.cell}: {name} {error}", file=sys.stderr, flush=True)
        # A failed call may still run in the server, so its processes are not used again.
        if entry.status:
            self._stop(name)

    def _measure(self, pair: _Processes, entry: Entry, number: int, *, measures_memory: bool) -> None:
        rest = pair.measure_idle_memory(entry.cell) if measures_memory else 0
        pair.prepare(entry.cell, min(_WARM_UP_SECONDS, self._pace.seconds))
        entry.samples[number] = pair.run(entry.cell, self._pace.seconds)
        if measures_memory and pair.server_id:
            entry.peak_bytes = max(0, read_memory(pair.server_id, peak=True) - rest)

    def _stop(self, name: str) -> None:
        pair = self._pairs.pop(name, None)
        if pair:
            pair.stop()
