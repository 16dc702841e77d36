"""Counts calls over gRPC.

- `CallCounters` is a `lifecycle.Journal`. The engine calls it for each event of a call while the engine holds its lock.
  No count is therefore lost. Counting takes constant time. It needs no other lock or thread, which would cost more time
  than the counting itself.
- A response message of a stream is counted when it is sent. The response of a unary call is counted when the call ends.
- A call is counted under the first status that the server chooses for it. If the client disconnects before the server
  has decided on a status, the call is counted as cancelled.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from tensor_reshape.server.calls.results import GONE, CallResult
from tensor_reshape.server.engine.lifecycle import Event, Lifecycle, State
from tensor_reshape.server.telemetry.metrics import (
    CONNECTIONS,
    OPEN_CALLS,
    OPEN_STREAMS,
    PROCESSING,
    RECEIVE,
    REQUEST_BYTES,
    RESPONSE_BYTES,
    USED_BYTES,
    MethodCounters,
    SharedCounters,
    observe,
)

# The code uses these global names instead of the members of the Enum, because looking up a member is slow, and every
# call does it several times.
_ARRIVE, _SENT, _END, _OVER = Event.ARRIVE, Event.SENT, Event.END, Event.OVER
_DONE, _ENDING = State.DONE, State.ENDING


class CallCounters(MethodCounters):
    """Counts the calls of one engine.

    Calls to unknown methods do not reach the engine, so the receiving thread counts them.
    """

    def __init__(self, counters: SharedCounters, methods: Sequence[str]) -> None:
        """Uses the memory `counters`, which must have been created for the same methods."""
        super().__init__(counters, methods)
        # This dict contains the results of calls that still run, although the server has already chosen their status.
        self._results: dict[Lifecycle, CallResult] = {}

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        """Counts an event of a call (see `lifecycle.Journal`)."""
        if before is _DONE:
            return  # events after the end of a call are not counted
        if event is _ARRIVE:
            if life.state is not before:
                observe(REQUEST_BYTES, self.find_row(life.method).requests, size)
        elif event is _SENT or (event is _END and size and life.state is _ENDING is not before):
            observe(RESPONSE_BYTES, self.find_row(life.method).responses, size)
        if event is _OVER or result is not None:
            decided = self._results.get(life)
            self._results[life] = (result or decided if event is _OVER else decided or result) or GONE
        if life.state is _DONE:
            self.count(life.method, self._results.pop(life), life.began)


def write_calls(counters: SharedCounters, lives: Collection[Lifecycle], streams: Collection[str]) -> None:
    """Writes the gauges about running gRPC calls. This takes less than a millisecond.

    Args:
        counters: the memory that stores the metrics of this process.
        lives: the running calls. They are read without the engine's lock, so a call may change in the meantime. In this
            case, the next update corrects the gauges.
        streams: the full names of the streaming methods.
    """
    holdings, states = [life.holdings for life in lives], Counter(life.state.name.lower() for life in lives)
    for (state,) in counters.cells[OPEN_CALLS]:
        counters.set(OPEN_CALLS, states[state], state)
    counters.set(OPEN_STREAMS, sum(life.method in streams for life in lives))
    counters.set(CONNECTIONS, len({life.source.connection for life in lives}))
    counters.set(USED_BYTES, sum(received for received, _ in holdings), RECEIVE)
    counters.set(USED_BYTES, sum(processed for _, processed in holdings), PROCESSING)
