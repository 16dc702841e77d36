"""The thread that receives calls: grpcio's loop, but some calls go another way before it makes a state of them.

- It belongs to one server; other servers of the process, and grpcio's module itself, stay as they are.
- Whatever is not a new call of a direct method is done by grpcio's own functions: other calls, everything that is
  completed, the shutdown.
- A direct call is one of those that grpcio counts: `stop` waits for it, and cancels it after the grace.
- A server with interceptors is left to grpcio: they are to see every call, and may wrap what serves it.
"""

import threading
import time
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any, TypeAlias

import grpc
from grpc import _server  # the parts in question
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.calls.core_calls import has_parameters

OpenCall: TypeAlias = Callable[[Any], Any]
"""Begins the call of an event of grpcio's, and returns what has its callbacks; never raises.

These are methods, each of which returns whether the call is over. None where there is no call: it is cancelled.
"""

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
    known = all(has_parameters(name, parameters) for name, parameters in _PARAMETERS.items())
    if not known or not all(hasattr(_server, name) for name in _CONSTANTS):
        return False
    make_state: Any = _server._ServerState
    state = make_state(*[None, None, (), None, None, None])
    return all(hasattr(state, name) for name in _STATE) and all(hasattr(cygrpc, name) for name in _CORE)


def start(server: grpc.Server, direct: Mapping[str, OpenCall], note: Callable[[], None]) -> None:
    """Starts a server.

    Args:
        server: of grpcio.
        direct: begin calls, by the name of the method in full.
        note: called for each of these calls, as the generic handlers are for others.
    """
    state: Any = getattr(server, "_state", None)
    if not direct or state.interceptor_pipeline is not None or state.registered_method_handlers:
        server.start()
        return
    loop = _ServingLoop(state, direct, note)
    # As grpcio starts one.
    with state.lock:
        state.server.start()
        state.stage = _server._ServerStage.STARTED
        _server._request_call(state)
        threading.Thread(target=loop.serve, daemon=True).start()


class _ServingLoop:
    """What the thread does."""

    def __init__(self, state: Any, direct: Mapping[str, OpenCall], note: Callable[[], None]) -> None:
        """Serves a server of that state."""
        self._state = state
        self._direct = {name.encode(): open_call for name, open_call in direct.items()}  # by bytes: so grpcio has it
        self._note = note
        # Looked up once: every call comes by them several times.
        self._timeout = cygrpc.CompletionType.queue_timeout
        self._new_call = _server._REQUEST_CALL_TAG
        self._started = _server._ServerStage.STARTED

    def serve(self) -> None:
        """Does as grpcio's `_serve`, but for direct calls."""
        poll = self._state.completion_queue.poll
        # No name is kept of what was polled: an event may have the last reference to a call, which is freed with it.
        while self._process(poll(time.time() + _CHECK_SECONDS)):
            pass

    def _process(self, event: Any) -> bool:
        """Processes what was polled, and returns whether to go on."""
        tag = event.tag
        # First: of three events of a small call two come by here. Tags of grpcio's are functions, or text, or none.
        if type(tag) is MethodType:
            return not tag(event) or self._end(tag.__self__)
        if self._state.server_deallocated:
            _server._begin_shutdown_once(self._state)
        if event.completion_type == self._timeout:
            return True
        if tag is self._new_call and event.success:
            open_call = self._direct.get(event.call_details.method)
            if open_call is not None:
                self._take(open_call, event)
                return True
        return bool(_server._process_event_and_continue(self._state, event))

    def _take(self, open_call: OpenCall, event: Any) -> None:
        """Begins a call, and asks the core for the next one: what grpcio's `_process_event_and_continue` does."""
        self._note()
        state = self._state
        call = open_call(event)
        if call is not None:
            state.rpc_states.add(call)  # touched by this thread alone
        with state.lock:
            if state.stage is self._started:
                # As `_request_call`, but the tag stays among what is due.
                state.server.request_call(state.completion_queue, state.completion_queue, self._new_call)
            else:  # it is shutting down, and takes no more
                state.due.remove(self._new_call)

    def _end(self, call: object) -> bool:
        """Notes that a call is over; returns whether to go on: the last one ends a server that is stopping."""
        state = self._state
        state.rpc_states.remove(call)
        if state.stage is self._started:
            return True
        with state.lock:
            return not _server._stop_serving(state)
