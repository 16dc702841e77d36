"""How the elements of one call travel, and where they land: without a server."""

from collections.abc import Sequence
from types import ModuleType, SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from meters import measure_peak
from tensor_reshape.client import InvalidRequestError, PackedTensor, Reason, ResponseError
from tensor_reshape.client.requests import Arguments, Plan, plan_reshape
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.client.transfers import Delivery, Handover, StreamTransfer
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.streams import Chunk, decode_stream_request, encode_accept, encode_chunk
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.float32)
array_namespace = ModuleType("some_array_library")
array_namespace.from_dlpack = lambda array: array  # type: ignore[attr-defined] # numpy 2.1 gives all read-only
SUPPLIER = SimpleNamespace(__array_namespace__=lambda: array_namespace)
"""An array of a framework that takes numpy's memory over."""
ACCEPTED = encode_accept(TensorView(DataType.F32, (3, 2), None, memoryview(b"")))


def plan(array: Array = SIX, shape: Sequence[int] = (3, 2)) -> Plan:
    return plan_reshape(Arguments(STATIC_RESHAPE, array, shape, special_zero=False, expected_shape=None))


def deliver(**how: object) -> Delivery:
    transfer: Handover = how  # type: ignore[assignment] # what a caller may write, right or wrong
    return Delivery(plan(), transfer, 0)


def begin(array: Array = SIX, chunk_bytes: int = 8, **how: object) -> StreamTransfer:
    transfer: Handover = how  # type: ignore[assignment] # what a caller may write
    asked = plan(array)
    return StreamTransfer(asked, Delivery(asked, transfer, 0), chunk_bytes)


def freeze(array: Array) -> Array:
    frozen = array.view()
    frozen.flags.writeable = False
    return frozen


def make_output(delivery: Delivery, way: str) -> Array:
    """Returns what a caller gets, by each way."""
    if way == "view":
        return np.asarray(delivery.view(InferredShape(ShapeAnswer((3, 2)))))
    return np.asarray(delivery.land(freeze(SIX.reshape(3, 2)) if way == "inline" else delivery.make_output()))


def send_back(stream: StreamTransfer) -> None:
    stream.receive(ACCEPTED)
    for chunk in stream.build_chunks():
        stream.receive(chunk)


@pytest.mark.parametrize(("limit", "way"), [(24, "inline"), (23, "stream")])
def test_an_array_up_to_the_limit_goes_in_one_message(limit: int, way: str):
    assert Delivery(plan(), {}, limit).way == way


@pytest.mark.parametrize("way", ["inline", "stream", "view"])
def test_a_caller_may_choose_the_way(way: str):
    assert deliver(transfer=way).way == way


@pytest.mark.parametrize(
    "how",
    [
        {"transfer": "post"},
        {"copy": "always"},
        {"copy": "never"},
        {"transfer": "view", "out": np.empty((3, 2), np.float32)},
        {"out": np.empty(6, np.float32)},
        {"out": bytearray(24)},
        {"out": np.empty((3, 2), np.float32), "like": SUPPLIER},
    ],
    ids=[
        "no such way",
        "no such copy",
        "a copy that must not be made",
        "a view with a place",
        "a place of another shape",
        "a place that is no array",
        "a place, and another array",
    ],
)
def test_what_contradicts_itself_is_a_value_error(how: dict[str, object]):
    with pytest.raises(ValueError, match=r"transfer|copy|out"):
        deliver(**how)


@pytest.mark.parametrize("how", [{"writable": True}, {"like": SUPPLIER}, {"out": np.empty(1, np.uint8)}], ids=",".join)
def test_a_packed_tensor_comes_back_as_one(how: dict[str, object]):
    packed = PackedTensor(DataType.U4, [2], b"\x21")
    asked = plan_reshape(Arguments(RESHAPE, packed, [2], special_zero=False, expected_shape=None))
    handover: Handover = how  # type: ignore[assignment] # what a caller may write
    with pytest.raises(ValueError, match="PackedTensor"):
        Delivery(asked, handover, 0)


@pytest.mark.parametrize("way", ["inline", "stream", "view"])
@pytest.mark.parametrize("writable", [False, True])
def test_an_output_is_read_only_unless_the_caller_asks(way: str, *, writable: bool):
    delivery = deliver(transfer=way, writable=writable)
    assert make_output(delivery, way).flags.writeable == writable
    assert SIX.flags.writeable


@pytest.mark.parametrize("way", ["inline", "stream", "view"])
def test_read_only_memory_is_never_handed_to_a_framework_that_may_write_to_it(way: str):
    asked = plan(freeze(SIX))
    handover: Handover = {"transfer": way, "like": SUPPLIER}  # type: ignore[typeddict-item] # one of the three
    output = make_output(Delivery(asked, handover, 0), way)
    assert output.flags.writeable
    assert not np.shares_memory(output, SIX)


def test_a_view_of_memory_that_may_be_written_to_is_handed_over_as_it_lies():
    assert np.shares_memory(make_output(deliver(transfer="view", like=SUPPLIER), "view"), SIX)


@pytest.mark.parametrize("array", [SIX.astype(">f4"), SIX[::-1]], ids=["big-endian", "backwards"])
def test_a_view_that_only_numpy_can_have_is_copied_for_others(array: Array):
    handover: Handover = {"transfer": "view", "like": SUPPLIER}
    output = make_output(Delivery(plan(array), handover, 0), "view")
    assert (output.dtype, output.flags.c_contiguous, output.flags.writeable) == (np.dtype("=f4"), True, True)
    np.testing.assert_array_equal(output, array.reshape(3, 2))


@pytest.mark.parametrize("how", [{"writable": True}, {"like": SUPPLIER}], ids=",".join)
def test_a_copy_that_must_not_be_made_of_read_only_memory_is_refused(how: dict[str, object]):
    handover: Handover = {"transfer": "view", "copy": "never", **how}  # type: ignore[typeddict-item] # as callers write
    with pytest.raises(ValueError, match="never"):
        make_output(Delivery(plan(freeze(SIX)), handover, 0), "view")


@pytest.mark.parametrize("dims", [(7,), (3, 5), (), (0, 3)], ids=str)
def test_the_memory_of_a_stream_is_aligned(dims: tuple[int, ...]):
    for dtype in (np.uint8, np.float32, ml_dtypes.bfloat16):
        asked = plan_reshape(Arguments(RESHAPE, np.ones(dims, dtype), dims, special_zero=False, expected_shape=None))
        output = Delivery(asked, {}, 0).make_output()
        assert (output.ctypes.data % 64, output.shape, output.dtype) == (0, dims, dtype)


def test_a_view_is_of_the_array_itself():
    view = deliver(transfer="view").view(InferredShape(ShapeAnswer((3, 2))))
    assert np.shares_memory(view, SIX)


def test_a_server_that_decides_another_shape_is_not_followed():
    with pytest.raises(ResponseError, match="the rules give"):
        deliver(transfer="view").view(InferredShape(ShapeAnswer((2, 3))))


@pytest.mark.parametrize("copy", ["if_needed", "never"])
def test_an_array_that_is_no_view_is_copied_or_refused(copy: str):
    asked = plan(SIX.reshape(2, 3).T, (6,))
    how: Handover = {"transfer": "view", "copy": copy}  # type: ignore[typeddict-item] # one of the two
    delivery, dims = Delivery(asked, how, 0), InferredShape(ShapeAnswer((6,)))
    if copy == "if_needed":
        assert delivery.view(dims).tolist() == [0, 3, 1, 4, 2, 5]
        return
    with pytest.raises(InvalidRequestError) as caught:
        delivery.view(dims)
    assert caught.value.reason is Reason.VIEW_IMPOSSIBLE


def test_an_output_lands_where_the_caller_says_and_is_reported():
    out, told = np.empty((3, 2), np.float32), list[tuple[int, int]]()
    delivery = deliver(out=out, progress=lambda arrived, total: told.append((arrived, total)))
    assert delivery.land(SIX.reshape(3, 2)) is out
    assert (out.tolist(), told) == ([[0, 1], [2, 3], [4, 5]], [(24, 24)])


def test_a_stream_begins_with_a_header_without_bytes():
    call = decode_stream_request(begin().begin)
    assert not isinstance(call, Chunk)
    assert (call.question.target, call.data.dims, call.data.payload.nbytes) == ((3, 2), (6,), 0)


@pytest.mark.parametrize(("chunk_bytes", "sizes"), [(8, [8, 8, 8]), (10, [10, 10, 4]), (24, [24]), (100, [24])])
def test_the_elements_follow_in_chunks(chunk_bytes: int, sizes: list[int]):
    chunks = [decode_stream_request(raw) for raw in begin(chunk_bytes=chunk_bytes).build_chunks()]
    assert all(isinstance(chunk, Chunk) for chunk in chunks)
    assert [chunk.payload.nbytes for chunk in chunks if isinstance(chunk, Chunk)] == sizes
    assert b"".join(chunk.payload for chunk in chunks if isinstance(chunk, Chunk)) == SIX.tobytes()


def test_elements_below_one_byte_are_packed_a_chunk_at_a_time():
    elements = np.zeros(2**24, ml_dtypes.uint4)
    asked = plan_reshape(Arguments(RESHAPE, elements, (-1,), special_zero=False, expected_shape=None))
    stream = StreamTransfer(asked, Delivery(asked, {}, 0), 2**16)
    assert measure_peak(lambda: all(stream.build_chunks())) < 2**19


def test_what_comes_back_fills_the_output():
    stream = begin()
    send_back(stream)
    assert stream.finish().tolist() == [[0, 1], [2, 3], [4, 5]]


def test_progress_is_told_with_each_message():
    told = list[tuple[int, int]]()
    send_back(begin(progress=lambda arrived, total: told.append((arrived, total))))
    assert told == [(0, 24), (8, 24), (16, 24), (24, 24)]


def test_a_place_that_overlaps_the_array_is_filled_with_what_was_sent():
    memory = np.arange(7, dtype=np.float32)
    stream = begin(memory[:6], out=memory[1:].reshape(3, 2))
    send_back(stream)
    assert stream.finish().tolist() == [[0, 1], [2, 3], [4, 5]]


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
def test_an_answer_out_of_order_is_a_response_error(messages: list[bytes]):
    stream = begin()
    for raw in messages[:-1]:
        stream.receive(raw)
    with pytest.raises(ResponseError):
        stream.receive(messages[-1])


@pytest.mark.parametrize("messages", [[], [ACCEPTED], [ACCEPTED, encode_chunk(0, memoryview(bytes(16)))]], ids=len)
def test_a_server_that_ends_early_is_a_response_error(messages: list[bytes]):
    stream = begin()
    for raw in messages:
        stream.receive(raw)
    with pytest.raises(ResponseError, match="ended after"):
        stream.finish()
