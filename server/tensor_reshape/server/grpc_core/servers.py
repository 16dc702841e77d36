"""A server of gRPC's core, and the thread that receives its calls.

The core delivers as many calls as the server has requested, in order of arrival, and keeps the others. If the server
requested one call at a time, a call would wait for all calls that another client has begun: 16 connections with 60
small calls each made others wait 0.6 s. The server therefore requests `REQUESTED_CALLS`. If many calls arrive in a row,
it queues them by client. Queueing a call costs a small fraction of serving it.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from types import MethodType
from typing import Any, TypeAlias

import grpc

from tensor_reshape.server.engine.fair_queues import FairQueue
from tensor_reshape.server.engine.sources import Source
from tensor_reshape.server.grpc_core.binding import load
from tensor_reshape.server.grpc_core.calls import Call, NewCall

Make: TypeAlias = Callable[[NewCall], Call]
"""Makes a call object, which is then begun. If it raises, for example a MemoryError, the call is cancelled."""

FindSource: TypeAlias = Callable[[NewCall], Source]
"""Returns the address and connection of the client of a call."""

REQUESTED_CALLS = 1024
"""Number of calls that are requested from the core or queued here. Further calls wait in the core."""

QUEUE_AFTER = 8
"""Number of calls that begin at once after a moment without events. Further calls are queued.

Queueing a call costs one more poll, a tenth of the cost of a small call. The number of running calls is not a suitable
measure, because watches and idle streams stay open as long as their client.
"""

_EVENTS_PER_CALL = 2
# While events arrive all the time, a queued call begins after this number of events of running calls. A small call has
# two events, so calls begin at the rate at which they end. If no event is pending, a queued call begins in any case.

_LOGGER = logging.getLogger(__name__)
_TURN_SECONDS = 1.0  # longest time between two turns of the thread
_core: Any = load()


class _Tag(Enum):
    """The tags of events that do not belong to a call."""

    NEW_CALL = auto()
    SHUTDOWN = auto()


class Server:
    """A server. Bind it with `add_port`, then call `start`.

    Attributes:
        turns: number of events that the receiving thread has processed, including one-second timeouts. Only that thread
            writes it.
        on_unknown: called with the name of a called method that has no route; must not raise.
    """

    def __init__(
        self,
        routes: Mapping[str, Make],
        unknown: Callable[[str, NewCall], Call],
        find_source: FindSource,
        options: Sequence[tuple[str, int]],
    ) -> None:
        """Makes a server that does not listen yet.

        Args:
            routes: the function that makes a call, by full method path.
            unknown: makes the call of a method without a route.
            find_source: returns the client of a call that is queued.
            options: channel arguments of gRPC's core.
        """
        self.turns = 0
        self.on_unknown: Callable[[str], None] = lambda _name: None
        self._routes = {name.encode(): route for name, route in routes.items()}  # the core has method paths as bytes
        self._unknown = unknown
        self._find_source = find_source
        self._completions = _core.CompletionQueue()
        self._server = _core.Server(tuple(options), False)  # noqa: FBT003 - no xDS
        self._server.register_completion_queue(self._completions)
        self._thread = threading.Thread(target=self._serve, name="serve", daemon=True)
        self._over = threading.Event()
        self._lock = threading.Lock()  # guards `_is_stopping`, after which no call is requested, and the destruction
        self._is_stopping = False
        # Only the receiving thread uses the following attributes.
        self._calls: set[Call] = set()  # calls that have begun and are not over
        self._queue: FairQueue[NewCall] = FairQueue()
        self._asked = 0  # calls that are requested from the core and not delivered yet
        self._unqueued = 0  # calls that began without queueing since the last moment without events
        self._events = 0  # events of running calls since the last queued call began
        self._is_shut = False

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Binds an address and returns its port.

        Raises:
            RuntimeError: the address cannot be bound.
        """
        inner: Any = credentials
        security = () if credentials is None else (inner._credentials,)
        port = int(self._server.add_http2_port(address.encode(), *security))
        if not port:  # the core gives no reason
            message = f"{address} cannot be bound"
            raise RuntimeError(message)
        return port

    def start(self) -> None:
        """Starts the server."""
        self._server.start()
        for _ in range(REQUESTED_CALLS):
            self._ask()
        self._thread.start()

    @property
    def has_failed(self) -> bool:
        """Whether the receiving thread has ended although the server was not stopped."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._over.is_set()

    def stop(self) -> None:
        """Stops listening, sends GOAWAY and rejects new calls. Running calls continue. May be called again."""
        with self._lock:
            if self._is_stopping:
                return
            self._is_stopping = True
            if self._thread.ident is None:  # never started, and the core can only shut down a server that was started
                self._server.start()
                self._thread.start()
            self._server.shutdown(self._completions, _Tag.SHUTDOWN)

    def cancel_calls(self) -> None:
        """Cancels the running calls of a server that is stopping."""
        with self._lock:
            if not self._over.is_set():
                self._server.cancel_all_calls()

    def wait(self, seconds: float) -> bool:
        """Waits at most `seconds` for the end of all calls of a stopping server. Returns whether they have ended."""
        return self._over.wait(seconds)

    def _serve(self) -> None:
        poll = self._completions.poll
        waiting = self._queue.queues
        # The event has no variable, because it may hold the last reference to a call, which would then stay alive.
        while self._process(poll(0 if waiting else time.time() + _TURN_SECONDS)):
            self.turns += 1
        with self._lock:  # cancelling calls of a server that is being destroyed would crash the process
            self._server.destroy()
            self._over.set()

    def _process(self, event: Any) -> bool:
        """Processes an event. Returns whether to continue."""
        tag = event.tag
        if type(tag) is MethodType:  # an event of a call; first, because most events are
            if tag(event):
                self._calls.discard(tag.__self__)
            self._events += 1
            if self._events >= _EVENTS_PER_CALL and self._queue.queues:
                self._begin_next()
        elif tag is _Tag.NEW_CALL:
            self._take_in(event)
        elif tag is _Tag.SHUTDOWN:
            self._is_shut = True
        elif event.completion_type == _core.CompletionType.queue_timeout:
            self._unqueued = 0
            self._begin_next()
        return not self._is_shut or bool(self._calls or self._asked or self._queue.queues)

    def _take_in(self, event: Any) -> None:
        """Begins a call, or queues it."""
        self._asked -= 1
        if not event.success:  # the server is stopping, and the core ends each request for a call
            return
        is_queued = bool(self._unqueued >= QUEUE_AFTER or self._queue.queues)
        try:
            new = NewCall(event)
            if is_queued:
                self._queue.push(self._find_source(new), new)
        except Exception:
            _LOGGER.exception("bug")
            event.call.cancel()
            self._ask()
            return
        if not is_queued:
            self._unqueued += 1
            self._begin(new)

    def _begin_next(self) -> None:
        self._events = 0
        if self._queue.queues:
            self._begin(self._queue.pop())

    def _begin(self, new: NewCall) -> None:
        """Begins a call and requests another one from the core."""
        make = self._routes.get(new.method)
        try:
            call = make(new) if make is not None else self._make_unknown(str(new.method, "utf8", "replace"), new)
        except Exception:
            _LOGGER.exception("bug")
            new.call.cancel()
        else:
            self._calls.add(call)
            try:
                call.begin()
            except Exception as error:  # noqa: BLE001 - it would end the thread that receives every call
                call.on_bug(error)
        self._ask()

    def _make_unknown(self, name: str, new: NewCall) -> Call:
        self.on_unknown(name)
        return self._unknown(name, new)

    def _ask(self) -> None:
        with self._lock:
            if not self._is_stopping:
                self._server.request_call(self._completions, self._completions, _Tag.NEW_CALL)
                self._asked += 1
