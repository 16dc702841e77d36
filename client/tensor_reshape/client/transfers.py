"""How the elements of one call travel, where they land, and as whose array they are handed over.

Laws:

- Whatever its size, and however it travelled, an output is read-only, unless the caller asked for one that is not: by
  `writable`, by `out`, or by `like` for a framework all of whose arrays can be written to.
- An output shares memory with nothing that the caller has, but with `out`, or the data of a "view".
- What contradicts itself is refused before anything is sent.
"""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Literal, Required

import numpy as np

from tensor_reshape.client.arrays import is_torch_tensor, read_array
from tensor_reshape.client.contexts import CallOptions
from tensor_reshape.client.errors import ResponseError
from tensor_reshape.client.frameworks import NUMPY, Output, find_framework
from tensor_reshape.client.requests import Expected, Plan, check_keywords
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
_ALIGNMENT_BYTES = 64  # of a cache line, and of the memory that jax takes over without a copy
_KEYWORDS = ("array", "shape", "special_zero", "expected_shape", "timeout")  # of the operations themselves


class Transfer(CallOptions, total=False):
    """What every operation takes besides its own arguments: how the elements travel, and all of `CallOptions`.

    Attributes:
        transfer: "inline": one message each way; "stream": chunks both ways at once, for any size; "view": no elements
            at all, the server decides the shape and it is applied to the caller's own array; "auto", the default:
            inline up to the client's `inline_max_bytes`, else a stream.
        copy: with "view", what to do where the array's strides do not allow it: "if_needed" copies, "never" refuses
            (VIEW_IMPOSSIBLE).
        out: where the output lands, and what is returned: an array of numpy or a tensor of torch, writable, row-major,
            of the output's type and shape. None goes with a `PackedTensor`.
        writable: whether the output can be written to; without it, it is read-only. What came in one message is copied
            for it, what came as a stream is not. With "view" it is the caller's own array that is written to.
        progress: called with the bytes that have arrived, and how many there will be; from 0 again where a stream that
            was lost begins anew. An exception ends the call. Elements below one byte count as they travel, packed.

    >>> array = np.arange(6.0)
    >>> np.shares_memory(array, client.reshape(array, [2, 3], special_zero=False, transfer="view"))
    True
    """

    transfer: Way
    copy: Literal["if_needed", "never"]
    out: Any
    writable: bool
    progress: Progress | None


class Handover(Transfer, total=False):
    """All of `Transfer`, and as whose array the output is handed over.

    Attributes:
        like: an array of the framework, or its namespace: `torch`, `jax.numpy`, `numpy`, `pyarrow`, or any other of the
            array API standard. The output is an array of it, in the memory of this process, without a copy where the
            framework takes the memory that it came in. None: numpy's.
    """

    like: object


class ReshapeOptions(Transfer, total=False):
    """All that every operation takes by name; `like` decides the type of the output, so it is apart.

    Attributes:
        special_zero: whether a 0 in the target copies the data dim at its index; if not, it is a dim of 0.
        expected_shape: the output shape that the caller counts on, None for a dim that may be anything.
        timeout: seconds; None: the client's.
    """

    special_zero: Required[bool]
    expected_shape: Expected
    timeout: float | None


class Delivery:
    """One call's way, and its destination.

    Attributes:
        way: "inline", "stream" or "view".
    """

    def __init__(self, plan: Plan, how: Handover, inline_max_bytes: int) -> None:
        """Decides how the elements of `plan` travel.

        Raises:
            TypeError: `how` has a key that is none of `Handover`, or the framework of `like` has no such type.
            ValueError: `how` contradicts itself, names no such way, or its `out` is not like the output.
        """
        check_keywords(plan.question.operation.name, how, _KEYWORDS, Handover)
        self._plan = plan
        self._framework = find_framework(None if plan.is_of_bytes else how.get("like"), plan.data_type)
        self._is_writable = how.get("writable", False) or not self._framework.takes_read_only
        self._given_out = how.get("out")
        self._out = _read_out(self._given_out)
        self._progress = how.get("progress")
        self._copy = how.get("copy", "if_needed")
        self.way = how.get("transfer", "auto")
        message = self._find_contradiction(how)
        if message:
            raise ValueError(message)
        if self.way == "auto":
            self.way = "inline" if plan.dense_bytes <= inline_max_bytes else "stream"

    def land(self, output: Array) -> Output:
        """Returns what the caller gets of an output that came in one message."""
        if self._out is not None:
            self._out[...] = output  # the copy that `out` costs here; a stream writes into it as it comes
        self.report(self._plan.dense_bytes, self._plan.dense_bytes)
        return self.hand_over(output)

    def hand_over(self, output: Array) -> Output:
        """Returns what the caller gets of an output that is complete.

        Raises:
            ValueError: a copy is needed, of what is to be a view, and must not be made.
        """
        if self._out is not None:
            return self._given_out
        if self._needs_copy(output):
            output = self._copy_output(output)
        if not self._is_writable:
            output.flags.writeable = False  # of this array; that of the caller, which a view is of, stays what it is
        return self._framework.present(output)

    def view(self, dims: InferredShape) -> Output:
        """Returns the caller's array under the shape that the server decided; bytes stay what they are.

        Raises:
            InvalidRequestError: VIEW_IMPOSSIBLE, where a copy is needed and must not be made.
            ValueError: the same, where it is not for the strides.
            ResponseError: the server's shape is not the one that the rules give, or nothing that numpy can hold.
        """
        if dims != self._plan.dims:  # by the rules of this process; of another version's server they may differ
            message = f"the server answered {dims}; the rules give {list(self._plan.dims)}"
            raise ResponseError(message)
        if self._plan.is_of_bytes:
            return self.hand_over(self._plan.array)
        try:
            viewed: Array = np.reshape(self._plan.array, self._plan.dims, copy=False)
        except ValueError:
            viewed = self._reshape_copy()
        return self.hand_over(viewed)

    def make_output(self) -> Array:
        """Returns the array that a stream fills.

        Raises:
            ResponseError: numpy cannot hold the output.
        """
        if self._out is not None:
            return self._out
        try:
            return _allocate(self._plan.memory_dims, self._dtype)
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

    def _needs_copy(self, output: Array) -> bool:
        """Whether the memory of an output is none that may be handed over."""
        if self._is_writable and not output.flags.writeable:
            return True
        if self.way != "view" or self._framework is NUMPY:
            return False
        # The caller's own array: it may be of another byte order, run backwards, have gaps that are no whole elements,
        # or be written to under jax's hands.
        is_plain = output.dtype.isnative and all(
            stride >= 0 and stride % output.itemsize == 0 for stride in output.strides
        )
        return not is_plain or (self._framework.is_immutable and not _is_frozen(output))

    def _copy_output(self, output: Array) -> Array:
        if self._copy == "never":
            message = f'copy is "never", and {self._framework.name} cannot take this array over as it was asked to'
            raise ValueError(message)
        dtype = output.dtype if self._framework is NUMPY else output.dtype.newbyteorder("=")
        return output.astype(dtype, order="C")

    def _find_contradiction(self, how: Handover) -> str:
        """Returns what is wrong with what was asked for, in a sentence; empty where nothing is."""
        framework, has_out, writable = self._framework, self._out is not None, how.get("writable", False)
        if self.way not in _WAYS or self._copy not in _COPIES:
            return f"transfer is one of {', '.join(_WAYS)}, and copy one of {', '.join(_COPIES)}"
        contradictions = {
            'copy="never" goes with transfer="view": whatever travels is a copy': (
                self.way != "view" and self._copy == "never"
            ),
            'out does not go with transfer="view", which returns the array itself': self.way == "view" and has_out,
            "out does not go with like: what is returned is out": has_out and framework is not NUMPY,
            "out, writable and like do not go with a PackedTensor, which no array can hold": (
                self._plan.is_of_bytes and (has_out or writable or how.get("like") is not None)
            ),
            f"nobody can write to an array of {framework.name}: leave writable or like out": (
                framework.is_immutable and writable
            ),
            f'copy="never" does not go with {framework.name}, which decides by itself what it copies': (
                framework.is_immutable and self._copy == "never"
            ),
            f"out is a writable row-major array of {self._dtype} and shape {list(self._plan.dims)}": (
                not self._fits(self._out)
            ),
        }
        return next((message for message, is_so in contradictions.items() if is_so), "")

    def _fits(self, out: Array | None) -> bool:
        if out is None:
            return True
        right = out.dtype == self._dtype and out.shape == self._plan.dims
        return right and out.flags.c_contiguous and out.flags.writeable  # only what is contiguous is filled as bytes


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

    def finish(self) -> Output:
        """Returns what the caller gets.

        Raises:
            ResponseError: the server ended before it was complete.
        """
        if not self.accepted or self._arrived != self._size:
            message = f"the server ended after {self._arrived} of {self._size} bytes"
            raise ResponseError(message)
        return self._delivery.hand_over(self.output)

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


def _read_out(out: object) -> Array | None:
    if out is None:
        return None
    if not isinstance(out, np.ndarray) and not is_torch_tensor(out):  # what else is read might be a copy
        message = f"out is an array of numpy or a tensor of torch, not {type(out).__qualname__}"
        raise ValueError(message)
    return read_array(out, "out")


def _is_frozen(array: Array) -> bool:
    """Whether nobody can write to the memory of an array, not only through this view of it."""
    root: object = array
    while isinstance(root, np.ndarray) and not root.flags.writeable:
        root = root.base
    owner = root.obj if isinstance(root, memoryview) and root.readonly else root
    return isinstance(owner, bytes) or type(owner).__module__.partition(".")[0] == "jaxlib"


def _allocate(dims: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Returns an array that is aligned for whoever takes it over. It is not cleared: every byte of it will arrive.

    Raises:
        ValueError: numpy cannot hold such a shape.
    """
    memory = np.empty(prod(dims) * dtype.itemsize + _ALIGNMENT_BYTES, np.uint8)
    return np.ndarray(dims, dtype, memory, -memory.ctypes.data % _ALIGNMENT_BYTES)
