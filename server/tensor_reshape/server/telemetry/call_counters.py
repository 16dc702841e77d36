"""Counts calls by method, status code, reason, duration and message sizes.

- `CallCounters` is a `lifecycle.Journal`, so it counts each event in constant time while the engine holds its lock. No
  count is lost, and the counting needs no other lock or thread. Another lock or thread would cost more time than the
  counting.
- A response message of a stream is counted when it is sent. The response of a unary call is counted when the call ends.
- A call is counted with the first status that the server decides on. If the client disconnects before the server has
  decided on a status, the call is counted as cancelled.
"""

from collections.abc import Sequence
from time import monotonic

from tensor_reshape.server.calls.results import GONE, CallResult
from tensor_reshape.server.engine.lifecycle import Event, Lifecycle, State
from tensor_reshape.server.telemetry.metric_families import (
    CALL_SECONDS,
    OTHER,
    REJECTIONS,
    REQUEST_BYTES,
    RESPONSE_BYTES,
)
from tensor_reshape.server.telemetry.shared_counters import MethodCells, SharedCounters, observe
from tensor_reshape.wire.methods import split_method

# These global names are used instead of the members of the Enum, because looking up a member is slow. Every call uses
# these global names several times.
_ARRIVE, _SENT, _END, _OVER = Event.ARRIVE, Event.SENT, Event.END, Event.OVER
_DONE, _ENDING = State.DONE, State.ENDING


class CallCounters:
    """Counts the calls of one engine."""

    def __init__(self, counters: SharedCounters, methods: Sequence[str]) -> None:
        """Stores the counts in `counters`, which must have been created for the same methods."""
        self._rows = {name: MethodCells(counters, split_method(name)) for name in methods}
        self._other = MethodCells(counters, (OTHER, OTHER))
        self._reasons = {reason: cell for (reason,), cell in counters.cells[REJECTIONS].items()}
        # these calls still run, but their results (status codes) are already decided
        self._results: dict[Lifecycle, CallResult] = {}

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        """Counts an event (see `lifecycle.Journal`)."""
        if before is _DONE:
            return  # events after the end of a call are not counted
        if event is _ARRIVE:
            if life.state is not before:
                observe(REQUEST_BYTES, self._find_row(life).requests, size)
        elif event is _SENT or (event is _END and size and life.state is _ENDING is not before):
            observe(RESPONSE_BYTES, self._find_row(life).responses, size)
        if event is _OVER or result is not None:
            decided = self._results.get(life)
            self._results[life] = (result or decided if event is _OVER else decided or result) or GONE
        if life.state is _DONE:
            self._finish(life)

    def count_other(self) -> None:
        """Counts a call to an unknown method. Only the thread that receives calls may call this method."""
        self._other.codes["UNIMPLEMENTED"][0] += 1.0

    def _find_row(self, life: Lifecycle) -> MethodCells:
        return self._rows.get(life.method, self._other)

    def _finish(self, life: Lifecycle) -> None:
        row = self._find_row(life)
        code, reason = self._results.pop(life)
        row.codes[code][0] += 1.0
        if reason:
            self._reasons[reason][0] += 1.0
        observe(CALL_SECONDS, row.seconds, monotonic() - life.began)
