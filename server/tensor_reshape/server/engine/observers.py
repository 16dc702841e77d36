"""Observers, which are the call logs that record calls that are over (see `CallLog`).

- When a call begins, each observer chooses whether to record this call, before the server creates other objects for
  the call. A call that no observer chooses has no record.
- An observer gets every admitted or rejected call that it has chosen, when the call is over. It may get two calls at
  the same time, on two threads. No thread holds the engine's lock while it calls an observer. An observer must not
  block, because it may run on the thread that receives calls.
- Observers get no health and reflection calls, because the engines for these calls have no observers. They get no calls
  that were refused before they began (see `Engine.count_refusal`).
- If an observer raises an exception, the exception is logged and affects neither the call nor other observers.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.results import GONE, CallResult, EndedCall
from tensor_reshape.server.engine.lifecycle import Event, Lifecycle, State

_LOGGER = logging.getLogger(__name__)

_STAYING = frozenset({Event.ENTER, Event.GRANT, Event.SENT})
"""The events that count although they do not change the state of the call."""


class CallRecord(EndedCall):
    """The facts about a call, which the record collects as a `Journal` of this call."""

    def __init__(self, info: CallInfo, on_end: Callable[["CallRecord"], None]) -> None:
        """Starts before the first event. `on_end` gets the record when the call is over."""
        super().__init__(info)
        self._since = self.began
        self._on_end = on_end

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        """Adds an event, unless it changes nothing because the end of the call was already decided."""
        after = life.state
        if before is State.DONE or (after is before and event not in _STAYING):
            return
        now, name = time.monotonic(), before.name.lower()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now
        if event is Event.ARRIVE:
            self.request_messages += 1
            self.request_bytes += size
        # For a unary call, the event END contains the size of the response. If the client has disconnected, END leads
        # to the state DONE, and no response is sent.
        elif event is Event.SENT or (event is Event.END and size and after is State.ENDING):
            self.response_messages += 1
            self.response_bytes += size
        if event is Event.OVER:
            self.result = result or self.result or GONE
        elif self.result is None:
            self.result = result
        if after is State.DONE:
            self._on_end(self)


def attempt(action: Callable[..., Any], argument: object) -> Any:  # noqa: ANN401 - what the action returns
    """Returns what a method of an observer returns, or None after an exception, which is a bug of the observer."""
    try:
        return action(argument)
    except Exception:
        _LOGGER.exception("bug")
        return None
