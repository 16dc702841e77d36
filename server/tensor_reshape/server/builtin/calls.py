"""Calls of health, reflection and channelz on gRPC's core.

Everything except `give_up` and `look` runs on the thread that receives calls, so nothing here waits for a caller. The
lock of the slots is never held together with the lock of a call: a call that has to go is given up without the lock of
the slots.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.builtin.bounded_calls import STOPPING, answer, ask_gates, make_room
from tensor_reshape.server.builtin.health import Health, Watch
from tensor_reshape.server.builtin.methods import BuiltinMethod, Shape
from tensor_reshape.server.engine.call_logs import log_bad_end
from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.sources import Sources
from tensor_reshape.server.engine.statuses import End, choose_end, refuse_large_message
from tensor_reshape.server.grpc_core.calls import Call, NewCall
from tensor_reshape.wire.status import Status

_Answer = TypeVar("_Answer")


def make_call(method: BuiltinMethod, sources: Sources, new: NewCall) -> "BuiltinCall":
    """Returns a call of a method, idle until `begin`; `sources` finds whose it is."""
    return _KINDS[method.shape](method, sources, new)


class BuiltinCall(Call):
    """A call that takes a slot while it is without its message."""

    def __init__(self, method: BuiltinMethod, sources: Sources, new: NewCall) -> None:
        """Idle until `begin`; `sources` finds whose it is."""
        super().__init__(method.name, new)
        self._served = method
        self._sources = sources
        self._began = time.monotonic()

    def begin(self) -> None:
        """Receives a message, unless a gate refuses the call; see `Call`."""
        address = self._sources.find(self.peer, self._metadata).address
        end = ask_gates(self._served.gates, self._find_head, address)
        if end is not None:
            self._refuse(end)
            return
        self.receive()
        make_room(self._served.slots, self, address)

    def give_up(self, refusal: LimitError | None) -> None:
        """Ends the call, with a refusal where the caller can be told; None: the server stops. From any thread."""
        with self.lock:
            if refusal is None and self.is_ended:
                return  # a server that stops asks again and again: the end has only just been sent
            if self.is_ended or self.is_sending:  # the caller does not take what was sent
                self.cancel()
            elif refusal is None:
                self.finish(STOPPING)
            else:
                self._refuse(choose_end(refusal, self.head))

    def on_over(self) -> None:
        """Gives the slot back; see `Call`."""
        self._served.slots.free(self)
        if self._served.gates:
            self.head.leave()

    def _answer(self, respond: Callable[[bytes], _Answer | Status], raw: bytes | None) -> _Answer | End:
        """Returns the answer to a message, or what ends the call; see `bounded_calls.answer`."""
        if self.is_refused:
            return choose_end(refuse_large_message(), self.head)
        return answer(self._find_head, respond, raw)

    def _refuse(self, end: End) -> None:
        log_bad_end(self.head, end.ending, self._began, end.field)
        self.finish(end.status)

    def _find_head(self) -> CallHead:
        return self.head


class AnswerCall(BuiltinCall):
    """One message, and its answer."""

    def on_message(self, raw: bytes | None) -> None:
        """Answers it; see `Call`."""
        self._served.slots.free(self)
        if not self.is_active:
            return  # it was given up: nobody hears an answer
        outcome = self._answer(self._served.respond, raw)
        if isinstance(outcome, End):
            self._refuse(outcome)
        else:
            self.finish(response=outcome)


class ExchangeCall(BuiltinCall):
    """Any number of messages, each answered before the next one is received. It keeps its slot to the end."""

    def begin(self) -> None:
        """Begins the call, and has the core tell when its caller goes; see `BuiltinCall`."""
        self.watch()
        super().begin()

    def on_message(self, raw: bytes | None) -> None:
        """Answers it, or ends the call with the caller's side; see `Call`."""
        has_ended = raw is None and not self.is_refused
        outcome = None if has_ended else self._answer(self._served.respond, raw)
        with self.lock:
            if outcome is None:
                self.finish()
            elif isinstance(outcome, End):
                self._refuse(outcome)
            elif self.is_active:
                self.send(outcome)

    def on_sent(self, size: int) -> None:
        """Receives the next message; see `Call`."""
        del size
        self.receive()


class WatchCall(BuiltinCall):
    """One call of Watch: the latest news goes out as soon as what was sent before has gone."""

    _watch: Watch | None = None  # until the message has come

    def __init__(self, method: BuiltinMethod, sources: Sources, new: NewCall) -> None:
        """Idle until `begin`; see `BuiltinCall`."""
        super().__init__(method, sources, new)
        self._health = method.health or Health()

    def begin(self) -> None:
        """Begins the call, and has the core tell when its caller goes; see `BuiltinCall`."""
        self.watch()
        super().begin()

    def look(self) -> None:
        """Tells the caller what it does not know yet; called on any thread."""
        with self.lock:
            if self._watch is None or self.is_sending or not self.is_active:
                return
            news = self._watch.find_news()
            if news is not None:
                self.send(news)
            elif self._watch.is_over:
                self.finish()

    def on_message(self, raw: bytes | None) -> None:
        """Begins to tell; see `Call`."""
        self._served.slots.free(self)
        if not self.is_active:
            return
        outcome = self._answer(self._health.open_watch, raw)
        if isinstance(outcome, End):
            self._refuse(outcome)
            return
        self._watch = outcome
        self._health.join(self, self.peer)
        self.look()

    def on_sent(self, size: int) -> None:
        """Looks for more news; see `Call`."""
        del size
        self.look()

    def on_over(self) -> None:
        """Forgets the watcher; see `Call`."""
        super().on_over()
        self._health.leave(self)


_KINDS: dict[Shape, type[BuiltinCall]] = {
    Shape.ANSWER: AnswerCall,
    Shape.EXCHANGE: ExchangeCall,
    Shape.WATCH: WatchCall,
}
