"""A StreamReshape call as a state machine, which turns request messages into response messages without I/O.

The session sends back each chunk of a dense tensor at once and does not keep it. If a tensor has strides, the session
collects its chunks, and puts its elements into row-major order when all chunks have arrived. Only then does the session
check whether elements of the tensor overlap. The cost of processing a header therefore depends only on the size of the
header, and not on the strides.
"""

from collections.abc import Callable, Iterator

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, format_value
from tensor_reshape.rules.inference import expects_product, infer_shape
from tensor_reshape.rules.layouts import check_data_strides, check_volume, count_bytes
from tensor_reshape.rules.limits import LIGHT_HEADER_BYTES, Limits
from tensor_reshape.server.config import COST_FACTOR
from tensor_reshape.server.service.backend import reshape
from tensor_reshape.server.service.method_tables import Estimate
from tensor_reshape.wire.reshapes import (
    DEFAULT_CHUNK_BYTES,
    Chunk,
    ReshapeCall,
    decode_stream_request,
    encode_accept,
    encode_chunk,
    find_chunk,
)
from tensor_reshape.wire.tensors import TensorView

_NO_BYTES = memoryview(b"")
_NO_TENSOR = TensorView(DataType.U8, (0,), None, _NO_BYTES)


class StreamSession:
    """The state of one StreamReshape call, which receives tensors one after another.

    Attributes:
        collected: the received bytes of the current tensor if it has strides, or None.
    """

    def __init__(self, limits: Limits, hold: Callable[[int], None]) -> None:
        """Makes the state of a new call.

        Args:
            limits: the limits of requests and responses.
            hold: a function that reserves bytes of the server's memory budget or raises LimitError. Each reservation
                replaces the previous reservation.
        """
        self._limits = limits
        self._hold = hold
        # The current tensor and its output, both without their bytes. After a tensor is complete, these attributes keep
        # it until the next tensor begins.
        self._data = self._output = _NO_TENSOR
        self._size = 0  # the size of the tensor in bytes, according to its header
        # The number of bytes of the tensor that have arrived. It equals `_size` when the tensor is complete.
        self._received = 0
        # the last message that `estimate` has decoded, and its content, until `receive` uses them
        self._found: tuple[bytes, ReshapeCall | Chunk | None] = (b"", None)
        self.collected: bytearray | None = None

    def receive(self, raw: bytes) -> Iterator[bytes]:
        """Processes a message and yields its responses.

        Raises:
            ReshapeError: the stream ends with this error.
        """
        (estimated, message), self._found = self._found, (b"", None)
        if message is None or estimated is not raw:
            message = decode_stream_request(raw, self._limits)
        if isinstance(message, Chunk):
            yield from self._take_chunk(message)
        else:
            yield self._begin(message)

    def estimate(self, raw: bytes) -> Estimate:
        """Returns the estimated cost of a message.

        A chunk of a tensor with strides needs no additional memory, because memory for the whole tensor was reserved
        when its header arrived.
        """
        if self.collected is not None:
            return Estimate(takes_long=True, needed_bytes=0)
        is_large = len(raw) > LIGHT_HEADER_BYTES
        try:
            message = find_chunk(raw) if is_large else decode_stream_request(raw, self._limits)
        except Exception:  # noqa: BLE001 - `receive` raises it again
            message = None
        self._found = raw, message
        needs_search = isinstance(message, ReshapeCall) and expects_product(message.question)
        return Estimate(needs_search or (is_large and message is None), COST_FACTOR * len(raw))

    @property
    def is_between_tensors(self) -> bool:
        """Whether the last tensor is complete, or no tensor has begun."""
        return self._received == self._size

    def finish(self) -> None:
        """Ends the session after the client's last message.

        Raises:
            InvalidRequestError: DATA_SIZE_MISMATCH if the last tensor is incomplete.
        """
        if self._received != self._size:
            raise self._reject_size(self._received, "the client sends no more messages, but the tensor has only")

    def _begin(self, call: ReshapeCall) -> bytes:
        if self._received != self._size:
            raise self._reject_size(self._received, "another tensor begins, but the last tensor has only")
        dims = infer_shape(call.question, self._limits)
        if call.data.strides is None:
            self._hold(0)
            size = count_bytes(call.data.data_type, call.data.dims)
            self._check_limit(size, self._limits.max_tensor_bytes, "a dense tensor")
        else:
            size = self._prepare_collection(call.data)
        self._data, self._size, self._received = call.data, size, 0
        self._output = TensorView(call.data.data_type, dims, None, _NO_BYTES)
        return encode_accept(self._output)

    def _prepare_collection(self, data: TensorView) -> int:
        check_data_strides(data.data_type, data.dims, data.strides or (), "data")
        size = count_bytes(data.data_type, data.dims, data.strides)
        output = count_bytes(data.data_type, data.dims)
        self._check_limit(max(size, output), self._limits.max_output_bytes, "a tensor with strides")
        check_volume(data.dims, data.strides or (), "data")  # `_gather` later checks whether elements overlap
        # The reserved memory is sufficient for the received bytes and three copies of the output. The three copies are
        # the output in row-major order, the response messages, and the transport's copies of these messages.
        self._hold(size + 3 * output)
        if size:
            self.collected = bytearray()
        return size

    def _check_limit(self, size: int, limit: int, kind: str) -> None:
        if size > limit:
            message = f"the tensor has {format_value(size)} bytes; this server allows up to {limit} bytes for {kind}"
            raise LimitError.of(Reason.TENSOR_TOO_LARGE, message, "data", size=size, limit=limit)

    def _take_chunk(self, chunk: Chunk) -> Iterator[bytes]:
        self._check_chunk(chunk)
        self._received += chunk.payload.nbytes
        if self.collected is None:
            yield chunk.message or encode_chunk(chunk.offset, chunk.payload)
            return
        self.collected += chunk.payload
        if self._received == self._size:
            yield from self._gather(memoryview(self.collected).toreadonly())

    def _check_chunk(self, chunk: Chunk) -> None:
        end = self._received + chunk.payload.nbytes
        if self._received == self._size or not chunk.payload.nbytes:
            what = (
                "is empty"
                if not chunk.payload.nbytes
                else "does not belong to a tensor, because no tensor has begun or the last tensor is complete"
            )
            message = f"the chunk at offset {chunk.offset} {what}"
            raise InvalidRequestError.of(Reason.CHUNK_UNEXPECTED, message, "chunk", offset=chunk.offset)
        if chunk.offset != self._received:
            message = f"the chunk has offset {chunk.offset}; the next one must have offset {self._received}"
            raise InvalidRequestError.of(
                Reason.CHUNK_OUT_OF_ORDER, message, "offset", have=chunk.offset, want=self._received
            )
        if end > self._size:
            raise self._reject_size(end, "the tensor has at least")

    def _gather(self, source: memoryview) -> Iterator[bytes]:
        self.collected = None
        data = TensorView(self._data.data_type, self._data.dims, self._data.strides, source)
        payload = reshape(data, tuple(self._output.dims), self._limits).payload
        for offset in range(0, payload.nbytes, DEFAULT_CHUNK_BYTES):
            yield encode_chunk(offset, payload[offset : offset + DEFAULT_CHUNK_BYTES])

    def _reject_size(self, have: int, what: str) -> InvalidRequestError:
        message = f"{what} {have} bytes of data. Its data type, dimensions and strides require {self._size} bytes"
        return InvalidRequestError.of(Reason.DATA_SIZE_MISMATCH, message, "data.data", have=have, want=self._size)
