"""How the elements of one call travel, and where they land."""

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from tensor_reshape.client.contexts import CallOptions
from tensor_reshape.client.errors import ResponseError
from tensor_reshape.client.requests import Plan, check_keywords
from tensor_reshape.client.responses import check_output, decode_answer, refuse_array
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.arrays import DTYPES, Array, view_bytes
from tensor_reshape.wire.packed_elements import pack, unpack
from tensor_reshape.wire.reshapes import ReshapeCall
from tensor_reshape.wire.streams import Chunk, decode_stream_response, encode_begin, encode_chunk
from tensor_reshape.wire.tensors import TensorView

DEFAULT_INLINE_MAX_BYTES = 2 * 1024 * 1024
"""Where the two cross: below, one message is two to three times faster; above, a stream is, and needs less memory."""

Progress = Callable[[int, int], None]
"""Takes the bytes that have arrived, and how many there will be.

>>> array = client.reshape(np.zeros(6), [2, 3], special_zero=False, progress=print)
48 48
"""

Way = Literal["auto", "inline", "stream", "view"]

_WAYS = ("auto", "inline", "stream", "view")
_COPIES = ("if_needed", "never")
_NO_BYTES = memoryview(b"")
_KEYWORDS = ("array", "shape", "special_zero", "expected_shape", "timeout")  # of the operations themselves


class Transfer(CallOptions, total=False):
    """What every operation takes besides its own arguments: how the elements travel, and all of `CallOptions`.

    Attributes:
        transfer: "inline": one message each way; "stream": chunks both ways at once, for any size; "view": no elements
            at all, the server decides the shape and it is applied to the caller's own array; "auto", the default:
            inline up to the client's `inline_max_bytes`, else a stream.
        copy: with "view", what to do where the array's strides do not allow it: "if_needed" copies, "never" refuses
            (VIEW_IMPOSSIBLE).
        out: where the output lands, and what is returned: writable, row-major, of the output's type and shape. None
            goes with a `PackedTensor`.
        progress: called with the bytes that have arrived, and how many there will be; from 0 again where a stream that
            was lost begins anew. An exception ends the call. Elements below one byte count as they travel, packed.

    >>> array = np.arange(6.0)
    >>> np.shares_memory(array, client.reshape(array, [2, 3], special_zero=False, transfer="view"))
    True
    """

    transfer: Way
    copy: Literal["if_needed", "never"]
    out: Array | None
    progress: Progress | None


class Delivery:
    """One call's way, and its destination.

    Attributes:
        way: "inline", "stream" or "view".
    """

    def __init__(self, plan: Plan, how: Transfer, inline_max_bytes: int) -> None:
        """Decides how the elements of `plan` travel.

        Raises:
            TypeError: `how` has a key that is none of `Transfer`.
            ValueError: `how` contradicts itself, names no such way, or its `out` is not like the output.
        """
        check_keywords(plan.question.operation.name, how, _KEYWORDS, Transfer)
        self._plan = plan
        self._out = how.get("out")
        self._progress = how.get("progress")
        self._copy = how.get("copy", "if_needed")
        self.way = how.get("transfer", "auto")
        message = self._find_contradiction()
        if message:
            raise ValueError(message)
        if self.way == "auto":
            self.way = "inline" if plan.dense_bytes <= inline_max_bytes else "stream"

    def land(self, output: Array) -> Array:
        """Returns what the caller gets of an output that came in one message."""
        if self._out is not None:
            self._out[...] = output  # the copy that `out` costs here; a stream writes into it as it comes
        self.report(self._plan.dense_bytes, self._plan.dense_bytes)
        return output if self._out is None else self._out

    def view(self, dims: InferredShape) -> Array:
        """Returns the caller's array under the shape that the server decided; bytes stay what they are.

        Raises:
            InvalidRequestError: VIEW_IMPOSSIBLE, where a copy is needed and must not be made.
            ResponseError: the server's shape is not the one that the rules give, or nothing that numpy can hold.
        """
        if dims != self._plan.dims:  # by the rules of this process; of another version's server they may differ
            message = f"the server answered {dims}; the rules give {list(self._plan.dims)}"
            raise ResponseError(message)
        if self._plan.is_of_bytes:
            return self._plan.array
        try:
            return np.reshape(self._plan.array, self._plan.dims, copy=False)
        except ValueError:
            return self._reshape_copy()

    def make_output(self) -> Array:
        """Returns the array that a stream fills.

        Raises:
            ResponseError: numpy cannot hold the output.
        """
        if self._out is not None:
            return self._out
        try:
            return np.empty(self._plan.memory_dims, self._dtype)  # not cleared: every byte of it will have arrived
        except ValueError:
            raise refuse_array(self._plan.dims) from None

    def report(self, arrived: int, total: int) -> None:
        """Tells the caller how many bytes have arrived."""
        if self._progress is not None:
            self._progress(arrived, total)

    @property
    def _dtype(self) -> np.dtype[np.generic]:
        return DTYPES[self._plan.memory_type]

    def _reshape_copy(self) -> Array:
        array, dims = self._plan.array, self._plan.dims
        if self._copy == "never":
            message = f"an array of shape {list(array.shape)} and these strides is no view of shape {list(dims)}"
            raise InvalidRequestError.of(Reason.VIEW_IMPOSSIBLE, message, "data.strides", strides=array.strides)
        try:
            return np.reshape(array, dims)
        except ValueError:
            raise refuse_array(dims) from None

    def _find_contradiction(self) -> str:
        """Returns what is wrong with what was asked for, in a sentence; empty where nothing is."""
        if self.way not in _WAYS or self._copy not in _COPIES:
            return f"transfer is one of {', '.join(_WAYS)}, and copy one of {', '.join(_COPIES)}"
        if self.way != "view" and self._copy == "never":
            return 'copy="never" goes with transfer="view": whatever travels is a copy'
        if self.way == "view" and self._out is not None:
            return 'out does not go with transfer="view", which returns the array itself'
        if self._plan.is_of_bytes and self._out is not None:
            return "out does not go with a PackedTensor, which no array can hold"
        if self._out is not None and not self._fits(self._out):
            return f"out is a writable row-major array of {self._dtype} and shape {list(self._plan.dims)}"
        return ""

    def _fits(self, out: Array) -> bool:
        # A caller may pass anything; and only what is contiguous can be filled as bytes.
        right = isinstance(out, np.ndarray) and out.dtype == self._dtype and out.shape == self._plan.dims
        return right and out.flags.c_contiguous and out.flags.writeable


class StreamTransfer:
    """One tensor on one StreamReshape call, without any I/O.

    Attributes:
        begin: the first message; the chunks follow when it has been accepted.
        accepted: whether the server has accepted the tensor.
        output: what the chunks of the answer fill.
        largest_bytes: of the largest message that was made so far.
    """

    def __init__(self, plan: Plan, delivery: Delivery, chunk_bytes: int) -> None:
        """Prepares the call; a strided array is gathered once."""
        self._plan = plan
        self._delivery = delivery
        self._chunk_bytes = chunk_bytes
        self.output = delivery.make_output()
        self.accepted = False
        # What has arrived must not be sent again; at the same place it is the same.
        moved = np.may_share_memory(plan.array, self.output) and plan.array.ctypes.data != self.output.ctypes.data
        self._source = view_bytes(plan.array.astype(self.output.dtype, order="C", copy=moved))
        data = TensorView(plan.data_type, plan.question.data, None, _NO_BYTES)
        self.begin = encode_begin(ReshapeCall(plan.question, data), plan.shape)
        self.largest_bytes = len(self.begin)
        self._target = view_bytes(self.output)
        self._size = plan.dense_bytes
        self._arrived = 0

    def build_chunks(self) -> Iterator[bytes]:
        """Returns the messages that carry the elements."""
        # One at a time, as they are sent: all at once would be the tensor once more.
        for offset in range(0, self._size, self._chunk_bytes):
            elements = self._source[self._find_place(offset) : self._find_place(offset + self._chunk_bytes)]
            message = encode_chunk(offset, pack(self._plan.memory_type, elements).data)
            self.largest_bytes = max(self.largest_bytes, len(message))
            yield message

    def receive(self, raw: bytes) -> None:
        """Takes a message of the answer.

        Raises:
            ResponseError: it is not the one that must come now.
        """
        message = decode_answer(decode_stream_response, raw)
        if isinstance(message, Chunk):
            self._take(message)
        else:
            check_output(self._plan.question, self._plan.dims, message)
            self.accepted = True
        self._delivery.report(self._arrived, self._size)

    def finish(self) -> Array:
        """Returns the output.

        Raises:
            ResponseError: the server ended before it was complete.
        """
        if not self.accepted or self._arrived != self._size:
            message = f"the server ended after {self._arrived} of {self._size} bytes"
            raise ResponseError(message)
        return self.output

    def _take(self, chunk: Chunk) -> None:
        end = self._arrived + chunk.payload.nbytes
        if not self.accepted or chunk.offset != self._arrived or end > self._size:
            message = f"the server sent a chunk at {chunk.offset}; {self._arrived} bytes have arrived"
            raise ResponseError(message)
        elements = self._target[self._find_place(self._arrived) : self._find_place(end)]
        unpack(self._plan.memory_type, np.frombuffer(chunk.payload, np.uint8), elements)  # all that is copied
        self._arrived = end

    def _find_place(self, offset: int) -> int:
        """Returns where in memory the elements lie that begin at this byte of those that travel."""
        # Of the packed types that are arrays, each byte begins with an element; see `packed_elements`.
        return offset * self._plan.memory_type.group_items
