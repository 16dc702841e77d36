"""Counts calls, by what happens to them.

- A `lifecycle.Journal`: it notes each move in constant time, with the lock of the engine. So no count is lost, and
  none takes another lock; nothing is told to other threads, which would cost more than to count.
- What a call is counted by is what `observers` tells of it: an answer when it is sent, of a unary call when it ends the
  call; and the first end that is decided, unless the caller went before it was told.
"""

from time import monotonic

from tensor_reshape.server.engine.lifecycle import GONE, Ending, Event, Lifecycle, State
from tensor_reshape.server.metrics.families import CALL_SECONDS, CALLS, OTHER, REFUSALS, REQUEST_BYTES, RESPONSE_BYTES
from tensor_reshape.server.metrics.tallies import CODES, Tally

# Every call comes by them several times: to look up a member of an Enum takes its time.
_ENTER, _ARRIVE, _SENT, _END, _OVER = Event.ENTER, Event.ARRIVE, Event.SENT, Event.END, Event.OVER
_DONE, _ENDING = State.DONE, State.ENDING


class _Row:
    """Where the numbers of a method begin."""

    __slots__ = ("codes", "requests", "responses", "seconds")

    def __init__(self, tally: Tally, method: tuple[str, str]) -> None:
        cells = tally.layout.cells
        self.codes = {code: cells[CALLS][*method, code] for code in CODES}
        self.seconds = cells[CALL_SECONDS][method]
        self.requests, self.responses = cells[REQUEST_BYTES][method], cells[RESPONSE_BYTES][method]


class CallTally:
    """Counts the calls of one engine."""

    def __init__(self, tally: Tally) -> None:
        """Counts into `tally`."""
        self._tally = tally
        layout = tally.layout
        self._rows = {name: _Row(tally, method) for name, method in layout.methods.items()}
        self._other = _Row(tally, (OTHER, OTHER))
        self._reasons = {reason: begin for (reason,), begin in layout.cells[REFUSALS].items()}
        # Of the calls that have begun and are not over: when they began, and how they end where that is decided.
        self._began: dict[Lifecycle, float] = {}
        self._endings: dict[Lifecycle, Ending] = {}

    def note(self, life: Lifecycle, event: Event, before: State, size: int, ending: Ending | None) -> None:
        """Counts a move; see `lifecycle.Journal`."""
        if before is _DONE:
            return  # an event that comes late
        if event is _ENTER:
            self._began[life] = monotonic()
        elif event is _ARRIVE:
            if life.state is not before:
                self._tally.observe(REQUEST_BYTES, self._find_row(life).requests, size)
        elif event is _SENT or (event is _END and size and life.state is _ENDING is not before):
            self._tally.observe(RESPONSE_BYTES, self._find_row(life).responses, size)
        if event is _OVER or ending is not None:
            self._end(life, event, ending)
        if life.state is _DONE:
            self._finish(life)

    def list_open(self) -> tuple[Lifecycle, ...]:
        """Returns the calls that have begun and are not over; safe on any thread: a dict is copied in one step."""
        return tuple(self._began)

    def count_other(self) -> None:
        """Counts a call of a method that nobody serves; on the thread that receives calls alone."""
        self._tally.numbers[self._other.codes["UNIMPLEMENTED"]] += 1.0

    def _find_row(self, life: Lifecycle) -> _Row:
        return self._rows.get(life.method, self._other)

    def _end(self, life: Lifecycle, event: Event, ending: Ending | None) -> None:
        decided = self._endings.get(life)
        self._endings[life] = (ending or decided if event is _OVER else decided or ending) or GONE

    def _finish(self, life: Lifecycle) -> None:
        row, numbers = self._find_row(life), self._tally.numbers
        code, reason = self._endings.pop(life)
        numbers[row.codes[code]] += 1.0
        if reason:
            numbers[self._reasons[reason]] += 1.0
        self._tally.observe(CALL_SECONDS, row.seconds, monotonic() - self._began.pop(life))
