"""A server of gRPC's core, and the thread that receives its calls.

gRPC's core delivers calls in the order of arrival, so a call that waits in the core waits for all earlier calls. The
server therefore takes each call out of the core at once. If only few calls have arrived and the client may begin
another call, the call begins at once. Otherwise, the call waits in an admission queue, in which clients take turns. If
a greedy client makes too many calls, the excess calls stay in this queue, because it is expensive to reject the same
client again and again.
"""

import inspect
import logging
import math
import secrets
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import cache
from queue import SimpleQueue
from types import MethodType
from typing import Any, NamedTuple

import grpc

from tensor_reshape.server.calls.results import OK, CallResult, EndedCall
from tensor_reshape.server.calls.sources import Sources, find_source
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.fair_queues import AdmissionQueue
from tensor_reshape.server.grpc.calls import CORE, CoreCall, NewCall
from tensor_reshape.server.grpc.handlers import RefusedCall, StreamCall, UnaryCall, WatchCall
from tensor_reshape.server.grpc.services import Service
from tensor_reshape.server.process.engines import TESTED, check_release
from tensor_reshape.server.service.method_tables import MethodTable, StreamMethod, UnaryMethod, WatchMethod
from tensor_reshape.server.telemetry.call_logs import AccessLog, log_refusal
from tensor_reshape.wire.status import REQUEST_ID_KEY, Status

REQUESTED_CALLS = 128
"""The number of calls that the server requests from gRPC's core.

When a call is delivered, the server requests another.
"""

MAX_QUEUED_CALLS = 6144
"""The number of calls that may wait in the admission queues.

If more calls arrive, a call of the address with the most waiting calls is refused. The number is larger than the 5,120
calls of 40 full connections, because a client whose calls wait makes fewer new calls than one whose calls are refused.
gRPC's core may keep data of each waiting call, up to the size of the flow control window.
"""

QUEUE_AFTER = 8
"""The number of calls that may begin before they are due. The count starts again at a moment without pending events.

Further calls are queued by client, except a call that is due while no other call waits.

To queue a call costs one more poll, which takes a tenth of the time of a small call. The limit does not count running
calls, because watches and idle streams stay open as long as the connections of their clients.
"""

# On a busy server, events are always pending. The next queued call is then due after _EVENTS_PER_CALL events of running
# calls. A small call has two events, so a queued call begins each time a small call ends. The arrival of a new call
# counts as only 1/32 of an event. Otherwise, a flood of new calls would start queued calls too early. If no event is
# pending, a queued call begins at once.
_EVENTS_PER_CALL = 2
_EVENTS_PER_NEW_CALL = _EVENTS_PER_CALL / 64

_LOGGER = logging.getLogger(__name__)
_TURN_SECONDS = 1.0  # the longest time for which the receiving thread waits for an event
_CHECK_SECONDS = 0.05  # the time between two searches for queued calls that have waited too long
# The error text is the same as that of grpcio's own server.
_UNIMPLEMENTED = Status("UNIMPLEMENTED", "Method not found!", ())
# One search refuses at most this number of calls from one queue, because thousands of refusals would delay other calls.
_MAX_REFUSALS = 32


class _Tag(Enum):
    """The tags of events that do not belong to a running call."""

    NEW_CALL = auto()
    SHUTDOWN = auto()


class Route(NamedTuple):
    """A method, its service, and the class of its calls."""

    kind: Callable[[Service, Any, NewCall], CoreCall]
    service: Service
    method: UnaryMethod | StreamMethod | WatchMethod


class Server:
    """A server of gRPC's core. Bind the server with `add_port`, and then call `start`.

    Attributes:
        turns: the number of events that the receiving thread has processed. A wait of up to a second in which no event
            occurs also counts as an event. Only the receiving thread changes this number.
    """

    def __init__(
        self,
        services: Sequence[Service],
        sources: Sources,
        options: Sequence[tuple[str, int]],
        on_unknown: Callable[[str], None] = lambda _method: None,
    ) -> None:
        """Makes a server that does not listen yet.

        Args:
            services: the services to serve.
            sources: determines the client of a call.
            options: channel arguments of gRPC's core.
            on_unknown: a function that is called if a client calls an unknown method. The function gets the name of the
                method, and must not raise an exception.
        """
        self.turns = 0
        # The core of gRPC represents method paths as bytes.
        self._routes: dict[bytes, Route] = {}
        for service in services:
            table = service.methods
            self._routes |= {method.name.encode(): Route(UnaryCall, service, method) for method in table.unary}
            self._routes |= {method.name.encode(): Route(StreamCall, service, method) for method in table.streams}
            self._routes |= {method.name.encode(): Route(WatchCall, service, method) for method in table.watches}
        self._on_unknown = on_unknown
        # Calls to unknown methods wait only until it is their client's turn.
        self._unknown = AdmissionQueue[NewCall](lambda _: True, math.inf)
        # the queue with the next turn comes first
        self._queues = deque([self._unknown, *(service.queue for service in services)])
        self._sources = sources
        self._completions = CORE.CompletionQueue()
        self._server = CORE.Server(tuple(options), False)  # noqa: FBT003 - no xDS
        self._server.register_completion_queue(self._completions)
        self._thread = threading.Thread(target=self._serve, name="serve", daemon=True)
        self._over = threading.Event()
        self._lock = threading.Lock()  # this lock guards `_is_stopping` and the destruction of `_server`
        self._is_stopping = False  # if this flag is True, the server requests no more calls
        # After `start`, only the receiving thread uses the following attributes.
        self._calls: set[CoreCall] = set()  # the calls that have begun and have not ended
        self._requested = 0  # the number of requested calls that the core has not delivered yet
        # the number of calls that have begun before they were due, since the last time at which no event was pending
        self._unqueued = 0
        self._events = 0.0  # the weighted number of events since the server last began a call that was due
        self._queued = 0  # the number of calls in all queues
        self._may_begin_queued = False  # whether the server should check if a queued call may begin
        self._check_at = 0.0  # the time of the next search for queued calls that have waited too long
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
            raise RuntimeError(f"{address} cannot be bound")
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

        Running calls continue. A second call of this method does nothing.
        """
        with self._lock:
            if self._is_stopping:
                return
            self._is_stopping = True
            # gRPC's core can shut down only a server that was started.
            if self._thread.ident is None:
                self._server.start()
                self._thread.start()
            self._server.shutdown(self._completions, _Tag.SHUTDOWN)

    def cancel_calls(self) -> int:
        """Cancels the running calls of a server that is stopping, and returns their number."""
        with self._lock:
            if self._over.is_set():
                return 0
            running = len(self._calls)
            self._server.cancel_all_calls()
            return running

    def wait(self, seconds: float) -> bool:
        """Waits at most `seconds` until all calls of a stopping server have ended.

        Returns whether all calls have ended.
        """
        return self._over.wait(seconds)

    def _serve(self) -> None:
        poll, deadline = self._completions.poll, 0.0
        # The event is not stored in a variable. An event may have the last reference to a finished call, and this call
        # must be freed at once.
        while self._process(poll(deadline)):
            self.turns += 1
            seconds = _CHECK_SECONDS if self._queued else _TURN_SECONDS
            deadline = 0.0 if self._may_begin_queued else time.time() + seconds
        # Without this lock, `cancel_calls` could use a destroyed server, which would crash the process.
        with self._lock:
            self._server.destroy()
            self._over.set()

    def _process(self, event: Any) -> bool:
        """Processes an event. Returns False if no more events can follow."""
        tag = event.tag
        # This check comes first, because most events belong to running calls.
        if type(tag) is MethodType:
            if tag(event):
                self._calls.discard(tag.__self__)
                self._may_begin_queued = self._queued > 0  # another call may begin now
            self._events += 1
        elif tag is _Tag.NEW_CALL:
            self._accept(event)
            self._events += _EVENTS_PER_NEW_CALL
        elif tag is _Tag.SHUTDOWN:
            self._is_shut = True
        elif event.completion_type == CORE.CompletionType.queue_timeout:
            self._unqueued = 0
            self._events, self._may_begin_queued = _EVENTS_PER_CALL, self._queued > 0
        is_due = self._queued and self._events >= _EVENTS_PER_CALL
        # Even without an event, a call on another thread may have ended, and a queued call may have waited too long.
        if is_due and (self._may_begin_queued or time.monotonic() >= self._check_at):
            self._begin_next()
        return not self._is_shut or bool(self._calls or self._requested or self._queued)

    def _accept(self, event: Any) -> None:
        """Begins or queues a call that gRPC's core has delivered."""
        self._requested -= 1
        if not event.success:  # the server is stopping, so the core delivers no call for this request
            return
        self._request_call()
        try:
            metadata, peer = event.invocation_metadata, str(event.call.peer(), "utf8", "replace")
            source = self._sources.find(peer, metadata) if self._sources.has_proxies else find_source(peer)
            new = NewCall(event.call, event.call_details.method, metadata, source)
        except Exception:
            _LOGGER.exception("bug")
            event.call.cancel()
            return
        route = self._routes.get(new.method)
        queue = self._unknown if route is None else route.service.queue
        is_due = self._events >= _EVENTS_PER_CALL  # if no other call waits, the queue would begin this call now
        if not self._queued and (is_due or self._unqueued < QUEUE_AFTER) and queue.has_room(new.source):
            if is_due:
                self._events = 0.0
            else:
                self._unqueued += 1
            self._begin(new, route)
            return
        queue.push(new.source, new, time.monotonic())
        self._queued += 1
        self._may_begin_queued = True
        if self._queued > MAX_QUEUED_CALLS:
            self._refuse(max(self._queues, key=AdmissionQueue.find_most).pop_excess())

    def _begin_next(self) -> None:
        """Begins the next queued call whose client may begin a call. Refuses queued calls that have waited too long."""
        self._events = 0.0
        now = time.monotonic()
        if now >= self._check_at:
            self._check_at = now + _CHECK_SECONDS
            for queue in self._queues:
                for late in queue.pop_expired(now, _MAX_REFUSALS):
                    self._refuse(late)
        for _ in range(len(self._queues)):
            new = self._queues[0].pop()
            self._queues.rotate(-1)
            if new is not None:
                self._queued -= 1
                self._may_begin_queued = self._queued > 0
                self._begin(new, self._routes.get(new.method))
                return
        self._may_begin_queued = False

    def _refuse(self, new: NewCall) -> None:
        """Ends a call that has left its queue, because the call has waited too long or the queues are too full."""
        self._queued -= 1
        self._begin(new, self._routes.get(new.method), is_refused=True)

    def _begin(self, new: NewCall, route: Route | None, *, is_refused: bool = False) -> None:
        """Begins a call. If the call is refused or its method is unknown, the call ends at once."""
        try:
            if route is None or is_refused:
                call: CoreCall = self._make_refused(new, route)
            else:
                call = route.kind(route.service, route.method, new)
        except Exception:
            _LOGGER.exception("bug")
            new.call.cancel()
            return
        self._calls.add(call)
        try:
            call.begin()
        except Exception as error:  # noqa: BLE001 - it would end the thread that receives all calls
            call.on_bug(error)

    def _make_refused(self, new: NewCall, route: Route | None) -> RefusedCall:
        method = str(new.method, "utf8", "replace")
        if route is None:
            self._on_unknown(method)
            return RefusedCall(method, new, _UNIMPLEMENTED)
        route.service.engine.count_refusal(method)
        log_refusal(new.source.address)
        return RefusedCall(method, new, route.service.busy)

    def _request_call(self) -> None:
        with self._lock:
            if not self._is_stopping:
                self._server.request_call(self._completions, self._completions, _Tag.NEW_CALL)
                self._requested += 1


NAMES = (
    "CompletionQueue",
    "CompletionType",
    "ReceiveCloseOnServerOperation",
    "ReceiveMessageOperation",
    "SendInitialMetadataOperation",
    "SendMessageOperation",
    "SendStatusFromServerOperation",
    "Server",
    "auth_context",
)
"""The names of `grpc._cython.cygrpc` that this package uses.

The only other private name is the attribute `_credentials` of `grpc.ServerCredentials`.
"""

_METHOD = "/test"
_MESSAGE = b"message"
_PAIR = (REQUEST_ID_KEY, "test")
_SECONDS = 10.0
_OPTIONS = (("grpc.so_reuseport", 0), ("grpc.enable_http_proxy", 0))


@cache
def check_core() -> None:
    """Raises ConfigError if the release of grpcio is not tested, lacks a name in `NAMES`, or fails a test call."""
    check_release()
    missing = [name for name in NAMES if not hasattr(CORE, name)]
    try:
        fault = f"it has no cygrpc.{missing[0]}" if missing else _make_call()
    except Exception as error:  # noqa: BLE001 - after any exception, the server must not start
        cause = error.code().name if isinstance(error, grpc.Call) else type(error).__name__
        fault = f"a test call of the server to itself failed: {cause}"
    if fault:
        message = f"cannot serve with grpcio {grpc.__version__}: {fault}. Run pip install --force-reinstall '{TESTED}'"
        raise ConfigError(message)


class _Probe(AccessLog):
    """Receives the results of test calls.

    As a subclass of `AccessLog`, this class makes each call return its request id as trailing metadata.
    """

    def __init__(self) -> None:
        self.results = SimpleQueue[CallResult | None]()

    def write(self, call: EndedCall) -> None:
        self.results.put(call.result)


def _make_call() -> str:
    """Makes a test call of this process to itself, with metadata, a message and a response.

    Returns the fault, or "" if the call succeeded.
    """
    probe, method = _Probe(), UnaryMethod(_METHOD, lambda raw, _is_over: raw, bytes)
    service = Service(Engine(Config(), observers=(probe,)), MethodTable((method,), ()), {})
    server = Server((service,), Sources(), _OPTIONS)
    # On Linux the test call uses an abstract unix socket. An abstract unix socket has no file and no port, so it cannot
    # be confused with a socket of the server.
    target = f"unix-abstract:{secrets.token_hex(16)}" if sys.platform == "linux" else "127.0.0.1:0"
    port = server.add_port(target, None)
    address = target if target.startswith("unix") else f"127.0.0.1:{port}"
    server.start()
    try:
        # `unwrap` removes the wrappers that tracing libraries add, because this test call must not appear in a trace.
        with inspect.unwrap(grpc.insecure_channel)(address, options=_OPTIONS) as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_METHOD)
            response, end = call.with_call(_MESSAGE, metadata=(_PAIR,), timeout=_SECONDS, wait_for_ready=True)
            has_answer = response == _MESSAGE and _PAIR in end.trailing_metadata()
            is_good = has_answer and probe.results.get(timeout=_SECONDS) == OK
    finally:
        server.stop()
        server.cancel_calls()
        server.wait(_SECONDS)
    return "" if is_good else "a test call had a wrong response or did not end"
