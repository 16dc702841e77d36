"""Rounds: contestant after contestant, round after round, so that the machine's drift hits all of them."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.cells import KIB, MEMORY_BYTES, Cell
from benchmarks.contestants import Contestant
from benchmarks.environments import Peers
from benchmarks.meters import read_cpu_seconds, read_memory, read_peak_memory, reset_peak_memory
from benchmarks.processes import ProcessError, ServerProcess, WorkerProcess
from benchmarks.results import OK, Entry, Measurement

_WARM_UP_SECONDS = 0.2
_LEAST_ROUNDS = 2
"""So many are made of a cell even where they take longer than `Pace.cell_seconds`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is measured.

    Attributes:
        rounds: of each cell.
        seconds: that the clients call in each measurement; a call that has begun is awaited.
        cell_seconds: a contestant that has been measured for so long in a cell misses the rounds after the second.
        timeout: how long the longest answer may take.
        memory_bytes: what the tensors in flight of a cell may take.
    """

    rounds: int
    seconds: float
    cell_seconds: float
    timeout: float
    memory_bytes: int


@dataclass
class Pair:
    """A server and the worker that calls it."""

    server: ServerProcess
    worker: WorkerProcess
    prepared: Cell | None = None
    """The cell whose tensors the clients hold."""

    def stop(self) -> None:
        """Ends both."""
        self.worker.stop()
        self.server.stop()


@dataclass
class Arena:
    """The pairs that are running, one a contestant at most."""

    peers: Peers
    pace: Pace
    _pairs: dict[str, Pair] = field(default_factory=dict)

    def measure_cell(self, cell: Cell, contestants: Sequence[Contestant]) -> list[Entry]:
        """Measures all contestants in a cell."""
        entries = {one.name: Entry(cell, one.name, self._find_status(one, cell)) for one in contestants}
        for number in range(self.pace.rounds):
            turn = number % max(1, len(contestants))
            for contestant in (*contestants[turn:], *contestants[:turn]):
                entry = entries[contestant.name]
                if entry.status == OK and self._has_time(entry):
                    self._measure(contestant, entry, number)
            _show(f"{cell}: round {number + 1} of {self.pace.rounds}")
        return list(entries.values())

    def close(self) -> None:
        """Ends all pairs."""
        for name in list(self._pairs):
            self.close_pair(name)

    def close_pair(self, name: str) -> None:
        """Ends the pair of a contestant."""
        pair = self._pairs.pop(name, None)
        if pair is not None:
            pair.stop()

    def _find_status(self, contestant: Contestant, cell: Cell) -> str:
        obstacle = contestant.find_obstacle(cell, self.pace.memory_bytes)
        if obstacle is None and not self.peers.is_installed(contestant):
            return "not installed"
        return obstacle or OK

    def _has_time(self, entry: Entry) -> bool:
        return len(entry.rounds) < _LEAST_ROUNDS or entry.seconds < self.pace.cell_seconds

    def _measure(self, contestant: Contestant, entry: Entry, number: int) -> None:
        cell = entry.cell
        weighs = number == 0 and cell.size >= MEMORY_BYTES
        try:
            if weighs or cell.is_fresh:
                self.close_pair(contestant.name)
            pair = self._open_pair(contestant, cell)
            rest = self._rest(pair, cell) if weighs else 0
            self._prepare(pair, cell)
            entry.rounds.append(self._run(pair, number))
            if weighs:
                entry.peak_bytes = max(0, read_peak_memory(pair.server.pid) - rest)
        except ProcessError as error:
            entry.status = str(error)
            self.close_pair(contestant.name)
            _show(f"{cell}: {contestant.name} {error}")
        if cell.is_fresh:
            self.close_pair(contestant.name)

    def _open_pair(self, contestant: Contestant, cell: Cell) -> Pair:
        pair = self._pairs.get(contestant.name)
        if pair is not None and pair.prepared and pair.prepared.transport != cell.transport:
            self.close_pair(contestant.name)
            pair = None
        if pair is None:
            with ExitStack() as stack:
                server = ServerProcess(contestant.server, cell.transport, self.peers)
                stack.callback(server.stop)
                pair = Pair(server, WorkerProcess(contestant, server.address, self.peers))
                stack.pop_all()
            self._pairs[contestant.name] = pair
        return pair

    def _rest(self, pair: Pair, cell: Cell) -> int:
        """Lets every client make small calls, and returns the memory that the server has after them."""
        pair.worker.ask(self.pace.timeout, do="prepare", size=KIB, clients=cell.clients)
        memory = read_memory(pair.server.pid)
        reset_peak_memory(pair.server.pid)
        return memory

    def _prepare(self, pair: Pair, cell: Cell) -> None:
        if pair.prepared == cell:
            return
        pair.worker.ask(self.pace.timeout, do="prepare", size=cell.size, clients=cell.clients)
        pair.prepared = cell
        if cell.size <= MEMORY_BYTES:
            pair.worker.ask(self.pace.timeout, do="run", seconds=min(_WARM_UP_SECONDS, self.pace.seconds))

    def _run(self, pair: Pair, number: int) -> Measurement:
        before = read_cpu_seconds(pair.server.pid)
        answer = pair.worker.ask(self.pace.timeout + self.pace.seconds, do="run", seconds=self.pace.seconds)
        spent = read_cpu_seconds(pair.server.pid) - before
        return Measurement(number, answer["calls"], answer["seconds"], answer["p50"], answer["p99"], spent)


def _show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
