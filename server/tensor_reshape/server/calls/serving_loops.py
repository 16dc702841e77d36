"""The thread that receives calls: grpcio's loop, but connections take turns, and some calls go past grpcio.

- It belongs to one server; other servers of the process, and grpcio's module itself, stay as they are.
- Whatever is not a new call of a direct method is done by grpcio's own functions: other calls when they have their
  turn, everything that is completed, the shutdown.
- A direct call is begun before grpcio makes a state of it. It is one of those that grpcio counts: `stop` waits for it,
  and cancels it after the grace.
- A server with interceptors is left to grpcio: they are to see every call, and may wrap what serves it.

The core hands over as many calls as it is asked for, in the order in which they came, whoever sent them; all others
wait in that order. grpcio asks for one at a time. So a call would wait behind all those that somebody else has begun,
for as long as it takes to serve them: 16 connections with 60 small calls each kept everybody waiting for 0.6 s. Here
the core is asked for `ASKED_CALLS`. Where it hands over many in a row, they are not begun but queued, by connection: to
queue a call costs a small part of what it costs to serve it.
"""

import threading
import time
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any, TypeAlias

import grpc
from grpc import _server  # the parts in question
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.calls.core_calls import has_parts
from tensor_reshape.server.calls.fair_queues import FairQueue
from tensor_reshape.server.calls.header_lists import HeaderBound

OpenCall: TypeAlias = Callable[[Any], Any]
"""Begins the call of an event of grpcio's, and returns what has its callbacks; never raises.

These are methods, each of which returns whether the call is over. None where there is no call: it is cancelled.
"""

ASKED_CALLS = 1024
"""How many calls the core is asked for, less those that are queued: above as many, the others wait in the core."""

QUEUE_AFTER = 8
"""How many calls are begun as they come, after each time that no event waited; from then on they are queued.

To queue a call takes one poll more, a tenth of what a small call costs. How many are under way is no measure: watches
and idle streams are, for as long as their client is there.
"""

TURN_SECONDS = 0.005
"""How long others are served, where they always wait, until a list of headers is read on that is an offence."""

_YIELD_SECONDS = 1e-4
_EVENTS_PER_CALL = 4
# Events of calls under way after which a queued call is begun, where there is always another event. A call has two or
# three, so those under way become fewer; it is begun in any case when there is no event. With threads each call that is
# begun wants the interpreter, and this loop is one of those that wait for it: to begin all at once served a fifth.

_CHECK_SECONDS = 1.0  # as grpcio's: how soon it is seen that nobody has the server any more
_CONSTANTS = ("_REQUEST_CALL_TAG", "_ServerStage")
_PARAMETERS = {
    "_ServerState": [
        "completion_queue",
        "server",
        "generic_handlers",
        "interceptor_pipeline",
        "thread_pool",
        "maximum_concurrent_rpcs",
    ],
    "_begin_shutdown_once": ["state"],
    "_process_event_and_continue": ["state", "event"],
    "_request_call": ["state"],
    "_stop_serving": ["state"],
}
_STATE = (
    "completion_queue",
    "due",
    "interceptor_pipeline",
    "lock",
    "registered_method_handlers",
    "rpc_states",
    "server",
    "server_deallocated",
    "stage",
)
_CORE = ("CompletionType", "ReceiveCloseOnServerOperation")


def is_supported() -> bool:
    """Whether the installed grpcio has what this module and `direct_calls` need besides `core_calls`, in that form."""
    if not has_parts(_PARAMETERS, _CONSTANTS):
        return False
    make_state: Any = _server._ServerState
    state = make_state(*[None, None, (), None, None, None])
    return all(hasattr(state, name) for name in _STATE) and all(hasattr(cygrpc, name) for name in _CORE)


def start(
    server: grpc.Server,
    direct: Mapping[str, OpenCall],
    note: Callable[[], None],
    headers: HeaderBound,
    note_turn: Callable[[], None] | None = None,
) -> None:
    """Starts a server.

    Args:
        server: of grpcio.
        direct: begin calls, by the name of the method in full.
        note: called for each of these calls, as the generic handlers are for others.
        headers: refuses calls for their headers; not where the loop is grpcio's.
        note_turn: called after each event, and after each second without one. Likewise.
    """
    state: Any = getattr(server, "_state", None)
    if not is_supported() or state.interceptor_pipeline is not None or state.registered_method_handlers:
        server.start()
        return
    loop = _ServingLoop(state, direct, note, headers)
    # As grpcio starts one.
    with state.lock:
        state.server.start()
        state.stage = _server._ServerStage.STARTED
        loop.ask()
        threading.Thread(target=loop.serve, args=(note_turn,), daemon=True).start()


class _ServingLoop:
    """What the thread does."""

    def __init__(
        self, state: Any, direct: Mapping[str, OpenCall], note: Callable[[], None], headers: HeaderBound
    ) -> None:
        """Serves a server of that state."""
        self._state = state
        self._direct = {name.encode(): open_call for name, open_call in direct.items()}  # by bytes: so grpcio has it
        self._note = note
        self._headers = headers
        self._note_turn: Callable[[], None] | None = None
        self._asked = 0  # calls that the core was asked for, and has not handed over; touched by this thread alone
        self._queue: FairQueue[Any] = FairQueue()  # events of calls that have been handed over, and are not begun
        self._events = 0  # of calls under way, since one of the queue was begun
        self._unqueued = 0  # calls that were begun as they came, since no event waited
        # Looked up once: every call comes by them several times.
        self._timeout = cygrpc.CompletionType.queue_timeout
        self._new_call = _server._REQUEST_CALL_TAG
        self._started = _server._ServerStage.STARTED

    def ask(self) -> None:
        """Asks the core for the first calls, before `serve`."""
        for _ in range(ASKED_CALLS):
            self._ask_for_one()

    def serve(self, note_turn: Callable[[], None] | None) -> None:
        """Does as grpcio's `_serve`, but for direct calls and the queue."""
        self._note_turn = note_turn
        self._headers.begin(self._serve_others)
        renew = self._headers.renew
        poll = self._state.completion_queue.poll
        # No name is kept of what was polled: an event may have the last reference to a call, which is freed with it.
        while self._process(poll(0 if self._queue.waiting else time.time() + _CHECK_SECONDS)):
            if note_turn is not None:
                note_turn()
            renew()

    def _serve_others(self) -> None:
        """Serves while something waits, TURN_SECONDS at most; within a poll, in which grpcio reads a list of headers.

        The call of that list is not over, and the core is still asked for it: so the server goes on at least that long.
        """
        poll, renew = self._state.completion_queue.poll, self._headers.renew
        end = time.perf_counter() + TURN_SECONDS
        renew()
        while time.perf_counter() < end and self._serve_one(poll(time.time() + _YIELD_SECONDS)):
            renew()

    def _serve_one(self, event: Any) -> bool:
        """Processes an event, and returns whether something may wait."""
        self._process(event)
        if self._note_turn is not None:
            self._note_turn()
        return event.completion_type != self._timeout or bool(self._queue.waiting)

    def _process(self, event: Any) -> bool:
        """Processes what was polled, and returns whether to go on."""
        tag = event.tag
        # First: of the three events of a small call two are such. Tags of grpcio's are functions, or text, or none.
        if type(tag) is MethodType:
            goes_on = not tag(event) or self._end(tag.__self__)
            return self._begin_one_in_some(goes_on=goes_on) if self._queue.waiting else goes_on
        if self._state.server_deallocated:
            _server._begin_shutdown_once(self._state)
        if event.completion_type == self._timeout:
            self._unqueued = 0
            return self._begin_next()
        if tag is self._new_call:
            return self._take_in(event) if event.success else self._shut(event)
        goes_on = bool(_server._process_event_and_continue(self._state, event))
        return self._begin_one_in_some(goes_on=goes_on) if self._queue.waiting else goes_on

    def _take_in(self, event: Any) -> bool:
        """Begins a call, or queues or refuses it; returns whether to go on."""
        self._asked -= 1
        if self._headers.refuse(event):
            goes_on = self._ask_for_next()
            return self._begin_one_in_some(goes_on=goes_on) if self._queue.waiting else goes_on
        if self._unqueued < QUEUE_AFTER and not self._queue.waiting:
            self._unqueued += 1
            return self._begin(event)
        self._queue.push(event.call.peer(), event)
        return True

    def _begin_one_in_some(self, *, goes_on: bool) -> bool:
        self._events += 1
        if not goes_on or self._events < _EVENTS_PER_CALL:
            return goes_on
        return self._begin_next()

    def _begin_next(self) -> bool:
        self._events = 0
        return not self._queue or self._begin(self._queue.pop())

    def _begin(self, event: Any) -> bool:
        """Begins a call, and asks the core for another; returns whether to go on."""
        open_call = self._direct.get(event.call_details.method)
        state = self._state
        if open_call is not None:
            self._note()
            call = open_call(event)
            if call is not None:
                state.rpc_states.add(call)  # touched by this thread alone
            return self._ask_for_next()
        with state.lock:  # reentrant; so that nobody stops the server before it is known whether grpcio has asked
            asks = state.stage is self._started
            goes_on = bool(_server._process_event_and_continue(state, event))  # takes the tag from what is due
            if asks:
                self._asked += 1
            elif self._awaits_calls:
                state.due.add(self._new_call)
        return goes_on

    def _ask_for_next(self) -> bool:
        """Asks the core for another call, after one of which grpcio does not know; returns whether to go on."""
        state = self._state
        with state.lock:
            if state.stage is self._started:  # else it is shutting down, and takes no more
                self._ask_for_one()
            elif not self._awaits_calls:
                state.due.discard(self._new_call)
                return not _server._stop_serving(state)
        return True

    @property
    def _awaits_calls(self) -> bool:
        """Whether the server has to go on for the sake of calls that are not begun, or of what the core was asked."""
        return self._asked > 0 or bool(self._queue)

    def _shut(self, event: Any) -> bool:
        """Notes that the core hands over no more calls: it ends each request by an event. Returns whether to go on.

        What is queued is begun as ever: all at once, it would be more than the admission has room for.
        """
        self._asked -= 1
        # grpcio, which knows of one request, is told of the last one; where calls are queued, `_begin` sees to that.
        return self._awaits_calls or bool(_server._process_event_and_continue(self._state, event))

    def _ask_for_one(self) -> None:
        _server._request_call(self._state)  # notes the one tag that all requests have as due, also if it is already
        self._asked += 1

    def _end(self, call: object) -> bool:
        """Notes that a call is over; returns whether to go on: the last one ends a server that is stopping."""
        state = self._state
        state.rpc_states.remove(call)
        if state.stage is self._started:
            return True
        with state.lock:
            return not _server._stop_serving(state)
