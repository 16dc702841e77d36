"""The base class of a server's calls. A call can receive messages, send messages, be finished and be cancelled.

- Subclasses implement `begin`, and may override `on_message`, `on_sent` and `on_over`. The receiving thread calls these
  methods one after another. `CoreCall` catches exceptions of these methods, because an exception would otherwise end
  the receiving thread and therefore the server.
- The lock of a call guards the operations of gRPC's core for this call. A thread must hold the lock of a call to start
  an operation. The lock is reentrant, so that a subclass can check the state of the call and start an operation while
  it holds the lock.
- For each call, gRPC's core sends one message at a time. While gRPC's core sends a message of a call, it accepts no
  status for the call. A subclass must keep later messages until `on_sent` is called.
- A call is over when no operation is pending, and its status is sent or its client is gone. When a call is over, its
  method `on_over` is called once.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from google.rpc import code_pb2
from grpc._cython import cygrpc  # type: ignore[attr-defined]

from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.sources import Source
from tensor_reshape.wire.status import Status

_LOGGER = logging.getLogger(__name__)
CORE: Any = cygrpc  # grpcio's binding to gRPC's core, which has no types
# Calling the class of reentrant locks is faster than calling the function `threading.RLock`.
_RLock = type(threading.RLock())
_NO_FLAGS = 0
_NUMBERS = dict(code_pb2.Code.items())  # the number of each status code
_OK_CODE = 0


class NewCall(NamedTuple):
    """A new call in the form in which gRPC's core delivers it.

    Attributes:
        call: the call object of gRPC's core.
        method: the full method path as bytes.
        metadata: the metadata that the client sent.
        source: the address and connection of the client.
    """

    call: Any
    method: bytes
    metadata: Metadata
    source: Source


class CoreCall(ABC):
    """One call of gRPC's core.

    Attributes:
        method: the full method path.
        source: the address and connection of the client.
        is_gone: whether the client disconnected before the status was sent. After the call is over, this value no
            longer changes.
        is_sending: whether gRPC's core is sending a message. A thread changes this value only while it holds the lock.
        is_ended: whether gRPC's core has received the status. A thread changes this value only while it holds the lock.
        is_rejected: whether gRPC's core rejected a message that exceeds the size limit, and sent its own error.
    """

    # Default values are class attributes, so that no time is spent on setting attributes of a call that is rejected at
    # once.
    is_gone = False
    is_sending = False
    is_ended = False
    is_rejected = False
    _due = 0  # the number of batches of operations that gRPC's core has started but not completed
    # This flag says whether the operation that reports a disconnect was started. gRPC's core accepts this operation
    # only once for each call.
    _detects_disconnect = False
    _has_sent_metadata = False  # whether the initial metadata has been sent
    _sent_bytes = 0  # the size of the message that the core is sending
    _info: CallInfo | None = None

    def __init__(self, method: str, new: NewCall) -> None:
        """Wraps a new call without starting an operation.

        Args:
            method: the full method path.
            new: the new call.
        """
        self.method = method
        self.source = new.source
        self._call = new.call
        self._metadata = new.metadata
        self.lock = _RLock()

    @property
    def info(self) -> CallInfo:
        """The facts about the call. This object is created on first use."""
        with self.lock:
            if self._info is None:
                self._info = CallInfo(
                    self.method, self._metadata, self.source.connection, partial(_read_tls, self._call)
                )
            return self._info

    @property
    def is_active(self) -> bool:
        """Whether a message or the status can still be sent."""
        return not (self.is_ended or self.is_gone)

    def detect_disconnect(self) -> None:
        """Makes gRPC's core report a disconnect even if the call does not wait for a message.

        Any thread may call this method.
        """
        with self.lock:
            if not self._detects_disconnect:
                self._start((CORE.ReceiveCloseOnServerOperation(_NO_FLAGS),), self._closed)
                self._detects_disconnect = True

    def receive(self) -> None:
        """Starts to receive a message. When it has arrived, `on_message` is called.

        Does nothing if the call has ended. Any thread may call this method.
        """
        with self.lock:
            if not (self.is_ended or self.is_gone):
                self._call.start_server_batch((CORE.ReceiveMessageOperation(_NO_FLAGS),), self._received)
                # a batch is counted after its start, because a failed start leaves no pending batch
                self._due += 1

    def send(self, message: bytes) -> None:
        """Starts to send a message. The method `on_sent` is called when the message is sent.

        The caller must hold the lock. The call must be active, and must not be sending another message.
        """
        operations = [CORE.SendMessageOperation(message, _NO_FLAGS)]
        if not self._has_sent_metadata:
            operations.append(CORE.SendInitialMetadataOperation(None, _NO_FLAGS))
        self._start(operations, self._sent)
        self._sent_bytes = len(message)
        self.is_sending = self._has_sent_metadata = True

    def finish(self, status: Status | None = None, response: bytes | None = None) -> None:
        """Ends the call. Does nothing if the call has already ended.

        Any thread may call this method, but only while no message is being sent.

        Args:
            status: the status, or None for OK without trailing metadata.
            response: the response of a unary call, which is sent in the same batch as the status.
        """
        code, text, trailing = _OK_CODE, b"", None
        if status is not None:
            code, text, trailing = _NUMBERS[status.code], status.details.encode(), status.trailing_metadata
        operations = [CORE.SendStatusFromServerOperation(trailing, code, text, _NO_FLAGS)]
        with self.lock:
            if self.is_ended or self.is_gone:
                return
            if not self._has_sent_metadata:
                operations.append(CORE.SendInitialMetadataOperation(None, _NO_FLAGS))
            if response is not None:
                operations.append(CORE.SendMessageOperation(response, _NO_FLAGS))
            react = self._settle
            # The operation that reports a disconnect causes no extra event if it is in the same batch as the last
            # operations of a call. `_closed` expects this operation at the end of the batch.
            if not self._detects_disconnect:
                operations.append(CORE.ReceiveCloseOnServerOperation(_NO_FLAGS))
                react = self._closed
            self._call.start_server_batch(operations, react)
            self._due += 1
            self._detects_disconnect = self.is_ended = True

    def cancel(self, status: Status | None = None) -> None:
        """Cancels the call at once, in any state. Any thread may call this method.

        Args:
            status: the status, which reaches the client before messages that the client has not read yet. gRPC's core
                does not send the trailing metadata of this status. The text of the status must be ASCII, because gRPC's
                core does not escape it. Default: CANCELLED.
        """
        if status is None:
            self._call.cancel()
        else:
            self._call.cancel(_NUMBERS[status.code], status.details.encode())
        self.detect_disconnect()  # if no other operation is pending, this operation reports the cancellation

    @abstractmethod
    def begin(self) -> None:
        """Starts the first operation of the call.

        The server calls this method once, before the other methods. If `begin` starts no operation, the call is never
        over.
        """

    def on_message(self, raw: bytes | None) -> None:  # noqa: B027 - some calls receive no message
        """Handles a message.

        If `raw` is None, the client has half-closed the call, or gRPC's core will soon report a disconnect.
        """

    def on_sent(self, size: int) -> None:  # noqa: B027 - a call that sends one message has nothing to do
        """Handles the event that gRPC's core has sent a message of `size` bytes. The next message can now be sent."""

    def on_over(self) -> None:  # noqa: B027 - some calls hold nothing
        """Frees what the call holds, because the call is over."""

    def on_bug(self, error: Exception) -> None:
        """Cancels the call after an exception of one of its methods. This method never raises an exception."""
        self._report(error)
        try:
            self.cancel()
        except Exception as failure:  # noqa: BLE001 - it would end the thread that receives all calls
            self._report(failure)

    def _report(self, error: Exception) -> None:
        """Logs a bug. This method never raises an exception, because an exception would end the receiving thread."""
        with suppress(Exception):
            extra = {"method": self.method, "request_id": self.info.request_id}
            _LOGGER.error("bug", exc_info=error, extra=extra)

    def _start(self, operations: Sequence[Any], react: Callable[[Any], bool]) -> None:
        """Starts a batch of operations. The receiving thread calls `react` when the batch is done.

        The caller must hold the lock.
        """
        self._call.start_server_batch(operations, react)
        self._due += 1  # a batch is counted after its start, because a failed start leaves no pending batch

    def _received(self, event: Any) -> bool:
        # The attribute `success` of an event is False only if gRPC's core rejected the message. After a reset or a
        # disconnect, `success` is True.
        self.is_rejected = not event.success
        try:
            self.on_message(event.batch_operations[0].message())
        except Exception as error:  # noqa: BLE001 - it would end the thread that receives all calls
            self.on_bug(error)
        # `_settle` is called last, because an operation that `on_message` starts must keep the call open.
        return self._settle(event)

    def _sent(self, event: Any) -> bool:
        with self.lock:
            # after this thread releases the lock, other threads may send messages
            self.is_sending, size = False, self._sent_bytes
        try:
            self.on_sent(size)
        except Exception as error:  # noqa: BLE001 - as above
            self.on_bug(error)
        return self._settle(event)

    def _closed(self, event: Any) -> bool:
        if event.batch_operations[-1].cancelled():
            with self.lock:
                self.is_gone = True
        return self._settle(event)

    def _settle(self, event: Any) -> bool:
        """Records that a batch is done. Returns whether the call is over."""
        del event
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
    """Returns gRPC's `auth_context` of a call, which contains the TLS properties of its client."""
    return {str(key, "ascii", "replace"): values for key, values in (CORE.auth_context(call) or {}).items()}
