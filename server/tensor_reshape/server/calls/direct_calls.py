"""Unary calls of grpcio's core without what grpcio keeps of a call: no state, no condition, no events, no context.

That is half of what a small call costs. A call here is two batches of operations: one receives its message, one sends
its end and hears whether the caller was gone by then. A third hears that the caller goes; it is begun where the call
waits for something else than its message (`watch`), since who waits for the message hears of that as well.

- All callbacks (`_on_read`, `_on_over`) come on the thread that receives calls, one at a time. An exception that left
  one would end that thread, and with it the server: none does.
- The lock of a call guards what the core works on for it, and nothing is done under it but to have the core begin: no
  callback is called, and no other lock is taken. So it may be taken under any other.
- A call is over when its end is sent or its caller gone, and the core works on nothing of it any more.
"""

import threading
from collections.abc import Callable
from typing import Any

from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.calls.core_calls import ServerCall, build_status
from tensor_reshape.wire.status import Status


class DirectCall(ServerCall):
    """One call without grpcio's state of it."""

    # Where a call begins: of the class, so that a call which gets no further has none of these to set. Guarded by the
    # lock of the call.
    is_gone = False
    _due = 0  # how many batches the core works on
    _is_watched = False  # whether a batch is begun that hears how the caller's side ends; the core takes one
    _is_finished = False  # whether the end is on its way

    def __init__(self, method: str, rpc_event: Any) -> None:
        """Takes over a call of the core that nothing has been begun for.

        Args:
            method: its name, in full: what a bug is logged with.
            rpc_event: grpcio's event of the new call.
        """
        self._method = method
        self._call = rpc_event.call
        self._details = rpc_event.call_details
        self._metadata = rpc_event.invocation_metadata
        self._lock = threading.Lock()

    def receive(self) -> None:
        """See `ServerCall`."""
        with self._lock:
            if not (self._is_finished or self.is_gone):
                self._start((cygrpc.ReceiveMessageOperation(0),), self._read)

    def watch(self) -> None:
        """Has the core tell when the caller goes, also while no message is awaited. From any thread."""
        with self._lock:
            if not self._is_watched:
                self._start((cygrpc.ReceiveCloseOnServerOperation(0),), self._closed)
                self._is_watched = True

    def finish(self, status: Status | None = None, response: bytes | None = None) -> None:
        """See `ServerCall`."""
        operations = [build_status(status), cygrpc.SendInitialMetadataOperation(None, 0)]
        if response is not None:
            operations.append(cygrpc.SendMessageOperation(response, 0))
        with self._lock:
            if self._is_finished or self.is_gone:
                return
            if self._is_watched:
                self._start(operations, self._sent)
            else:
                operations.append(cygrpc.ReceiveCloseOnServerOperation(0))  # last, where `_closed` looks for it
                self._start(operations, self._closed)
            self._is_watched = self._is_finished = True

    def cancel(self) -> None:
        """See `ServerCall`."""
        super().cancel()
        self.watch()  # the call is over when the core has told that it is cancelled; nothing else may be under way

    def _start(self, operations: Any, react: Callable[[Any], bool]) -> None:
        """Has the core do `operations`, and `react` when they are done; with the lock."""
        # In this order: a batch that cannot be started raises, and nothing is due then.
        self._call.start_server_batch(operations, react)
        self._due += 1

    def _read(self, event: Any) -> bool:
        try:
            self._take_message(event)
        except Exception as error:  # noqa: BLE001 - it would end the thread that serves every call
            self._fail(error)
        # Only now: what `_on_read` has started keeps the call from being over.
        return self._settle(is_gone=False)

    def _sent(self, event: Any) -> bool:
        del event
        return self._settle(is_gone=False)

    def _closed(self, event: Any) -> bool:
        return self._settle(is_gone=event.batch_operations[-1].cancelled())

    def _settle(self, *, is_gone: bool) -> bool:
        """Notes that a batch is done; returns whether the call is over, for `serving_loops`."""
        with self._lock:
            self._due -= 1
            self.is_gone = self.is_gone or is_gone
            if self._due or not (self._is_finished or self.is_gone):
                return False
        try:
            self._on_over()
        except Exception as error:  # noqa: BLE001 - as in `_read`
            self._report(error)
        return True
