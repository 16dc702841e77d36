"""Calls of health and reflection without a thread, by the parts of grpcio that `inline` knows.

All but `give_up` and `look` is called on the thread that receives calls, with no lock of another call held for long:
nothing here waits for a caller.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from grpc import _server  # the part in question
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.auxiliary.calls import AuxiliaryCall, answer, make_room
from tensor_reshape.server.auxiliary.health import Health, Watch
from tensor_reshape.server.auxiliary.places import Places
from tensor_reshape.server.calls.inline import _Call
from tensor_reshape.server.calls.router import Submit
from tensor_reshape.wire.status import Status

_LOGGER = logging.getLogger(__name__)


def serve_inline(open_call: "Callable[[Any, Any], BoundedCall]") -> Submit:
    """Returns what begins a call of grpcio's; `open_call` makes it of its event and its state."""

    def submit(function: Callable[..., Any], /, *args: Any) -> "Future[Any]":
        del function
        _, rpc_event, state = args[:3]
        try:
            open_call(rpc_event, state).begin()
        except Exception:
            _LOGGER.exception("bug")
            rpc_event.call.cancel()
        return _DONE

    return submit


class BoundedCall(_Call):
    """A call that takes a place while it is without its message; of `_Call` it has what talks to grpcio."""

    def __init__(self, name: str, places: Places[AuxiliaryCall], rpc_event: Any, state: Any) -> None:
        """Begins with `begin`."""
        # Not that of `_Call`: this call has no ticket, since it takes no part in the admission.
        self._name = name
        self._places = places
        self._call = rpc_event.call
        self._state = state
        self._writing = False

    def begin(self) -> None:
        """Receives a message; called with the call's lock held, and the server's."""
        self._state.callbacks.append(self._leave)
        self._receive()
        make_room(self._places, self, self._find_peer())

    def give_up(self, status: Status) -> None:
        """Ends the call; called on any thread."""
        with self._state.condition:
            if self._state.statused or self._writing:  # the caller does not take what was sent
                self._call.cancel()
            else:
                self._end(status)

    def _receive(self) -> None:
        with self._state.condition:
            if _server._is_rpc_state_active(self._state):
                self._start((cygrpc.ReceiveMessageOperation(0),), self._on_message)

    def _on_message(self, event: Any) -> None:
        self._take(event.batch_operations[0].message())

    def _write(self, response: bytes) -> None:
        """Sends a message; with the call's lock held, and while it is active."""
        self._writing = True
        operations = (*self._build_initial_metadata(), cygrpc.SendMessageOperation(response, 0))
        self._start(operations, self._on_write)

    def _on_write(self, event: Any) -> None:
        raise NotImplementedError

    def _leave(self) -> None:
        self._places.free(self)

    def _fail(self, error: Exception) -> None:
        _LOGGER.error("bug", exc_info=error, extra={"method": self._name})
        self._call.cancel()


class AnswerCall(BoundedCall):
    """One message, and its answer."""

    def __init__(
        self,
        name: str,
        places: Places[AuxiliaryCall],
        respond: Callable[[bytes], bytes | Status],
        rpc_event: Any,
        state: Any,
    ) -> None:
        """Begins with `begin`."""
        super().__init__(name, places, rpc_event, state)
        self._respond = respond

    def _take(self, raw: bytes | None) -> None:
        self._places.free(self)
        outcome = answer(self._name, self._respond, raw)
        if isinstance(outcome, Status):
            self._end(outcome)
        else:
            self._end(response=outcome)


class ExchangeCall(AnswerCall):
    """Any number of messages, each answered before the next one is received. It keeps its place to the end."""

    def _take(self, raw: bytes | None) -> None:
        outcome = None if raw is None else answer(self._name, self._respond, raw)
        with self._state.condition:
            if not isinstance(outcome, bytes):
                self._end(outcome)
            elif _server._is_rpc_state_active(self._state):
                self._write(outcome)

    def _on_write(self, event: Any) -> None:
        del event
        self._writing = False
        self._receive()


class WatchCall(BoundedCall):
    """One call of Watch: the latest news goes out as soon as what was sent before has gone."""

    def __init__(self, name: str, health: Health, rpc_event: Any, state: Any) -> None:
        """Begins with `begin`."""
        super().__init__(name, health.silent, rpc_event, state)
        self._health = health
        self._watch: Watch | None = None

    def look(self) -> None:
        """Tells the caller what he does not know yet; called on any thread."""
        with self._state.condition:
            if self._watch is None or self._writing or not _server._is_rpc_state_active(self._state):
                return
            news = self._watch.find_news()
            if news is not None:
                self._write(news)
            elif self._watch.is_over:
                self._end()

    def _take(self, raw: bytes | None) -> None:
        self._places.free(self)
        outcome = answer(self._name, self._health.open_watch, raw)
        if isinstance(outcome, Status):
            self._end(outcome)
            return
        self._watch = outcome
        self._health.join(self, self._find_peer())
        self.look()

    def _on_write(self, event: Any) -> None:
        del event
        self._writing = False
        self.look()

    def _leave(self) -> None:
        super()._leave()
        self._health.leave(self)


_DONE: "Future[Any]" = Future()
_DONE.set_result(None)
