"""One call of gRPC's core: receive a message, send one, end, cancel.

- A subclass says what happens: `begin`, `on_message`, `on_sent` and `on_over` come on the thread that receives calls,
  one at a time. An exception that left one would end that thread, and with it the server: none does.
- The lock of a call guards what the core works on for it. Under it the core is only told to begin. It is reentrant, so
  that a subclass can look at the state of the call and begin what follows in one step.
- The core takes one message to send at a time, and no end while it sends one: a subclass keeps what follows until
  `on_sent`.
- A call is over when its end is sent, or its caller gone, and the core works on nothing of it any more. `on_over` comes
  then, once.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from tensor_reshape.server.engine.heads import CallHead, Metadata
from tensor_reshape.server.grpc_core.binding import load
from tensor_reshape.wire.status import Status

_LOGGER = logging.getLogger(__name__)
_core: Any = load()
_RLock = type(threading.RLock())  # threading's function of that name is one of Python's: it takes its time
_NO_FLAGS = 0
_OK_CODE = 0


class NewCall:
    """What the core hands over of a call that begins.

    Attributes:
        call: the core's own.
        method: its name, in full, as the core has it.
        metadata: what the caller has sent.
        peer: the name of the connection, as gRPC gives it.
    """

    __slots__ = ("call", "metadata", "method", "peer")

    def __init__(self, event: Any) -> None:
        """Takes it from the event that says so."""
        self.call: Any = event.call
        self.method: bytes = event.call_details.method
        self.metadata: Metadata = event.invocation_metadata
        self.peer = str(self.call.peer(), "utf8", "replace")


class Call(ABC):
    """One call.

    Attributes:
        method: its name, in full.
        peer: the name of the connection, as gRPC gives it.
        is_gone: whether the caller was gone before the end was sent; known when the call is over.
        is_sending: whether the core has a message that has not gone yet; changed with the lock.
        is_ended: whether the end is on its way; changed with the lock.
        is_refused: whether the core has refused a message above the limit; it has told the caller so.
    """

    # Where a call begins: of the class, so that a call which gets no further has none of these to set.
    is_gone = False
    is_sending = False
    is_ended = False
    is_refused = False
    _due = 0  # how many batches of operations the core works on
    _is_watched = False  # whether the core was asked to tell when the caller goes; it takes that once
    _has_begun_answer = False  # whether initial metadata was sent
    _sent_bytes = 0  # of the message that the core sends
    _head: CallHead | None = None

    def __init__(self, method: str, new: NewCall) -> None:
        """Takes over a call that nothing has been begun for.

        Args:
            method: its name, in full.
            new: the call.
        """
        self.method = method
        self.peer = new.peer
        self._call = new.call
        self._metadata = new.metadata
        self.lock = _RLock()

    @property
    def head(self) -> CallHead:
        """What is known of the call at its beginning: made when it is asked for, and the same for all who ask."""
        with self.lock:
            if self._head is None:
                self._head = CallHead(self.method, self._metadata)
                self._head.name_caller(self.peer, partial(_read_tls, self._call))
            return self._head

    @property
    def is_active(self) -> bool:
        """Whether something can still be sent."""
        return not (self.is_ended or self.is_gone)

    def watch(self) -> None:
        """Has the core tell when the caller goes, also while no message is awaited. From any thread."""
        with self.lock:
            if not self._is_watched:
                self._start((_core.ReceiveCloseOnServerOperation(_NO_FLAGS),), self._closed)
                self._is_watched = True

    def receive(self) -> None:
        """Has the core receive a message; `on_message` follows. Nothing where the call is over. From any thread."""
        with self.lock:
            if not (self.is_ended or self.is_gone):
                self._call.start_server_batch((_core.ReceiveMessageOperation(_NO_FLAGS),), self._received)
                self._due += 1  # only now: a batch that cannot be started raises, and nothing is due then

    def send(self, message: bytes) -> None:
        """Sends a message while none is being sent; `on_sent` follows. With the lock, and while the call is active."""
        operations = [_core.SendMessageOperation(message, _NO_FLAGS)]
        if not self._has_begun_answer:
            operations.append(_core.SendInitialMetadataOperation(None, _NO_FLAGS))
        self._start(operations, self._sent)
        self._sent_bytes = len(message)
        self.is_sending = self._has_begun_answer = True

    def finish(self, status: Status | None = None, response: bytes | None = None) -> None:
        """Ends the call, unless it has ended; to be called while no message is being sent. From any thread.

        Args:
            status: of a bad end, or of a good one with trailing metadata; None: of a good one without.
            response: what is sent with the status, in one batch: the one answer of a unary call.
        """
        operations = [
            _core.SendStatusFromServerOperation(None, _OK_CODE, b"", _NO_FLAGS)
            if status is None
            else _build_status(status)
        ]
        with self.lock:
            if self.is_ended or self.is_gone:
                return
            if not self._has_begun_answer:
                operations.append(_core.SendInitialMetadataOperation(None, _NO_FLAGS))
            if response is not None:
                operations.append(_core.SendMessageOperation(response, _NO_FLAGS))
            react = self._ended
            if not self._is_watched:  # in the same batch: one event less; last, where `_closed` looks for it
                operations.append(_core.ReceiveCloseOnServerOperation(_NO_FLAGS))
                react = self._closed
            self._call.start_server_batch(operations, react)
            self._due += 1
            self._is_watched = self.is_ended = True

    def cancel(self) -> None:
        """Ends the call at once, whatever is under way. From any thread."""
        self._call.cancel()
        self.watch()  # the core tells of the cancellation; nothing else may be under way

    @abstractmethod
    def begin(self) -> None:
        """Does the first thing: comes once, before all others. Where nothing is begun, the call is never over."""

    @abstractmethod
    def on_message(self, raw: bytes | None) -> None:
        """Takes a message; None at the end of the caller's side, and also just before the core says that it is gone."""

    def on_sent(self, size: int) -> None:  # noqa: B027 - a call that sends one message has nothing to do
        """Hears that a message of that size has gone: the next one may be sent."""

    @abstractmethod
    def on_over(self) -> None:
        """Hears that the call is over."""

    def on_bug(self, error: Exception) -> None:
        """Takes an exception of one of these, and ends the call; raises nothing."""
        self._report(error)
        try:
            self.cancel()
        except Exception as failure:  # noqa: BLE001 - it would end the thread that receives every call
            self._report(failure)

    def _report(self, error: Exception) -> None:
        """Logs a bug; raises nothing: an exception would end the thread that receives every call."""
        with suppress(Exception):
            self._log_bug(error)

    def _log_bug(self, error: Exception) -> None:
        _LOGGER.error("bug", exc_info=error, extra={"method": self.method, "request_id": self.head.request_id})

    def _start(self, operations: Sequence[Any], react: Callable[[Any], bool]) -> None:
        """Has the core do `operations`, and `react` when they are done; with the lock."""
        self._call.start_server_batch(operations, react)
        self._due += 1  # only now: a batch that cannot be started raises, and nothing is due then

    def _received(self, event: Any) -> bool:
        self.is_refused = not event.success  # where the caller has reset the call, or is gone, this succeeds
        try:
            self.on_message(event.batch_operations[0].message())
        except Exception as error:  # noqa: BLE001 - it would end the thread that receives every call
            self.on_bug(error)
        return self._settle()  # only now: what `on_message` has started keeps the call from being over

    def _sent(self, event: Any) -> bool:
        del event
        with self.lock:
            self.is_sending, size = False, self._sent_bytes  # another thread may send from now on
        try:
            self.on_sent(size)
        except Exception as error:  # noqa: BLE001 - as above
            self.on_bug(error)
        return self._settle()

    def _ended(self, event: Any) -> bool:
        del event
        return self._settle()

    def _closed(self, event: Any) -> bool:
        if event.batch_operations[-1].cancelled():
            with self.lock:
                self.is_gone = True
        return self._settle()

    def _settle(self) -> bool:
        """Notes that a batch is done; returns whether the call is over, for the loop of `servers`."""
        with self.lock:
            self._due -= 1
            if self._due or not (self.is_ended or self.is_gone):
                return False
        try:
            self.on_over()
        except Exception as error:  # noqa: BLE001 - as above
            self._report(error)
        return True


def _read_tls(call: Any) -> Mapping[str, Sequence[bytes]]:
    """Returns what TLS knows of the caller, by the names of gRPC's `auth_context`."""
    return {str(key, "ascii", "replace"): values for key, values in (_core.auth_context(call) or {}).items()}


def _build_status(status: Status) -> Any:
    code, _ = status.code.value
    return _core.SendStatusFromServerOperation(status.trailing_metadata, code, status.details.encode(), _NO_FLAGS)
