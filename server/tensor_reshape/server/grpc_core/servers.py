"""A server of gRPC's core, and the thread that receives its calls.

gRPC's core delivers calls in the order of arrival. gRPC's core delivers as many calls as the server has requested, and
keeps further calls. If the server requested one call at a time, a call would have to wait for all calls that another
client began earlier. In a test with such a server, 16 connections with 60 small calls each made other clients wait for
0.6 s. The server therefore requests `REQUESTED_CALLS` calls from gRPC's core. If many calls arrive in a row, the server
queues them by client, so that clients take turns. Queueing costs a small fraction of the time that a call takes.
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
"""A function that makes the `Call` object for a new call. The server then calls `begin` on this object.

If this function raises an exception, for example a MemoryError, the call is cancelled.
"""

FindSource: TypeAlias = Callable[[NewCall], Source]
"""Returns the address and connection of the client of a new call."""

REQUESTED_CALLS = 1024
"""The number of calls that are requested from the core or queued by this server.

Calls above this number wait in the core.
"""

QUEUE_AFTER = 8
"""The number of calls that begin at once after a moment without pending events. Further calls are queued by client.

Queueing a call needs one more poll, which takes a tenth of the time of a small call. This limit does not count running
calls, because watches and idle streams stay open as long as the connections of their clients.
"""

# On a busy server, events are always pending. In that case, the next queued call begins after _EVENTS_PER_CALL events
# of running calls. A small call has two events, so a queued call begins each time a small call ends. If no event is
# pending, a queued call begins at once.
_EVENTS_PER_CALL = 2

_LOGGER = logging.getLogger(__name__)
_TURN_SECONDS = 1.0  # the longest time for which the receiving thread waits for an event
_core: Any = load()


class _Tag(Enum):
    """The tags of events that do not belong to a running call."""

    NEW_CALL = auto()
    SHUTDOWN = auto()


class Server:
    """A server of gRPC's core. Bind the server with `add_port`, and then call `start`.

    Attributes:
        turns: the number of events that the receiving thread has processed. Each second without events also counts as
            an event. Only the receiving thread changes this number.
        on_unknown: a function that is called with the name of a method without a route. The function must not raise an
            exception.
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
            routes: a mapping from the full path of each method to the function that makes its `Call` objects.
            unknown: the function that makes the `Call` objects for methods without a route.
            find_source: a function that returns the client of a call. The server only uses this function for calls that
                it queues.
            options: channel arguments of gRPC's core.
        """
        self.turns = 0
        self.on_unknown: Callable[[str], None] = lambda _name: None
        # The core of gRPC represents method paths as bytes.
        self._routes = {name.encode(): route for name, route in routes.items()}
        self._unknown = unknown
        self._find_source = find_source
        self._completions = _core.CompletionQueue()
        self._server = _core.Server(tuple(options), False)  # noqa: FBT003 - no xDS
        self._server.register_completion_queue(self._completions)
        self._thread = threading.Thread(target=self._serve, name="serve", daemon=True)
        self._over = threading.Event()
        self._lock = threading.Lock()  # this lock guards `_is_stopping` and the destruction of `_server`
        self._is_stopping = False  # if this flag is True, the server requests no more calls
        # Only the receiving thread uses the following attributes.
        self._calls: set[Call] = set()  # the calls that have begun and have not ended
        self._queue: FairQueue[NewCall] = FairQueue()
        self._requested = 0  # the number of requested calls that the core has not delivered yet
        self._unqueued = 0  # the number of calls that began without being queued, since there was last no pending event
        self._events = 0  # the number of events of running calls since a queued call last began
        self._is_shut = False  # whether gRPC's core has confirmed the shutdown of the server

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Binds an address and returns its port.

        Raises:
            RuntimeError: the address cannot be bound.
        """
        inner: Any = credentials
        security = () if credentials is None else (inner._credentials,)
        port = int(self._server.add_http2_port(address.encode(), *security))
        if not port:  # the core does not report why the address cannot be bound
            message = f"{address} cannot be bound"
            raise RuntimeError(message)
        return port

    def start(self) -> None:
        """Starts to listen and to receive calls."""
        self._server.start()
        for _ in range(REQUESTED_CALLS):
            self._request_call()
        self._thread.start()

    @property
    def has_stopped_receiving(self) -> bool:
        """Whether the receiving thread has ended although the server was not stopped."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._over.is_set()

    def stop(self) -> None:
        """Stops listening, sends GOAWAY and rejects new calls.

        Running calls continue. Calling this method again does nothing.
        """
        with self._lock:
            if self._is_stopping:
                return
            self._is_stopping = True
            # The server was not started, but gRPC's core can only shut down a server that was started.
            if self._thread.ident is None:
                self._server.start()
                self._thread.start()
            self._server.shutdown(self._completions, _Tag.SHUTDOWN)

    def cancel_calls(self) -> None:
        """Cancels the running calls of a server that is stopping."""
        with self._lock:
            if not self._over.is_set():
                self._server.cancel_all_calls()

    def wait(self, seconds: float) -> bool:
        """Waits at most `seconds` until all calls of a stopping server have ended.

        Returns whether all calls have ended.
        """
        return self._over.wait(seconds)

    def _serve(self) -> None:
        poll = self._completions.poll
        waiting = self._queue.queues
        # The event is not stored in a variable. It may have the last reference to a finished call, and this call must
        # be freed at once.
        while self._process(poll(0 if waiting else time.time() + _TURN_SECONDS)):
            self.turns += 1
        # Without this lock, `cancel_calls` could use a destroyed server, which would crash the process.
        with self._lock:
            self._server.destroy()
            self._over.set()

    def _process(self, event: Any) -> bool:
        """Processes an event. Returns whether more events can follow."""
        tag = event.tag
        # This check comes first, because most events belong to running calls.
        if type(tag) is MethodType:
            if tag(event):
                self._calls.discard(tag.__self__)
            self._events += 1
            if self._events >= _EVENTS_PER_CALL and self._queue.queues:
                self._begin_next()
        elif tag is _Tag.NEW_CALL:
            self._accept(event)
        elif tag is _Tag.SHUTDOWN:
            self._is_shut = True
        elif event.completion_type == _core.CompletionType.queue_timeout:
            self._unqueued = 0
            self._begin_next()
        return not self._is_shut or bool(self._calls or self._requested or self._queue.queues)

    def _accept(self, event: Any) -> None:
        """Begins or queues a call that gRPC's core has delivered."""
        self._requested -= 1
        if not event.success:  # the server is stopping, so the core has no call for this request
            return
        is_queued = bool(self._unqueued >= QUEUE_AFTER or self._queue.queues)
        try:
            new = NewCall(event)
            if is_queued:
                self._queue.push(self._find_source(new), new)
        except Exception:
            _LOGGER.exception("bug")
            event.call.cancel()
            self._request_call()
            return
        if not is_queued:
            self._unqueued += 1
            self._begin(new)

    def _begin_next(self) -> None:
        self._events = 0
        if self._queue.queues:
            self._begin(self._queue.pop())

    def _begin(self, new: NewCall) -> None:
        """Begins a call and requests another call from gRPC's core."""
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
            except Exception as error:  # noqa: BLE001 - it would end the thread that receives all calls
                call.on_bug(error)
        self._request_call()

    def _make_unknown(self, name: str, new: NewCall) -> Call:
        self.on_unknown(name)
        return self._unknown(name, new)

    def _request_call(self) -> None:
        with self._lock:
            if not self._is_stopping:
                self._server.request_call(self._completions, self._completions, _Tag.NEW_CALL)
                self._requested += 1
