"""The stream of the blocking client by grpcio's own public means: a thread of grpcio's takes what is sent."""

import threading
from collections.abc import Generator, Iterator

import grpc

from tensor_reshape.client.contexts import CheckedMetadata
from tensor_reshape.client.stock_calls import explain_error
from tensor_reshape.client.transfers import StreamTransfer
from tensor_reshape.wire.methods import STREAM_RESHAPE


def exchange(
    channel: grpc.Channel, transfer: StreamTransfer, timeout: float | None, metadata: CheckedMetadata
) -> Generator[bytes, None, None]:
    """Makes the call: yields what is received, and sends what `transfer` has to send meanwhile.

    To close what is returned ends the call, unless it is over.

    Args:
        channel: whoever made it closes it.
        transfer: takes each message as soon as it is yielded: whether it has accepted decides about what is sent next.
        timeout: seconds; None: for ever.
        metadata: sent with the call.

    Raises:
        TensorReshapeError: the call ended otherwise than well.
        ValueError: the channel is closed.
    """
    method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(STREAM_RESHAPE.path)
    answered = threading.Event()  # set when the first answer is here: elements are sent to whoever accepts them
    call = method(_build_requests(transfer, answered), timeout=timeout, metadata=metadata)
    try:
        for raw in _explain_all(call):
            yield raw
            answered.set()
    finally:
        answered.set()  # or the thread that sends would wait for ever
        call.cancel()  # of a call that has ended nothing changes


def _build_requests(transfer: StreamTransfer, answered: threading.Event) -> Iterator[bytes]:
    """Yields what is sent; consumed by a thread of grpcio's."""
    yield transfer.begin
    answered.wait()
    if transfer.accepted:  # it is also set when the call has ended
        yield from transfer.build_chunks()


def _explain_all(call: Iterator[bytes]) -> Iterator[bytes]:
    """Yields what is received; what ends the call becomes an error of this package, and nothing else does."""
    try:
        yield from call
    except grpc.RpcError as error:
        raise explain_error(error) from None
