"""A call of gRPC's core, which can receive messages, send messages, be finished and be cancelled.

- Subclasses implement `begin`, `on_message`, `on_sent` and `on_over`. The receiving thread calls these methods one
  after another. Their exceptions are caught, because an exception would otherwise end this thread and with it the
  server.
- The lock of a call guards the operations of the core for this call. Operations are only started under the lock. The
  lock is reentrant, so that a subclass can check the state of the call and start an operation in one step.
- The core sends one message at a time. It accepts no status while it sends a message. A subclass must keep later
  messages until `on_sent`.
- A call is over when no operation is pending and either its status is sent or its client is gone. `on_over` is then
  called once.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from tensor_reshape.server.engine.call_info import CallInfo, Metadata
from tensor_reshape.server.grpc_core.binding import load
from tensor_reshape.wire.status import Status

_LOGGER = logging.getLogger(__name__)
_core: Any = load()
_RLock = type(threading.RLock())  # calling this class is faster than calling `threading.RLock`, a function
_NO_FLAGS = 0
_OK_CODE = 0


class NewCall:
    """A new call, as the core delivers the call.

    Attributes:
        call: the core's call object.
        method: the full method path as bytes.
        metadata: the metadata that the client sent.
        peer: gRPC's name of the connection.
    """

    __slots__ = ("call", "metadata", "method", "peer")

    def __init__(self, event: Any) -> None:
        """Reads the facts about the call from the core's event."""
        self.call: Any = event.call
        self.method: bytes = event.call_details.method
        self.metadata: Metadata = event.invocation_metadata
        self.peer = str(self.call.peer(), "utf8", "replace")


class Call(ABC):
    """One call of gRPC's core.

    Attributes:
        method: the full method path.
        peer: gRPC's name of the connection.
        is_gone: whether the client was gone before the status was sent. The value is final when the call is over.
        is_sending: whether the core is sending a message. It only changes under the lock.
        is_ended: whether the core has received the status. It only changes under the lock.
        is_rejected: whether the core rejected a message above the limit and sent its own error.
    """

    # Defaults are attributes of the class, so that a call that is rejected at once does not have to set them.
    is_gone = False
    is_sending = False
    is_ended = False
    is_rejected = False
    _due = 0  # the number of pending batches of operations
    # Whether the operation that reports a disconnect was started. The core accepts this operation once for each call.
    _is_watched = False
    _has_sent_metadata = False  # whether the initial metadata was sent
    _sent_bytes = 0  # the size of the message that the core is sending
    _info: CallInfo | None = None

    def __init__(self, method: str, new: NewCall) -> None:
        """Wraps a new call without starting an operation.

        Args:
            method: the full method path.
            new: the new call.
        """
        self.method = method
        self.peer = new.peer
        self._call = new.call
        self._metadata = new.metadata
        self.lock = _RLock()

    @property
    def info(self) -> CallInfo:
        """The facts about the call. The object is made on first use."""
        with self.lock:
            if self._info is None:
                self._info = CallInfo(self.method, self._metadata, self.peer, partial(_read_tls, self._call))
            return self._info

    @property
    def is_active(self) -> bool:
        """Whether a message or the status can still be sent."""
        return not (self.is_ended or self.is_gone)

    def watch(self) -> None:
        """Makes the core report a disconnect even if the call does not wait for a message. Any thread may call this."""
        with self.lock:
            if not self._is_watched:
                self._start((_core.ReceiveCloseOnServerOperation(_NO_FLAGS),), self._closed)
                self._is_watched = True

    def receive(self) -> None:
        """Starts to receive a message, which `on_message` gets. Does nothing if the call has ended.

        Any thread may call this.
        """
        with self.lock:
            if not (self.is_ended or self.is_gone):
                self._call.start_server_batch((_core.ReceiveMessageOperation(_NO_FLAGS),), self._received)
                self._due += 1  # counted after the start, because a failed start leaves no pending batch

    def send(self, message: bytes) -> None:
        """Starts to send a message. The core calls `on_sent` when the message is sent.

        The caller must hold the lock. The call must be active, and must not be sending another message.
        """
        operations = [_core.SendMessageOperation(message, _NO_FLAGS)]
        if not self._has_sent_metadata:
            operations.append(_core.SendInitialMetadataOperation(None, _NO_FLAGS))
        self._start(operations, self._sent)
        self._sent_bytes = len(message)
        self.is_sending = self._has_sent_metadata = True

    def finish(self, status: Status | None = None, response: bytes | None = None) -> None:
        """Ends the call. Does nothing if the call has already ended.

        Any thread may call this, but only while no message is being sent.

        Args:
            status: the status. None: OK without trailing metadata.
            response: the response of a unary call. It is sent in the same batch as the status.
        """
        operations = [
            _core.SendStatusFromServerOperation(None, _OK_CODE, b"", _NO_FLAGS)
            if status is None
            else _build_status(status)
        ]
        with self.lock:
            if self.is_ended or self.is_gone:
                return
            if not self._has_sent_metadata:
                operations.append(_core.SendInitialMetadataOperation(None, _NO_FLAGS))
            if response is not None:
                operations.append(_core.SendMessageOperation(response, _NO_FLAGS))
            react = self._ended
            # In the same batch, this operation causes no extra event. `_closed` expects that it is the last operation.
            if not self._is_watched:
                operations.append(_core.ReceiveCloseOnServerOperation(_NO_FLAGS))
                react = self._closed
            self._call.start_server_batch(operations, react)
            self._due += 1
            self._is_watched = self.is_ended = True

    def cancel(self) -> None:
        """Cancels the call at once, in any state. Any thread may call this."""
        self._call.cancel()
        self.watch()  # starts an operation that reports the cancellation, because no other one may be pending

    @abstractmethod
    def begin(self) -> None:
        """Starts the first operation of the call.

        The server calls this once, before the other methods. A call without an operation would never be over.
        """

    @abstractmethod
    def on_message(self, raw: bytes | None) -> None:
        """Handles a message. None: the client has half-closed the call, or the core will soon report it as gone."""

    def on_sent(self, size: int) -> None:  # noqa: B027 - a call that sends one message has nothing to do
        """Handles the end of sending a message of `size` bytes. From now on, the next message can be sent."""

    @abstractmethod
    def on_over(self) -> None:
        """Handles the end of the call."""

    def on_bug(self, error: Exception) -> None:
        """Handles an exception of one of these methods by cancelling the call. This method raises nothing."""
        self._report(error)
        try:
            self.cancel()
        except Exception as failure:  # noqa: BLE001 - it would end the thread that receives all calls
            self._report(failure)

    def _report(self, error: Exception) -> None:
        """Logs a bug. This method raises nothing, because an exception would end the receiving thread."""
        with suppress(Exception):
            self._log_bug(error)

    def _log_bug(self, error: Exception) -> None:
        _LOGGER.error("bug", exc_info=error, extra={"method": self.method, "request_id": self.info.request_id})

    def _start(self, operations: Sequence[Any], react: Callable[[Any], bool]) -> None:
        """Starts a batch of operations. The receiving thread calls `react` when they are done.

        The caller must hold the lock.
        """
        self._call.start_server_batch(operations, react)
        self._due += 1  # counted after the start, because a failed start leaves no pending batch

    def _received(self, event: Any) -> bool:
        # The core reports a failure only if it rejects the message. A reset or a disconnect counts as a success.
        self.is_rejected = not event.success
        try:
            self.on_message(event.batch_operations[0].message())
        except Exception as error:  # noqa: BLE001 - it would end the thread that receives all calls
            self.on_bug(error)
        return self._settle()  # called last, because an operation that `on_message` starts must keep the call open

    def _sent(self, event: Any) -> bool:
        del event
        with self.lock:
            self.is_sending, size = False, self._sent_bytes  # from now on, other threads may send
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
        """Records that a batch is done. Returns whether the call is over."""
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
    """Returns gRPC's `auth_context` of a call: the TLS properties of its client."""
    return {str(key, "ascii", "replace"): values for key, values in (_core.auth_context(call) or {}).items()}


def _build_status(status: Status) -> Any:
    code, _ = status.code.value
    return _core.SendStatusFromServerOperation(status.trailing_metadata, code, status.details.encode(), _NO_FLAGS)
