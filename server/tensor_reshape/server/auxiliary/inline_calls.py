"""Calls of health and reflection without a thread: see `calls.core_calls`.

- All but `give_up` and `look` is called on the thread that receives calls: nothing here waits for a caller.
- The lock of the slots is never waited for with the condition of a call, except when that call begins, and nothing is
  done under it: whoever has to go is told afterwards.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.auxiliary.bounded_calls import STOPPING, AuxiliaryCall, answer, make_room
from tensor_reshape.server.auxiliary.call_slots import CallSlots
from tensor_reshape.server.auxiliary.health import Health, Watch
from tensor_reshape.server.calls.call_logs import log_bad_end
from tensor_reshape.server.calls.core_calls import DONE, CoreCall
from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.heads import CallHead
from tensor_reshape.server.calls.resets import ResetBuckets
from tensor_reshape.server.calls.router import Submit
from tensor_reshape.server.calls.statuses import End, choose_end
from tensor_reshape.wire.status import Status

_LOGGER = logging.getLogger(__name__)


def serve_inline(open_call: "Callable[[Any, Any], BoundedCall]", resets: ResetBuckets, gates: Gates) -> Submit:
    """Returns what begins a call of grpcio's; `open_call` makes it of its event and its state."""

    def submit(function: Callable[..., Any], /, *args: Any) -> "Future[Any]":
        del function
        _, rpc_event, state = args[:3]
        try:
            open_call(rpc_event, state).begin(resets, gates)
        except Exception:  # it would end the thread that receives calls
            _LOGGER.exception("bug")
            rpc_event.call.cancel()
        return DONE

    return submit


class BoundedCall(CoreCall):
    """A call that takes a slot while it is without its message. It takes no part in the admission."""

    def __init__(self, method: str, slots: CallSlots[AuxiliaryCall], rpc_event: Any, state: Any) -> None:
        """Idle until `begin`."""
        super().__init__(method, rpc_event, state)
        self._slots = slots
        self._began = time.monotonic()
        self._is_gated = False  # whether gates were asked for it

    def begin(self, resets: ResetBuckets, gates: Gates) -> None:
        """Receives a message; called with the condition of the call, and a lock of the server's.

        Args:
            resets: is told how the call ends.
            gates: are asked for it.
        """
        self._resets = resets
        self.watch_end()
        self._is_gated = bool(gates)
        refusal = gates.find_refusal(self.head) if gates else None
        if refusal is not None:
            self._refuse(choose_end(refusal, self.head))
            return
        self.receive()
        make_room(self._slots, self, self.peer)

    def give_up(self, refusal: LimitError | None) -> None:
        """Ends the call; called on any thread."""
        with self._state.condition:
            if self._state.statused or self._is_sending:  # the caller does not take what was sent
                self.cancel()
            elif refusal is None:
                self.finish(STOPPING)
            else:
                self._refuse(choose_end(refusal, self.head))

    def _refuse(self, end: End) -> None:
        log_bad_end(self.head, end.ending, self._began, end.field)
        self.finish(end.status)

    def _find_head(self) -> CallHead:
        return self.head

    def _on_over(self) -> None:
        self._slots.free(self)
        self._tell_end(self._resets, self.peer)
        if self._is_gated:
            self.head.leave()


class AnswerCall(BoundedCall):
    """One message, and its answer."""

    def __init__(
        self,
        method: str,
        slots: CallSlots[AuxiliaryCall],
        respond: Callable[[bytes], bytes | Status],
        rpc_event: Any,
        state: Any,
    ) -> None:
        """Idle until `begin`."""
        super().__init__(method, slots, rpc_event, state)
        self._respond = respond

    def _on_read(self, raw: bytes | None) -> None:
        self._slots.free(self)
        outcome = answer(self._find_head, self._respond, raw)
        if isinstance(outcome, End):
            self._refuse(outcome)
        else:
            self.finish(response=outcome)


class ExchangeCall(AnswerCall):
    """Any number of messages, each answered before the next one is received. It keeps its slot to the end."""

    def _on_read(self, raw: bytes | None) -> None:
        self._has_answered |= raw is not None
        outcome = None if raw is None else answer(self._find_head, self._respond, raw)
        with self._state.condition:
            if outcome is None:
                self.finish()
            elif isinstance(outcome, End):
                self._refuse(outcome)
            elif self._is_active():
                self.send(outcome)

    def _on_sent(self, size: int) -> None:
        del size
        self.receive()


class WatchCall(BoundedCall):
    """One call of Watch: the latest news goes out as soon as what was sent before has gone."""

    def __init__(self, method: str, health: Health, rpc_event: Any, state: Any) -> None:
        """Idle until `begin`."""
        super().__init__(method, health.silent, rpc_event, state)
        self._health = health
        self._watch: Watch | None = None  # until the message has come

    def look(self) -> None:
        """Tells the caller what it does not know yet; called on any thread."""
        with self._state.condition:
            if self._watch is None or self._is_sending or not self._is_active():
                return
            news = self._watch.find_news()
            if news is not None:
                self.send(news)
            elif self._watch.is_over:
                self.finish()

    def _on_read(self, raw: bytes | None) -> None:
        self._slots.free(self)
        self._has_answered = raw is not None
        outcome = answer(self._find_head, self._health.open_watch, raw)
        if isinstance(outcome, End):
            self._refuse(outcome)
            return
        self._watch = outcome
        self._health.join(self, self.peer)
        self.look()

    def _on_sent(self, size: int) -> None:
        del size
        self.look()

    def _on_over(self) -> None:
        super()._on_over()
        self._health.leave(self)
