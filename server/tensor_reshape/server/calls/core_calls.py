"""A call of grpcio's core without a thread: receive a message, send one, end, cancel.

Parts of grpcio that are not public are imported here, in `direct_calls` and in `serving_loops` alone. Four modules
unpack what grpcio submits to its thread pool: `router`, `reserves`, `inline` and `auxiliary.inline_calls`, of which the
last two also lock the state of a call, as it is done here. `CoreCall` is a call that was taken instead of that pool,
and goes on in grpcio's own completion callbacks: everything else stays grpcio's, interceptors, deadlines, cancellation,
and what `stop` waits for. `is_supported` says whether the installed grpcio is one of those that it was written for.

- All callbacks (`_on_read`, `_on_sent`, `_on_over`) come on the thread that receives calls, one at a time. An exception
  that left one would end that thread, and with it the server: none does.
- The condition of a `CoreCall`, grpcio's own, guards what goes to the core: as grpcio does, whether the call is active
  is asked, and what follows is started, under one hold of it. It is reentrant.
- grpcio holds it, and the lock of its server, while it hands a call over: so only the thread that receives calls ever
  waits for a lock under it. That is the admission's or that of the slots, under which nothing of a call is done, or
  the condition of another call, which has to go.
- The core takes one message to send at a time: whoever has more keeps them until `_on_sent`.
"""

import inspect
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from grpc import _common, _server  # the parts in question
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.calls.heads import CallHead, Metadata
from tensor_reshape.server.calls.resets import ResetBuckets
from tensor_reshape.wire.status import Status

_LOGGER = logging.getLogger(__name__)
_HEAD = "_head"
_OK = cygrpc.StatusCode.ok
_CONSTANTS = ("_CANCELLED",)
_CORE = (
    "auth_context",
    "ReceiveMessageOperation",
    "SendInitialMetadataOperation",
    "SendMessageOperation",
    "SendStatusFromServerOperation",
)
_PARAMETERS = {
    "_RPCState": [],
    "_unary_response_in_pool": ["rpc_event", "state", "behavior", "argument_thunk"],
    "_stream_response_in_pool": ["rpc_event", "state", "behavior", "argument_thunk"],
    "_possibly_finish_call": ["state", "token"],
    "_is_rpc_state_active": ["state"],
}
_STATE = ("callbacks", "client", "condition", "due", "initial_metadata_allowed", "statused")


def is_supported() -> bool:
    """Whether the installed grpcio has all that this module needs, in the form that it needs."""
    if not has_parts(_PARAMETERS, _CONSTANTS):
        return False
    state = _server._RPCState()  # type: ignore[no-untyped-call]
    return all(hasattr(state, name) for name in _STATE) and all(hasattr(cygrpc, name) for name in _CORE)


def has_parts(parameters: Mapping[str, list[str]], constants: Iterable[str]) -> bool:
    """Whether grpcio has these functions, or classes, each with its parameters first, and these constants."""
    known = all(_has_parameters(name, first) for name, first in parameters.items())
    return known and all(hasattr(_server, name) for name in constants)


def _has_parameters(name: str, first: list[str]) -> bool:
    function = getattr(_server, name, None)
    return callable(function) and list(inspect.signature(function).parameters)[: len(first)] == first


class ServerCall(ABC):
    """One call as the core has it. What it is for is in the classes that inherit it: they give the callbacks."""

    _call: Any  # of the core
    _details: Any  # what grpcio knows of it from its head
    _metadata: Metadata  # that its caller has sent
    _method: str  # its name, in full: what a bug is logged with
    _is_cancelled = False  # by this server: that its caller is gone then is no reset
    _is_refused = False  # by the core, for its message: the caller is told so, and for this server it is gone
    _has_answered = False  # with one of several answers, or is about to: then it is no reset that the caller goes

    @property
    def peer(self) -> str:
        """The name of the connection, as grpcio gives it."""
        return str(self._call.peer(), "utf8", "replace")

    @property
    def head(self) -> CallHead:
        """What is known of the call at its beginning: made when it is asked for, and the same to all who ask."""
        made = self.__dict__.get(_HEAD)
        if made is None:
            head = CallHead(self._method, self._metadata)
            head.name_caller(self.peer, partial(_read_tls, self._call))
            made = self.__dict__.setdefault(_HEAD, head)  # in one step: two threads may ask first
        return cast("CallHead", made)

    @property
    @abstractmethod
    def is_gone(self) -> bool:
        """Whether the caller was gone before the status was sent; known when the call is over."""

    @property
    def seconds_left(self) -> float:
        """Until the time is up that the caller has set; infinite where it has set none."""
        return float(self._details.deadline) - time.time()

    @abstractmethod
    def receive(self) -> None:
        """Has the core receive a message; `_on_read` follows. Nothing where the call is over. From any thread."""

    @abstractmethod
    def finish(self, status: Status | None = None, response: bytes | None = None) -> None:
        """Ends the call, unless it has been; to be called while no message is being sent. From any thread.

        Args:
            status: of a bad end, or of a good one that tells more; None: of a good one.
            response: what is sent with the status, in one operation: the one answer of a unary call.
        """

    def cancel(self) -> None:
        """Ends the call at once, whatever is under way. From any thread."""
        self._is_cancelled = True
        self._call.cancel()

    @abstractmethod
    def _on_read(self, raw: bytes | None) -> None:
        """Takes a message; None at the end of the caller's side, and also just before the core says that it is gone."""

    @abstractmethod
    def _on_over(self) -> None:
        """Hears that the call is over."""

    def _take_message(self, event: Any) -> None:
        """Takes what came of an operation that receives a message."""
        self._is_refused = not event.success  # it succeeds also where the caller has reset the call, or is gone
        self._on_read(event.batch_operations[0].message())

    def _tell_end(self, resets: ResetBuckets, peer: str) -> None:
        """Tells `resets` whether the call, which is over, was answered or reset by its caller, or neither."""
        if not self.is_gone:
            resets.note_answer(peer)
        elif not (self._has_answered or self._is_cancelled or self._is_refused):
            resets.note_reset(peer, self.seconds_left)

    def _fail(self, error: Exception) -> None:
        """Takes a bug of a callback, and ends the call; raises nothing."""
        self._report(error)
        try:
            self.cancel()
        except Exception as failure:  # noqa: BLE001 - it would end the thread that serves every call
            self._report(failure)

    def _report(self, error: Exception) -> None:
        """Logs a bug of a callback: nobody else would hear of it."""
        _LOGGER.error("bug", exc_info=error, extra={"method": self._method, "request_id": self.head.request_id})


class CoreCall(ServerCall):
    """One call with the state that grpcio keeps of it."""

    def __init__(self, method: str, rpc_event: Any, state: Any) -> None:
        """Takes over a call that grpcio hands to its pool.

        Args:
            method: its name, in full: what a bug is logged with.
            rpc_event: grpcio's event of the new call.
            state: grpcio's state of it, whose `callbacks` are called when the call is over.
        """
        self._method = method
        self._call = rpc_event.call
        self._details = rpc_event.call_details
        self._metadata = rpc_event.invocation_metadata
        self._state = state
        self._is_sending = False  # whether the core has a message that has not gone yet; changed with the condition

    @property
    def is_gone(self) -> bool:
        """See `ServerCall`."""
        return bool(self._state.client == _server._CANCELLED)

    def watch_end(self) -> None:
        """Has `_on_over` called when the call is over; to be called before anything is started."""
        self._state.callbacks.append(self._on_over)

    def receive(self) -> None:
        """See `ServerCall`."""
        with self._state.condition:
            if _server._is_rpc_state_active(self._state):
                self._start((cygrpc.ReceiveMessageOperation(0),), self._take_message)

    def send(self, message: bytes) -> None:
        """Sends a message, while none is being sent; `_on_sent` follows. With the condition, and while it is active."""
        self._is_sending = True
        operations = (*self._build_initial_metadata(), cygrpc.SendMessageOperation(message, 0))
        self._start(operations, partial(self._sent, len(message)))

    def finish(self, status: Status | None = None, response: bytes | None = None) -> None:
        """See `ServerCall`."""
        with self._state.condition:
            if not _server._is_rpc_state_active(self._state):
                return
            operations = [build_status(status), *self._build_initial_metadata()]
            if response is not None:
                operations.append(cygrpc.SendMessageOperation(response, 0))
            self._start(operations)
            self._state.statused = True  # from now on the call is not active, for grpcio as well

    def _on_sent(self, size: int) -> None:
        """Hears that a message of that size has gone: the next one may be sent."""

    def _is_active(self) -> bool:
        return bool(_server._is_rpc_state_active(self._state))

    def _sent(self, size: int, event: Any) -> None:
        del event
        with self._state.condition:
            self._is_sending = False
        self._on_sent(size)

    def _build_initial_metadata(self) -> list[Any]:
        if not self._state.initial_metadata_allowed:
            return []
        self._state.initial_metadata_allowed = False
        return [cygrpc.SendInitialMetadataOperation(None, 0)]

    def _start(self, operations: Sequence[Any], react: Callable[[Any], None] | None = None) -> None:
        """Has the core do `operations`, and `react` when they are done; until then the call cannot be over."""
        token: Any = object()  # grpcio names its own by strings, of which one call can have each once

        def done(event: Any) -> Any:
            try:
                if react:
                    react(event)
            except Exception as error:  # noqa: BLE001 - it would end the thread that serves every call
                self._fail(error)
            # Only now: what `react` has started keeps the call from being over.
            with self._state.condition:
                return _server._possibly_finish_call(self._state, token)

        # In this order, as grpcio does: a batch that cannot be started raises, and nothing is due then. `done` may
        # begin before the second line, on the other thread, but ends with what needs the condition, which is held here.
        self._call.start_server_batch(operations, done)
        self._state.due.add(token)


def _read_tls(call: Any) -> dict[str, list[bytes]]:
    """Returns what TLS knows of the caller, as grpcio's `auth_context` does."""
    return {str(key, "ascii", "replace"): values for key, values in (cygrpc.auth_context(call) or {}).items()}


def build_status(status: Status | None) -> Any:
    """Returns the operation that ends a call; None: a good end that tells no more."""
    if status is None:
        return cygrpc.SendStatusFromServerOperation(None, _OK, b"", 0)
    code = _common.STATUS_CODE_TO_CYGRPC_STATUS_CODE[status.code]
    return cygrpc.SendStatusFromServerOperation(status.trailing_metadata, code, status.details.encode(), 0)


DONE: "Future[Any]" = Future()
"""What has been done when it was submitted."""

DONE.set_result(None)
