"""Transfers the elements of a call in one message, as a stream or as a view, and provides the output array.

Invariants:

- An output array of any size and transfer mode is read-only unless the caller requests a writable output. A caller
  requests a writable output with `writable`, with `out`, or with `like` for a framework whose arrays are always
  writable.
- An output shares memory with the caller's arrays only if the caller passes `out`, or if the transfer mode is "view".
- Contradictory options are rejected before anything is sent.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from math import prod
from typing import Any, Literal, Required, get_args

import numpy as np
import numpy.typing as npt

from tensor_reshape.client.arguments import check_keywords
from tensor_reshape.client.arrays import NUMPY, Output, find_framework, is_torch_tensor, read_array
from tensor_reshape.client.contexts import CallOptions
from tensor_reshape.client.device_arrays import DeviceArray
from tensor_reshape.client.errors import ResponseError
from tensor_reshape.client.output_memory import adapt_allocator, take_memory
from tensor_reshape.client.progress import Progress, check_progress, draw_bar, import_bars
from tensor_reshape.client.requests import (
    Expected,
    Plan,
    check_output,
    decode_answer,
    reject_array,
    reject_shape,
    reject_view,
)
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.wire.arrays import DTYPES, Array, pack, unpack, view_bytes
from tensor_reshape.wire.reshapes import Chunk, ReshapeCall, decode_stream_response, encode_begin, encode_chunk
from tensor_reshape.wire.tensors import TensorView

LONG_SECONDS = 1.0
"""A pause of this length can be the reason for a cancelled stream, because few servers have a shorter stall timeout."""


class Pauses:
    """The longest pauses of one stream.

    If a stream makes no progress, the server aborts it, but does not know the cause of the pause.

    Attributes:
        own_seconds: the longest time for which this process neither read nor sent, for example in a `progress`
            function.
    """

    def __init__(self) -> None:
        """Begins to wait for the first response."""
        self.own_seconds = 0.0
        self._has_response = False
        self._longest_wait = 0.0
        self._waits_since = time.monotonic()

    def record(self, seconds: float) -> None:
        """Records a pause of this process. Any thread may call this method."""
        self.own_seconds = max(self.own_seconds, seconds)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Measures how long the `with` block processes a response. At all other times, the stream is waiting."""
        begin = time.monotonic()
        # The wait for the first response is not counted, because the client must first connect, and the server may let
        # the call wait.
        if self._has_response:
            self._longest_wait = max(self._longest_wait, begin - self._waits_since)
        self._has_response = True
        try:
            yield
        finally:
            self._waits_since = time.monotonic()
            self.record(self._waits_since - begin)

    @property
    def are_own(self) -> bool:
        """Whether this process caused the longest pause of the stream until now.

        A pause of this process may be only a part of a longer wait, for example if the event loop was blocked. A pause
        is therefore the cause if it lasted at least half as long as the longest wait.
        """
        wait = max(self._longest_wait, time.monotonic() - self._waits_since)
        return self.own_seconds >= wait / 2

    @property
    def are_long(self) -> bool:
        """Whether this process caused the longest pause and the pause lasted for at least `LONG_SECONDS`."""
        return self.own_seconds >= LONG_SECONDS and self.are_own


DEFAULT_INLINE_MAX_BYTES = 2 * 1024 * 1024
"""Arrays up to this size are sent in one message, which is faster than a stream.

For larger arrays, a stream is faster and needs less memory.
"""

Way = Literal["auto", "inline", "stream", "view"]

# A stream of a small array has about eight chunks, because the client and the server work on different chunks at the
# same time. Chunks below `_LEAST_CHUNK_BYTES` cost more than they gain, and chunks above 1 MiB gain nothing.
_CHUNKS = 8
_CHUNK_STEP_BYTES = 64 * 1024
_LEAST_CHUNK_BYTES = 256 * 1024

_COPIES = ("if_needed", "never")
_NO_BYTES = memoryview(b"")
# a processor's cache line has this size in bytes, and jax needs this alignment to use memory without a copy
_ALIGNMENT_BYTES = 64
# These keywords are arguments of every operation, in addition to the options in `Handover`.
_KEYWORDS = ("array", "shape", "special_zero", "expected_shape", "timeout")


class Transfer(CallOptions, total=False):
    """Options that every operation accepts for the transfer of its elements, in addition to all `CallOptions`.

    Attributes:
        transfer: "inline" sends one message in each direction. "stream" sends chunks in both directions at the same
            time, for tensors of any size. "view" sends no elements; the server infers the shape, and the SDK applies it
            to your own array. "auto" (default) means "inline" for arrays up to the client's `inline_max_bytes`, and
            "stream" for larger arrays.
        copy: decides what the transfer mode "view" does if the strides of the array do not allow a view. "if_needed"
            (default) copies the array, and "never" raises VIEW_IMPOSSIBLE.
        out: the array that receives the output and is returned. It must be a numpy array or a torch tensor that is
            writable and row-major, with the type and shape of the output. This option is not available with a
            `PackedTensor`.
        writable: whether the output must be writable. Default: read-only. With this option, the SDK copies an inline
            output, but not the output of a stream. With the transfer mode "view", the output shares the memory of your
            own array.
        progress: True draws a progress bar on standard error while a stream runs, if standard error is a terminal. The
            bar is removed at the end. A terminal that is frozen (Ctrl-S) delays the end of the call. If you pass a
            function, it is called with the number of bytes that have arrived, and the total. If a stream is lost and
            sent again, the number of arrived bytes starts from 0 again. An exception in the function ends the call.
            Elements of a packed type count with their packed size.

    >>> array = np.arange(6.0)
    >>> np.shares_memory(array, client.reshape(array, [2, 3], special_zero=False, transfer="view"))
    True
    """

    transfer: Way
    copy: Literal["if_needed", "never"]
    out: Any
    writable: bool
    progress: Progress | bool | None


class Handover(Transfer, total=False):
    """All options of `Transfer`, and the option that selects the framework of the output.

    Attributes:
        like: an array or the namespace of the framework. The namespace is `torch`, `jax.numpy`, `numpy`, `pyarrow`, or
            any other module of the array API standard. The output is an array of this framework in the memory of this
            process. If the framework can use the memory of the output, the elements are not copied. Default: numpy.
            With the transfer mode "view", an array of this framework stays on its device.
    """

    like: object


class ReshapeOptions(Transfer, total=False):
    """All keyword options of an operation except `like`, which decides the type of the output.

    Attributes:
        special_zero: whether a 0 in the requested shape copies the input dimension at the same index. If False, a 0 is
            a dimension of size 0.
        expected_shape: the output shape that you rely on, with None for a dimension of any size.
        timeout: the timeout in seconds. By default, the timeout of the client applies.
    """

    special_zero: Required[bool]
    expected_shape: Expected
    timeout: float | None


class Delivery:
    """Decides how one call transfers its elements, and converts the output for the caller.

    Attributes:
        way: "inline", "stream" or "view".
        plan: the planned call.
    """

    def __init__(
        self, plan: Plan, how: Handover, inline_max_bytes: int, device_array: DeviceArray | None = None
    ) -> None:
        """Decides how the elements of the planned call are transferred.

        For an array on a device, the plan contains the stand-in of this array, and the transfer mode is "view".

        Raises:
            TypeError: `how` has an unknown key, `progress` is neither a function nor a bool, or the framework of `like`
                does not have the element type.
            ValueError: options contradict each other, the transfer is unknown, or `out` does not match the output.
        """
        check_keywords(plan.question.operation.name, how, _KEYWORDS, Handover)
        self.plan = plan
        self._device_array = device_array
        self._framework = find_framework(None if plan.is_of_bytes else how.get("like"), plan.data_type)
        self._is_writable = how.get("writable", False) or not self._framework.takes_read_only
        self._given_out = how.get("out")
        self._out = _read_out(self._given_out)
        self._progress = check_progress(how.get("progress"))
        self._draws_bar = how.get("progress") is True
        self._copy = how.get("copy", "if_needed")
        self.way = how.get("transfer", "auto")
        message = self._find_contradiction(how)
        if message:
            raise ValueError(message)
        if self.way == "auto":
            self.way = "inline" if plan.dense_bytes <= inline_max_bytes else "stream"
        if self._draws_bar and self.way == "stream":
            import_bars()  # the timeout of the call has not started yet, so the import does not shorten it
        adapt_allocator(plan.dense_bytes)

    def land(self, output: Array) -> Output:
        """Converts an output that arrived in one message to the result for the caller."""
        if self._out is not None:
            self._out[...] = output  # only an inline output is copied, because a stream writes into `out` directly
        self.report(self.plan.dense_bytes, self.plan.dense_bytes)
        return self.hand_over(output)

    def hand_over(self, output: Array) -> Output:
        """Converts a complete output to the result for the caller.

        Raises:
            ValueError: the output must be a view, but would need a copy.
        """
        if self._out is not None:
            return self._given_out
        if self._needs_copy(output):
            output = self._copy_output(output)
        if not self._is_writable:
            # Only this array object becomes read-only. If this array object is a view of the caller's array, the
            # caller's array stays writable.
            output.flags.writeable = False
        return self.plan.present(output) if self.plan.is_of_bytes else self._framework.present(output)

    def view(self, dims: InferredShape) -> Output:
        """Returns the caller's array with the shape that the server has inferred. The bytes of the array are unchanged.

        Raises:
            InvalidRequestError: VIEW_IMPOSSIBLE, if a copy would be needed and `copy` is "never".
            ValueError: `copy` is "never", and a copy would be needed although the strides would allow a view.
            ResponseError: the server's shape differs from the shape that the local rules infer, or numpy cannot
                represent it.
        """
        # the output dims can differ from the planned dims, for example if the server has a version with other rules
        if dims != self.plan.dims:
            raise reject_shape(dims, self.plan.dims)
        if self._device_array is not None:
            return self._device_array.view(self.plan.dims, copies=self._copy != "never")
        if self.plan.is_of_bytes:
            return self.hand_over(self.plan.array)
        try:
            viewed: Array = np.reshape(self.plan.array, self.plan.dims, copy=False)
        except ValueError:
            viewed = self._reshape_copy()
        return self.hand_over(viewed)

    def make_output(self) -> Array:
        """Returns the array for the output, which the chunks of a stream fill.

        Raises:
            ResponseError: numpy cannot represent the output.
        """
        if self._out is not None:
            return self._out
        try:
            # Frameworks accept an array with this alignment without a copy. The memory of the output needs no initial
            # value, because the stream writes every byte of it.
            dims, dtype = self.plan.memory_dims, self._dtype
            memory = take_memory(prod(dims) * dtype.itemsize + _ALIGNMENT_BYTES)
            return np.ndarray(dims, dtype, memory, -memory.ctypes.data % _ALIGNMENT_BYTES)
        except ValueError:
            raise reject_array(self.plan.dims) from None

    @cached_property
    def source(self) -> npt.NDArray[np.uint8]:
        """The bytes of the elements in row-major order. All attempts to send a stream read these bytes.

        Output chunks that arrive must not overwrite input elements that have not been sent yet. If the input and `out`
        begin at the same address and have the same order, each output chunk overwrites only its own input, with the
        same bytes.
        """
        array, out = self.plan.array, self._out
        moved = out is not None and np.may_share_memory(array, out) and array.ctypes.data != out.ctypes.data
        return view_bytes(array.astype(self._dtype, order="C", copy=moved))

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Draws a progress bar during all attempts to send a stream, if the caller wants a bar."""
        if not self._draws_bar:
            yield
            return
        with draw_bar(self.plan.dense_bytes) as self._progress:
            yield

    @property
    def reports_progress(self) -> bool:
        """Whether the caller has passed a function for the progress."""
        return self._progress is not None and not self._draws_bar

    def report(self, arrived: int, total: int) -> None:
        """Reports progress to the caller."""
        if self._progress is not None:
            self._progress(arrived, total)

    @property
    def _dtype(self) -> np.dtype[np.generic]:
        return DTYPES[self.plan.memory_type]

    def _reshape_copy(self) -> Array:
        array, dims = self.plan.array, self.plan.dims
        if self._copy == "never":
            raise reject_view(dims, array.strides)
        try:
            return np.reshape(array, dims)
        except ValueError:
            raise reject_array(dims) from None

    def _needs_copy(self, output: Array) -> bool:
        """Whether the memory of an output must be copied before it is returned."""
        if self._is_writable and not output.flags.writeable:
            return True
        if self.way != "view" or self._framework is NUMPY:
            return False
        # With the transfer mode "view", the output shares the memory of the caller's array. Other frameworks do not
        # support arrays with a foreign byte order, negative strides, or gaps that are not whole elements. The caller
        # may also write to the array while jax uses it.
        is_plain = output.dtype.isnative and all(
            stride >= 0 and stride % output.itemsize == 0 for stride in output.strides
        )
        return not is_plain or (self._framework.is_immutable and not _is_frozen(output))

    def _copy_output(self, output: Array) -> Array:
        if self._copy == "never":
            message = f'{self._framework.name} needs a copy of this array, and copy is "never": pass copy="if_needed"'
            raise ValueError(message)
        dtype = output.dtype if self._framework is NUMPY else output.dtype.newbyteorder("=")
        return output.astype(dtype, order="C")

    def _find_contradiction(self, how: Handover) -> str:
        """Returns a message if options contradict each other. The message is empty if the options are consistent."""
        framework, has_out, writable = self._framework, self._out is not None, how.get("writable", False)
        if self.way not in get_args(Way) or self._copy not in _COPIES:
            return f"transfer must be one of {', '.join(get_args(Way))}, and copy must be one of {', '.join(_COPIES)}"
        contradictions = {
            'copy="never" needs transfer="view", because every other transfer copies the elements': (
                self.way != "view" and self._copy == "never"
            ),
            'out cannot be used with transfer="view": remove one of them': self.way == "view" and has_out,
            "out cannot be used with like, because the call returns out: remove like": has_out
            and framework is not NUMPY,
            "out, writable and like cannot be used with a PackedTensor, which no array can hold: remove them": (
                self.plan.is_of_bytes and (has_out or writable or how.get("like") is not None)
            ),
            f"arrays of {framework.name} are never writable: remove writable or like": (
                framework.is_immutable and writable
            ),
            f'copy="never" cannot be used with {framework.name}, which may copy the memory: remove copy or like': (
                framework.is_immutable and self._copy == "never"
            ),
        }
        return next((message for message, is_so in contradictions.items() if is_so), "") or self._find_misfit()

    def _find_misfit(self) -> str:
        """Returns a message if the array `out` cannot receive the output, and otherwise an empty text."""
        out = self._out
        if out is None:
            return ""
        misfits = {
            f"is an array of {out.dtype}": out.dtype != self._dtype,
            f"has the shape {list(out.shape)}": out.shape != self.plan.dims,
            # The output must be contiguous, because only contiguous memory can be filled as bytes.
            "is not row-major": not out.flags.c_contiguous,
            "is read-only": not out.flags.writeable,
        }
        found = " and ".join(misfit for misfit, is_so in misfits.items() if is_so)
        needed = f"a writable row-major array of {self._dtype} with the shape {list(self.plan.dims)}"
        return f"out {found}: pass {needed}" if found else ""


class StreamTransfer:
    """The state of one StreamReshape call, which transfers one tensor. It does no I/O.

    Attributes:
        accepted: whether the server has accepted the tensor.
        output: the array that the response chunks fill.
        pauses: the pauses of the call.
        reports_progress: whether `receive` calls a function of the caller.
    """

    def __init__(self, delivery: Delivery, max_chunk_bytes: int) -> None:
        """Prepares the call.

        If the array is not row-major, the first attempt copies its elements into contiguous memory.
        """
        plan = self._plan = delivery.plan
        self._delivery = delivery
        self._chunk_bytes = min(max_chunk_bytes, _choose_chunk_bytes(plan.dense_bytes))
        self.output = delivery.make_output()
        self.accepted = False
        self._source = delivery.source
        self._target = view_bytes(self.output)
        self._size = plan.dense_bytes
        self._arrived = 0
        self.pauses = Pauses()
        self.reports_progress = delivery.reports_progress

    def build_messages(self) -> Iterator[bytes]:
        """Yields the messages to send.

        The blocking client sends the elements without waiting for the first response, because the wait would take as
        long as a small call. The SDK has already applied the rules, so a server rejects few tensors.
        """
        data = TensorView(self._plan.data_type, self._plan.question.data, None, _NO_BYTES)
        yield encode_begin(ReshapeCall(self._plan.question, data), self._plan.shape)
        # The messages with chunks of the tensor are created one at a time, because all of them together would need as
        # much memory as the tensor.
        for offset in range(0, self._size, self._chunk_bytes):
            begin = time.monotonic()
            elements = self._source[self._find_place(offset) : self._find_place(offset + self._chunk_bytes)]
            message = encode_chunk(offset, pack(self._plan.memory_type, elements).data)
            # Reading can be slow, because the array may be in a memory-mapped file.
            self.pauses.record(time.monotonic() - begin)
            yield message

    def receive(self, raw: bytes) -> None:
        """Processes a response message.

        Raises:
            ResponseError: the server sent an unexpected message.
        """
        with self.pauses.work():
            message = decode_answer(decode_stream_response, raw)
            if isinstance(message, Chunk):
                self._take(message)
            else:
                check_output(self._plan.question, self._plan.dims, message)
                self.accepted = True
            self._delivery.report(self._arrived, self._size)

    def finish(self) -> Output:
        """Returns the result for the caller.

        Raises:
            ResponseError: the server ended the stream too early.
        """
        if not self.accepted or self._arrived != self._size:
            raise ResponseError(f"the server ended the stream after {self._arrived} of {self._size} bytes")
        return self._delivery.hand_over(self.output)

    def _take(self, chunk: Chunk) -> None:
        end = self._arrived + chunk.payload.nbytes
        if not self.accepted or chunk.offset != self._arrived or end > self._size:
            raise ResponseError(f"the server sent a chunk with the offset {chunk.offset} after {self._arrived} bytes")
        elements = self._target[self._find_place(self._arrived) : self._find_place(end)]
        # The received elements are copied only once, from the message to the output.
        unpack(self._plan.memory_type, np.frombuffer(chunk.payload, np.uint8), elements)
        self._arrived = end

    def _find_place(self, offset: int) -> int:
        """Converts a byte offset in the message to an offset in memory."""
        # In memory, numpy uses a whole byte for each element of a packed type such as int4. A byte of the message
        # contains `group_items` packed elements.
        return offset * self._plan.memory_type.group_items


def _choose_chunk_bytes(size: int) -> int:
    steps = -(-size // (_CHUNKS * _CHUNK_STEP_BYTES))
    return max(_LEAST_CHUNK_BYTES, steps * _CHUNK_STEP_BYTES)


def _read_out(out: object) -> Array | None:
    if out is None:
        return None
    # `out` must be a numpy array or a torch tensor, because the conversion of other objects might copy them.
    if not isinstance(out, np.ndarray) and not is_torch_tensor(out):
        raise ValueError(f"out must be a numpy array or a torch tensor, not {type(out).__qualname__}")
    return read_array(out, "out")


def _is_frozen(array: Array) -> bool:
    """Whether no array can write to the memory of `array`."""
    root: object = array
    while isinstance(root, np.ndarray) and not root.flags.writeable:
        root = root.base
    owner = root.obj if isinstance(root, memoryview) and root.readonly else root
    return isinstance(owner, bytes) or type(owner).__module__.partition(".")[0] == "jaxlib"
