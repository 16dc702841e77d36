"""How a call sends its elements, where it stores the result, and the pauses of a stream, without a server."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from meters import measure_peak
from tensor_reshape.client import PackedTensor, ResponseError
from tensor_reshape.client.requests import Arguments, Plan, plan_reshape
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.client.transfers import LONG_SECONDS, Delivery, Handover, Pauses, StreamTransfer
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.reshapes import Chunk, decode_stream_request, encode_accept, encode_chunk
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.float32)
PAIRS = [[0, 1], [2, 3], [4, 5]]
WAYS = ["inline", "stream", "view"]
array_namespace = ModuleType("some_array_library")
array_namespace.from_dlpack = lambda array: array  # type: ignore[attr-defined] # numpy 2.1 returns only read-only arrays
SUPPLIER = SimpleNamespace(__array_namespace__=lambda: array_namespace)
"""An array of a framework that uses numpy's memory."""
ACCEPTED = encode_accept(TensorView(DataType.F32, (3, 2), None, memoryview(b"")))


def plan(array: Array | PackedTensor = SIX, shape: Sequence[int] = (3, 2)) -> Plan:
    return plan_reshape(Arguments(RESHAPE, array, shape, special_zero=False, expected_shape=None))


def deliver(asked: Plan | None = None, limit: int = 0, **how: Any) -> Delivery:
    handover: Handover = how  # type: ignore[assignment] # a valid or invalid argument
    return Delivery(asked or plan(), handover, limit)


def begin(array: Array = SIX, chunk_bytes: int = 8, shape: Sequence[int] = (3, 2), **how: Any) -> StreamTransfer:
    asked = plan(array, shape)
    return StreamTransfer(deliver(asked, **how), chunk_bytes)


def freeze(array: Array) -> Array:
    frozen = array.view()
    frozen.flags.writeable = False
    return frozen


def infer(*dims: int) -> InferredShape:
    return InferredShape(ShapeAnswer(dims))


def make_output(delivery: Delivery, way: str) -> Array:
    """Returns the result of each kind of transfer."""
    if way == "view":
        return np.asarray(delivery.view(infer(3, 2)))
    return np.asarray(delivery.land(freeze(SIX.reshape(3, 2)) if way == "inline" else delivery.make_output()))


def list_chunks(stream: StreamTransfer) -> Iterator[Chunk]:
    begin, *chunks = map(decode_stream_request, stream.build_messages())
    assert not isinstance(begin, Chunk)
    for chunk in chunks:
        assert isinstance(chunk, Chunk)
        yield chunk


def send_back(stream: StreamTransfer) -> None:
    messages = stream.build_messages()
    next(messages)
    stream.receive(ACCEPTED)
    for chunk in messages:
        stream.receive(chunk)


def test_transfer_method_follows_the_option_or_the_array_size():
    assert [deliver(limit=24).way, deliver(limit=23).way] == ["inline", "stream"]
    assert [deliver(transfer=way).way for way in WAYS] == WAYS


OUT = np.empty((3, 2), np.float32)
NEVER = 'copy="never" needs transfer="view", because every other transfer copies the elements'
NEEDED = "pass a writable row-major array of float32 with the shape [3, 2]"
WAYS_AND_COPIES = "transfer must be one of auto, inline, stream, view, and copy must be one of if_needed, never"
# options, the error
CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no such way": ({"transfer": "post"}, WAYS_AND_COPIES),
    "no such copy": ({"copy": "always"}, WAYS_AND_COPIES),
    "a copy that must not be made": ({"copy": "never"}, NEVER),
    "an inline copy": ({"copy": "never", "transfer": "inline"}, NEVER),
    "a view with an output array": (
        {"transfer": "view", "out": OUT},
        'out cannot be used with transfer="view": remove one of them',
    ),
    "another array": (
        {"out": OUT, "like": SUPPLIER},
        "out cannot be used with like, because the call returns out: remove like",
    ),
    "another shape": ({"out": np.empty(6, np.float32)}, f"out has the shape [6]: {NEEDED}"),
    "another type": ({"out": np.empty((3, 2), np.int32)}, f"out is an array of int32: {NEEDED}"),
    "column-major": ({"out": np.empty((2, 3), np.float32).T}, f"out is not row-major: {NEEDED}"),
    "read-only": ({"out": freeze(OUT)}, f"out is read-only: {NEEDED}"),
    "two differences": (
        {"out": freeze(np.empty((3, 2)))},
        f"out is an array of float64 and is read-only: {NEEDED}",
    ),
    "a buffer": ({"out": OUT.data}, "out must be a numpy array or a torch tensor, not memoryview"),
    "a list": ({"out": [[0.0, 0.0]] * 3}, "out must be a numpy array or a torch tensor, not list"),
    "bytes": ({"out": bytearray(24)}, "out must be a numpy array or a torch tensor, not bytearray"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictory_transfer_options_raise_value_error(name: str):
    how, message = CONTRADICTIONS[name]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        deliver(**how)
    deliver(out=OUT, like=np, writable=True)
    deliver(transfer="view", copy="never", like=SUPPLIER)


@pytest.mark.parametrize("how", [{"writable": True}, {"like": SUPPLIER}, {"out": np.empty(1, np.uint8)}], ids=",".join)
def test_packed_tensor_rejects_options_for_array_outputs(how: dict[str, Any]):
    with pytest.raises(ValueError, match="PackedTensor"):
        deliver(plan(PackedTensor(DataType.U4, [2], b"\x21"), [2]), **how)


@pytest.mark.parametrize("way", WAYS)
def test_output_array_is_writable_only_when_requested(way: str):
    for writable in (False, True):
        assert make_output(deliver(transfer=way, writable=writable), way).flags.writeable == writable
    assert SIX.flags.writeable
    # A framework may write to its array.
    output = make_output(deliver(plan(freeze(SIX)), transfer=way, like=SUPPLIER), way)
    assert output.flags.writeable
    assert not np.shares_memory(output, SIX)


@pytest.mark.parametrize(
    "array",
    [
        SIX.astype(">f4"),
        SIX.reshape(2, 3).T.astype(">f4"),
        SIX[::-1],
        np.ones(6, [("flag", "i1"), ("number", "f4")])["number"],
    ],
    ids=["big-endian", "column-major and big-endian", "backwards", "gaps of no whole elements"],
)
def test_view_with_unsupported_strides_is_copied_for_other_frameworks(array: Array):
    output = make_output(deliver(plan(array), transfer="view", like=SUPPLIER), "view")
    assert (output.dtype, output.flags.c_contiguous, output.flags.writeable) == (np.dtype("=f4"), True, True)
    np.testing.assert_array_equal(output, array.reshape(3, 2))


@pytest.mark.parametrize(
    ("array", "shape"),
    [
        (SIX.copy(), (3, 2)),
        (np.arange(12, dtype=np.float32)[::2], (3, 2)),
        (np.arange(12, dtype=np.float32).reshape(2, 6).T, (6, 2)),
        (np.lib.stride_tricks.as_strided(SIX.copy(), (2, 3), (12, 0)), (2, 3)),
    ],
    ids=["row-major", "gaps", "column-major", "a stride of 0"],
)
def test_view_with_whole_strides_shares_the_memory_with_other_frameworks(array: Array, shape: tuple[int, ...]):
    output = make_view(array, shape, like=SUPPLIER)
    assert np.shares_memory(output, array)
    np.testing.assert_array_equal(output, array.reshape(shape))


def make_view(array: Array, shape: tuple[int, ...], **how: Any) -> Array:
    asked = plan(array, shape)
    return np.asarray(deliver(asked, transfer="view", **how).view(infer(*shape)))


def test_stream_copies_the_elements_only_if_they_move_or_have_strides():
    memory = np.zeros(2**18 + 1, np.float32)
    wide, out = np.zeros((2**18, 2), np.float32), np.empty(2**18, np.float32)
    peaks = {
        name: measure_peak(partial(StreamTransfer, deliver(asked, out=target), 2**16))
        for name, array, target in (
            ("row-major", memory[:-1], out),
            ("the same memory", memory[:-1], memory[:-1]),
            ("overlap", memory[:-1], memory[1:]),
            ("strides", wide[:, 0], out),
        )
        for asked in [plan(array, (-1,))]
    }
    assert {name: peak > 2**19 for name, peak in peaks.items()} == {
        "row-major": False,
        "the same memory": False,
        "overlap": True,
        "strides": True,
    }


@pytest.mark.parametrize("how", [{"writable": True}, {"like": SUPPLIER}], ids=",".join)
def test_copy_never_raises_for_writable_output_of_read_only_input(how: dict[str, Any]):
    with pytest.raises(ValueError, match="never"):
        make_output(deliver(plan(freeze(SIX)), transfer="view", copy="never", **how), "view")


def test_stream_output_memory_is_aligned_to_64_bytes():
    for dims in ((7,), (3, 5), (), (0, 3)):
        for dtype in (np.uint8, np.float32, ml_dtypes.bfloat16):
            output = deliver(plan(np.ones(dims, dtype), dims)).make_output()
            assert (output.ctypes.data % 64, output.shape, output.dtype) == (0, dims, dtype)


def test_view_transfer_rejects_a_wrong_shape_from_the_server():
    with pytest.raises(ResponseError, match="but the rules give"):
        deliver(transfer="view").view(infer(2, 3))


def test_out_array_receives_the_output_and_progress_is_reported():
    out, reports = np.empty((3, 2), np.float32), list[tuple[int, int]]()
    delivery = deliver(out=out, progress=lambda *report: reports.append(report))
    assert delivery.land(SIX.reshape(3, 2)) is out
    assert (out.tolist(), reports) == (PAIRS, [(24, 24)])


@pytest.mark.parametrize(("chunk_bytes", "sizes"), [(8, [8, 8, 8]), (10, [10, 10, 4]), (24, [24]), (100, [24])])
def test_stream_sends_elements_in_chunks(chunk_bytes: int, sizes: list[int]):
    payloads = [chunk.payload for chunk in list_chunks(begin(chunk_bytes=chunk_bytes))]
    assert [payload.nbytes for payload in payloads] == sizes
    assert b"".join(payloads) == SIX.tobytes()


@pytest.mark.parametrize(
    ("kib", "sizes"),
    [
        (100, [100]),
        (1024, [256] * 4),
        (2048, [256] * 8),
        (2049, [320] * 6 + [129]),
        (8192, [1024] * 8),
        (9000, [1024] * 8 + [808]),
    ],
)
def test_stream_of_a_small_array_has_about_eight_chunks(kib: int, sizes: list[int]):
    stream = begin(np.zeros(kib * 1024, np.uint8), chunk_bytes=1 << 20, shape=(-1,))
    assert [chunk.payload.nbytes / 1024 for chunk in list_chunks(stream)] == sizes


def test_stream_packs_elements_below_one_byte_chunk_by_chunk():
    asked = plan(np.zeros(2**24, ml_dtypes.uint4), (-1,))
    stream = StreamTransfer(deliver(asked), 2**16)
    assert measure_peak(lambda: all(stream.build_messages())) < 2**19


def test_stream_with_a_progress_bar_calls_no_function_of_the_caller():
    assert [begin(progress=progress).reports_progress for progress in (None, True, print)] == [False, False, True]


def test_stream_fills_the_output_and_reports_progress_per_message():
    reports = list[tuple[int, int]]()
    stream = begin(progress=lambda *report: reports.append(report))
    send_back(stream)
    assert stream.finish().tolist() == PAIRS
    assert reports == [(0, 24), (8, 24), (16, 24), (24, 24)]


def test_stream_output_may_overlap_the_input_array():
    memory = np.arange(7, dtype=np.float32)
    stream = begin(memory[:6], out=memory[1:].reshape(3, 2))
    send_back(stream)
    assert stream.finish().tolist() == PAIRS


@pytest.mark.parametrize(
    "messages",
    [
        [encode_chunk(0, memoryview(bytes(8)))],
        [ACCEPTED, encode_chunk(8, memoryview(bytes(8)))],
        [ACCEPTED, encode_chunk(0, memoryview(bytes(25)))],
        [encode_accept(TensorView(DataType.F32, (2, 3), None, memoryview(b"")))],
        [encode_accept(TensorView(DataType.I32, (3, 2), None, memoryview(b"")))],
        [b"\xff"],
    ],
    ids=["a chunk before it accepts", "a gap", "too many bytes", "another shape", "another type", "garbage"],
)
def test_response_chunk_out_of_order_raises_response_error(messages: list[bytes]):
    stream = begin()
    for raw in messages[:-1]:
        stream.receive(raw)
    with pytest.raises(ResponseError):
        stream.receive(messages[-1])


@pytest.mark.parametrize("messages", [[], [ACCEPTED], [ACCEPTED, encode_chunk(0, memoryview(bytes(16)))]], ids=len)
def test_response_stream_that_ends_early_raises_response_error(messages: list[bytes]):
    stream = begin()
    for raw in messages:
        stream.receive(raw)
    with pytest.raises(ResponseError, match="ended the stream after"):
        stream.finish()


class Stream:
    """A stream on a clock of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 0.0
        monkeypatch.setattr("tensor_reshape.client.transfers.time.monotonic", lambda: self._now)
        self.pauses = Pauses()

    def wait(self, seconds: float) -> None:
        self._now += seconds

    def work(self, seconds: float) -> None:
        with self.pauses.work():
            self._now += seconds


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    return Stream(monkeypatch)


def pause_in_progress(stream: Stream) -> None:
    stream.work(3.0)
    stream.wait(0.1)


def block_the_event_loop(stream: Stream) -> None:
    stream.work(0.0)
    stream.wait(3.1)
    stream.pauses.record(3.0)


def wait_long_for_the_first_response(stream: Stream) -> None:
    stream.wait(60.0)
    stream.work(3.0)


def wait_for_the_network(stream: Stream) -> None:
    stream.work(3.0)
    stream.wait(30.0)


def receive_slowly(stream: Stream) -> None:
    for _ in range(3):
        stream.work(0.01)
        stream.wait(5.0)
    stream.work(0.01)


def wait_without_any_response(stream: Stream) -> None:
    stream.wait(30.0)


@pytest.mark.parametrize("pause", [pause_in_progress, block_the_event_loop, wait_long_for_the_first_response])
def test_pause_of_this_process_is_recognized_as_its_own(stream: Stream, pause: Callable[[Stream], None]):
    pause(stream)
    assert (stream.pauses.own_seconds, stream.pauses.are_own, stream.pauses.are_long) == (3.0, True, True)


@pytest.mark.parametrize("pause", [wait_for_the_network, receive_slowly, wait_without_any_response])
def test_pause_of_the_network_is_not_recognized_as_own(stream: Stream, pause: Callable[[Stream], None]):
    pause(stream)
    assert (stream.pauses.are_own, stream.pauses.are_long) == (False, False)


def test_pause_below_the_shortest_usual_stall_timeout_is_not_long(stream: Stream):
    stream.work(LONG_SECONDS / 2)
    assert (stream.pauses.are_own, stream.pauses.are_long) == (True, False)


def test_pause_is_measured_if_the_work_raises(stream: Stream):
    def fail() -> None:
        with stream.pauses.work():
            stream.wait(3.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert stream.pauses.own_seconds == 3.0
