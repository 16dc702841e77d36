"""Oracle for one stream: computes from each whole tensor which bytes the stream returns, and what it rejects."""

from itertools import product
from math import prod
from typing import NamedTuple

from plain_requests import begin, chunk
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import Limits
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

ITEM_BYTES = 2
_I16 = tensor_pb2.DATA_TYPE_I16
_OFFSET_TAG, _CHUNK_TAG = 0x20, 0x7A


class Begin(NamedTuple):
    """The message that begins a tensor of I16. The stream flattens the tensor."""

    dims: tuple[int, ...]
    strides: tuple[int, ...] = ()

    def encode(self) -> bytes:
        return begin(self.dims, (-1,), self.strides, _I16)

    @property
    def volume(self) -> int:
        return prod(self.dims)

    @property
    def positions(self) -> list[int]:
        """The position of each element, in row-major order."""
        strides = self.strides or [prod(self.dims[axis + 1 :]) for axis in range(len(self.dims))]
        indices = product(*map(range, self.dims))
        return [sum(at * stride for at, stride in zip(index, strides, strict=True)) for index in indices]

    @property
    def places(self) -> int:
        """The number of positions from the first to the last element."""
        return 1 + max(self.positions, default=-1)

    @property
    def stored(self) -> int:
        """The number of elements that need a position of their own. A stride of 0 repeats elements."""
        pairs = zip(self.dims, self.strides or self.dims, strict=True)
        return prod(dim for dim, stride in pairs if stride) if self.volume else 0

    @property
    def overlaps(self) -> bool:
        return self.stored > len(set(self.positions))

    def reject_overlap(self) -> InvalidRequestError:
        return InvalidRequestError.of(Reason.STRIDES_OVERLAP, "", "data.strides", dims=self.dims, strides=self.strides)


class Part(NamedTuple):
    """A chunk. If `is_odd`, its fields have an unusual order, so the stream encodes the chunk again."""

    offset: int
    payload: bytes
    is_odd: bool = False

    def encode(self) -> bytes:
        if self.offset < 0:
            return reshape_pb2.StreamReshapeRequest(chunk=self.payload, offset=self.offset).SerializeToString()
        if self.is_odd:
            return bytes([_CHUNK_TAG, len(self.payload)]) + self.payload + bytes([_OFFSET_TAG, self.offset])
        return chunk(self.offset, self.payload)


class Cut(NamedTuple):
    """A chunk that ends `missing` bytes before the end of the tensor and has an offset `gap` too high."""

    missing: int
    gap: int
    is_odd: bool


class PlainStream:
    """One stream.

    Attributes:
        held: the sizes that the stream has reserved.
        is_collecting: whether the current tensor has strides and is incomplete.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tensor = Begin((0,))
        self._size = 0
        self._bytes = b""
        self.held: list[int] = []
        self.is_collecting = False

    @property
    def is_complete(self) -> bool:
        return len(self._bytes) == self._size

    def make_part(self, cut: Cut) -> Part:
        size = max(0, self._size - len(self._bytes) - cut.missing)
        offset = len(self._bytes) + cut.gap
        return Part(offset, bytes(range(offset % 100, offset % 100 + size)), cut.is_odd)

    def receive(self, message: Begin | Part) -> list[Begin | Part]:
        """Returns the responses. A response to a header is a dense tensor.

        Raises:
            ReshapeError: the message is rejected.
        """
        if isinstance(message, Begin):
            return [self._begin(message)]
        want = len(self._bytes)
        if self.is_complete or not message.payload:
            raise InvalidRequestError.of(Reason.CHUNK_UNEXPECTED, "", "chunk", offset=message.offset)
        if message.offset != want:
            raise InvalidRequestError.of(Reason.CHUNK_OUT_OF_ORDER, "", "offset", have=message.offset, want=want)
        self._check_size(want + len(message.payload), at_most=True)
        self._bytes += message.payload
        if not self._tensor.strides:
            return [message._replace(is_odd=False)]
        if len(self._bytes) < self._size:
            return []
        self.is_collecting = False
        if self._tensor.overlaps:
            raise self._tensor.reject_overlap()
        items = [self._bytes[ITEM_BYTES * at : ITEM_BYTES * (at + 1)] for at in self._tensor.positions]
        return [Part(0, b"".join(items))]

    def finish(self) -> None:
        self._check_size(len(self._bytes))

    def _begin(self, tensor: Begin) -> Begin:
        self._check_size(len(self._bytes))
        size, output = ITEM_BYTES * tensor.places, ITEM_BYTES * tensor.volume
        largest, limit = size, self._limits.max_tensor_bytes
        if tensor.strides:
            largest, limit = max(size, output), self._limits.max_output_bytes
        else:
            self.held.append(0)
        if largest > limit:
            raise LimitError.of(Reason.TENSOR_TOO_LARGE, "", "data", size=largest, limit=limit)
        if tensor.strides:
            if tensor.stored > tensor.places:
                raise tensor.reject_overlap()
            self.held.append(size + 3 * output)
        self._tensor, self._size, self._bytes = tensor, size, b""
        self.is_collecting = bool(tensor.strides and size)
        return Begin((tensor.volume,))

    def _check_size(self, have: int, *, at_most: bool = False) -> None:
        if have > self._size or (have < self._size and not at_most):
            raise InvalidRequestError.of(Reason.DATA_SIZE_MISMATCH, "", "data.data", have=have, want=self._size)
