"""A server of gRPC's core, and the thread that receives its calls.

The core hands over as many calls as it is asked for, in the order in which they came; all others wait in that order. If
the core were asked for one at a time, a call would wait behind all calls that another client has begun: 16 connections
with 60 small calls each kept all others waiting for 0.6 s. So the core is asked for `ASKED_CALLS`. If it hands over
many in a row, they are queued by caller: to queue a call costs a small part of what it costs to serve it.
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
"""Makes a call, which is begun then. If it raises, for want of memory for example, the call is cancelled."""

FindSource: TypeAlias = Callable[[NewCall], Source]
"""Returns whose call it is: the address of the caller, and its connection."""

ASKED_CALLS = 1024
"""How many calls the core is asked for, less those that are queued: above as many, the others wait in the core."""

QUEUE_AFTER = 8
"""How many calls are begun as they come, after each time that no event waited; from then on they are queued.

To queue a call takes one poll more, a tenth of what a small call costs. The number of running calls is not a measure,
because watches and idle streams run for as long as their client is there.
"""

_EVENTS_PER_CALL = 2
# Events of calls under way after which a queued call is begun, where there is always another event. A small call has
# two, so as many are begun as end, and the core need not be asked in vain; with none left, one is begun in any case.

_LOGGER = logging.getLogger(__name__)
_TURN_SECONDS = 1.0  # how often the thread makes a turn at least
_core: Any = load()


class _Tag(Enum):
    """What the events are for that belong to no call."""

    NEW_CALL = auto()
    SHUTDOWN = auto()


class Server:
    """A server; it is bound by `add_port`, and serves from `start` on.

    Attributes:
        turns: how many events the receiving thread has seen, timeouts of a second included; no other thread writes it.
        on_unknown: called with the name of a method that is called and has no route; must not raise.
    """

    def __init__(
        self,
        routes: Mapping[str, Make],
        unknown: Callable[[str, NewCall], Call],
        find_source: FindSource,
        options: Sequence[tuple[str, int]],
    ) -> None:
        """Makes a server that listens nowhere yet.

        Args:
            routes: what makes a call, by the full name of its method.
            unknown: makes the call of a method that has no route.
            find_source: returns whose call it is, if calls are queued.
            options: channel arguments of gRPC's core.
        """
        self.turns = 0
        self.on_unknown: Callable[[str], None] = lambda _name: None
        self._routes = {name.encode(): route for name, route in routes.items()}  # by bytes: so the core has it
        self._unknown = unknown
        self._find_source = find_source
        self._completions = _core.CompletionQueue()
        self._server = _core.Server(tuple(options), False)  # noqa: FBT003 - no xDS
        self._server.register_completion_queue(self._completions)
        self._thread = threading.Thread(target=self._serve, name="serve", daemon=True)
        self._over = threading.Event()
        self._lock = threading.Lock()  # guards the next line, so that no call is asked for once it is set, and the end
        self._is_stopping = False
        # What follows is touched by the thread that receives calls alone.
        self._calls: set[Call] = set()  # that have been begun and are not over
        self._queue: FairQueue[NewCall] = FairQueue()
        self._asked = 0  # calls that the core was asked for, and has not handed over
        self._unqueued = 0  # calls that were begun as they came, since no event waited
        self._events = 0  # of calls under way, since one of the queue was begun
        self._is_shut = False

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Binds an address, and returns its port.

        Raises:
            RuntimeError: it cannot be bound.
        """
        inner: Any = credentials
        security = () if credentials is None else (inner._credentials,)
        port = int(self._server.add_http2_port(address.encode(), *security))
        if not port:  # the core says no more than that
            message = f"{address} cannot be bound"
            raise RuntimeError(message)
        return port

    def start(self) -> None:
        """Starts to serve."""
        self._server.start()
        for _ in range(ASKED_CALLS):
            self._ask()
        self._thread.start()

    @property
    def is_deaf(self) -> bool:
        """Whether the thread that receives calls has ended although nobody has stopped the server."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._over.is_set()

    def stop(self) -> None:
        """Stops listening, has clients leave (GOAWAY) and refuses calls; those under way go on. May be called again."""
        with self._lock:
            if self._is_stopping:
                return
            self._is_stopping = True
            if self._thread.ident is None:  # it has never served, and the core shuts down what has been started alone
                self._server.start()
                self._thread.start()
            self._server.shutdown(self._completions, _Tag.SHUTDOWN)

    def cancel_calls(self) -> None:
        """Cancels the calls under way of a server that stops."""
        with self._lock:
            if not self._over.is_set():
                self._server.cancel_all_calls()

    def wait(self, seconds: float) -> bool:
        """Awaits the end of all calls of a server that stops, for so long at most; returns whether they have ended."""
        return self._over.wait(seconds)

    def _serve(self) -> None:
        poll = self._completions.poll
        waiting = self._queue.queues
        # No name is kept of what was polled: an event may have the last reference to a call, which is freed with it.
        while self._process(poll(0 if waiting else time.time() + _TURN_SECONDS)):
            self.turns += 1
        with self._lock:  # calls cannot be cancelled of a server that is being destroyed: the process would crash
            self._server.destroy()
            self._over.set()

    def _process(self, event: Any) -> bool:
        """Processes what was polled; returns whether to go on."""
        tag = event.tag
        if type(tag) is MethodType:  # of a call: first, since most events are such
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
        if not event.success:  # the server stops: the core answers each request for a call so
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
        """Begins a call, and asks the core for another."""
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
