"""The stream of the blocking client, driven by the thread that makes the call.

grpcio has one thread take what is sent from an iterator, one poll for the whole channel, and the caller wait for both:
to wake each other costs a tenth of a stream or more. Here the caller's thread starts every operation itself and waits
on a completion queue that is the call's own, as grpcio itself does for blocking unary calls.

This needs parts of grpcio that are not public. `is_supported` says whether the installed grpcio is one of those that
this was written for; where it is not, `stock_streams` makes the call.

- Everything happens on the thread that makes the call. Another one reaches it only by closing the channel: that cancels
  the call, which then ends as one that the server cancels.
- At most one message is being sent, and one received: the core takes no more of either.
- Elements are sent when the server has accepted the tensor, never before.
- What arrives before the end of the call is yielded before the end is raised.
- Whatever is started is awaited, however the block ends, or the channel would keep the call and its messages until it
  is closed. What the server does not read is never sent, so a call that is given up is cancelled first.
- An exception of a signal handler (Ctrl-C) can come within grpcio, which then has let go of the call or has lost an
  event. What it lost stays with the channel, as it does of grpcio's own blocking calls: a message or two. The lock of
  the channel is given back. A call that was interrupted as it began runs on until its deadline: nothing refers to it.
- A call that grpcio may have let go of is never asked for an event: its queue would be memory that is free.
"""

import inspect
from collections.abc import Callable, Generator, Iterator
from functools import cache, partial
from typing import Any

import grpc
from grpc._cython import cygrpc  # type: ignore[attr-defined] # the parts in question: compiled, without types

from tensor_reshape.client import direct_calls, stock_streams
from tensor_reshape.client.contexts import CheckedMetadata
from tensor_reshape.client.core_channels import ChannelLock, begin_call, get_code, get_core
from tensor_reshape.client.direct_calls import Way
from tensor_reshape.client.statuses import build_error
from tensor_reshape.client.transfers import StreamTransfer
from tensor_reshape.wire.methods import STREAM_RESHAPE

_PATH = STREAM_RESHAPE.path.encode()
_SIGNATURES = {  # besides what unary calls need
    "cancel": ["self", "code", "details"],
    "next_event": ["self"],
    "operate": ["self", "operations", "tag"],
}

Exchange = Callable[[StreamTransfer, float | None, CheckedMetadata], Generator[bytes, None, None]]
"""What makes one call of a channel: see `stock_streams.exchange`."""


def find_exchange(channel: grpc.Channel, way: Way) -> Exchange:
    """Returns what makes the streams of a channel.

    Args:
        channel: whoever made it closes it.
        way: "auto": directly, where that is possible; "stock": as grpcio does it.
    """
    if not (direct_calls.can_be_direct(channel, way) and is_supported()):
        return partial(stock_streams.exchange, channel)
    core = get_core(channel)
    return partial(exchange, core, ChannelLock(core))


@cache
def is_supported() -> bool:
    """Whether the installed grpcio has all that this module needs, in the form that it needs, and supports no forks."""
    # With fork support on, grpcio closes channels in a child. A caller's `progress` may fork in the middle of a stream,
    # and the child would await events that never come.
    may_fork = getattr(cygrpc, "_GRPC_ENABLE_FORK_SUPPORT", False)  # not there where the system has no forks
    return not may_fork and all(_list_parameters(name) == parameters for name, parameters in _SIGNATURES.items())


def _list_parameters(name: str) -> list[str]:
    method = getattr(cygrpc.SegregatedCall, name, None)
    return list(inspect.signature(method).parameters) if callable(method) else []


def exchange(
    core: Any, lock: ChannelLock, transfer: StreamTransfer, timeout: float | None, metadata: CheckedMetadata
) -> Generator[bytes, None, None]:
    """Makes the call, as `stock_streams.exchange` does: with the same errors.

    Args:
        core: of the channel.
        lock: of the channel: to find it takes the garbage collector, which looks once for a channel.
        transfer: as there, and so are the others.
        timeout: seconds.
        metadata: sent with the call.
    """
    with lock.guard():
        stream = _Stream(core, transfer, timeout, metadata)
        try:
            yield from stream.receive_all()
        finally:
            stream.leave()


class _Stream:
    """One call.

    The tag of each operation is the function that takes its event: no bound method, by which a call that grpcio keeps
    would keep the caller's array.
    """

    def __init__(self, core: Any, transfer: StreamTransfer, timeout: float | None, metadata: CheckedMetadata) -> None:
        """Starts it, with the first message."""
        self._transfer = transfer
        self._chunks: Iterator[bytes] | None = transfer.build_chunks()  # None: no more is sent
        self._received: bytes | None = None  # what has come and is not yielded yet
        self._is_receiving = self._is_sending = True
        self._end: Any = None  # the operation that has received the status
        batches = (
            # Three batches: a batch is done when all of it is, and none of these may have to wait for another.
            ((cygrpc.SendInitialMetadataOperation(metadata, 0), _build_send(transfer.begin)), _Stream._note_sent),
            ((cygrpc.ReceiveInitialMetadataOperation(0), cygrpc.ReceiveMessageOperation(0)), _Stream._note_received),
            ((cygrpc.ReceiveStatusOnClientOperation(0),), _Stream._note_end),
        )
        self._due = len(batches)  # what is started, and has not come back
        self._call = begin_call(core, _PATH, timeout, metadata, batches)

    def receive_all(self) -> Iterator[bytes]:
        """Yields what is received until the call is over; raises its end where it is no good one."""
        while self._is_receiving or self._end is None:
            event = self._await_event()
            event.tag(self, event)
            message, self._received = self._received, None
            if message is not None:
                yield message
            # Only here: the message that was yielded may have been the one that accepts.
            if not self._is_sending and self._transfer.accepted and self._end is None:
                self._send_next()
        if code := self._end.code():
            raise build_error(get_code(code), self._end.details(), self._end.trailing_metadata() or ())

    def leave(self) -> None:
        """Ends the call and awaits what was started."""
        self._call.cancel(cygrpc.StatusCode.cancelled, "given up")  # of one that is over it does nothing
        while self._due:
            self._await_event()

    def _await_event(self) -> Any:
        try:
            event = self._call.next_event()
        except BaseException:  # of a signal handler
            # An event more than will come would be awaited for ever, or in memory that is free. A call that is gone
            # refuses whatever is started; of one that is not, an empty batch comes back in place of what was lost.
            # Until that is known nothing is due: a second exception may come while the core is asked.
            due, self._due = self._due, 0
            if self._call.operate((), None):
                self._due = due
            raise
        self._due -= 1
        return event

    def _note_sent(self, event: Any) -> None:
        self._is_sending = False
        if not event.success:
            self._chunks = None  # the call has ended: how, its status will say

    def _note_received(self, event: Any) -> None:
        self._received = event.batch_operations[-1].message()
        self._is_receiving = self._received is not None and self._end is None
        if self._is_receiving:
            # Before what has come is looked at: the core goes on to receive while it is copied.
            self._start(cygrpc.ReceiveMessageOperation(0), _Stream._note_received)

    def _note_end(self, event: Any) -> None:
        self._end = event.batch_operations[0]

    def _send_next(self) -> None:
        if self._chunks is None:
            return
        message = next(self._chunks, None)
        if message is None:
            self._chunks = None
            self._start(cygrpc.SendCloseFromClientOperation(0), _Stream._note_sent)
        else:
            self._is_sending = True
            self._start(_build_send(message), _Stream._note_sent)

    def _start(self, operation: Any, note: Callable[..., None]) -> None:
        if self._call.operate((operation,), note):  # not where the call is over: then nothing comes of it
            self._due += 1


def _build_send(message: bytes) -> Any:
    return cygrpc.SendMessageOperation(message, 0)
