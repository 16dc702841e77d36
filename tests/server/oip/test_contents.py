"""Elements as numbers: where they are looked for, and which are refused."""

import struct

import pytest

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.server.oip.contents import fill_contents, pack_contents
from tensor_reshape.server.oip.datatypes import DATATYPES
from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.wire.tensors import TensorView

REQUEST = find_class("ModelInferRequest")


def build(datatype: str, **contents: object) -> InferMessage:
    return REQUEST(inputs=[{"datatype": datatype, "contents": contents}]).inputs[0]  # type: ignore[attr-defined] # of the pool


def pack(datatype: str, **contents: object) -> bytes:
    return pack_contents(build(datatype, **contents), DATATYPES[datatype], "inputs[0]")


@pytest.mark.parametrize(
    ("datatype", "field", "numbers", "code"),
    [
        ("BOOL", "bool_contents", [True, False], "??"),
        ("INT8", "int_contents", [-128, 127], "bb"),
        ("INT16", "int_contents", [-32768, 1], "hh"),
        ("UINT8", "uint_contents", [255, 0], "BB"),
        ("UINT32", "uint_contents", [2**32 - 1, 0], "II"),
        ("UINT64", "uint64_contents", [2**64 - 1, 0], "QQ"),
        ("FP32", "fp32_contents", [0.1, -0.0], "ff"),
        ("FP64", "fp64_contents", [0.1, 2.0], "dd"),
        ("FP32", "fp32_contents", [], ""),
    ],
)
def test_numbers_are_packed(datatype: str, field: str, numbers: list[float], code: str):
    assert pack(datatype, **{field: numbers}) == struct.pack(f"<{code}", *numbers)


def test_a_nan_that_signals_stays_one():
    tensor = build("FP32")
    tensor.contents.MergeFromString(b"\x32\x04\x01\x00\x80\x7f" + b"\xfa\x01\x01x")  # and a field that nobody knows
    assert pack_contents(tensor, DataType.F32, "inputs[0]") == b"\x01\x00\x80\x7f"


@pytest.mark.parametrize(
    ("datatype", "contents", "field", "text"),
    [
        ("INT8", {"int_contents": [1, 128]}, "inputs[0].contents.int_contents[1]", "is 128, which no i8 holds"),
        ("UINT16", {"uint_contents": [65536]}, "inputs[0].contents.uint_contents[0]", "is 65536"),
        ("INT64", {"int_contents": [1]}, "inputs[0].contents.int_contents", "are in int64_contents"),
        ("FP32", {"fp32_contents": [1], "fp64_contents": [1]}, "inputs[0].contents.fp64_contents", "in fp32_contents"),
        ("FP16", {"fp32_contents": [1]}, "inputs[0].contents", "raw_input_contents"),
        ("BF16", {}, "inputs[0].contents", "raw_input_contents"),
    ],
)
def test_what_the_datatype_does_not_hold_is_refused(datatype: str, contents: dict[str, object], field: str, text: str):
    with pytest.raises(InvalidRequestError, match="contents") as caught:
        pack(datatype, **contents)
    assert (caught.value.reason, caught.value.field) == (Reason.INPUT_INVALID, field)
    assert text in caught.value.message


def test_of_many_numbers_the_wrong_one_is_named():
    numbers = [1] * 40_000
    assert pack("INT8", int_contents=numbers) == bytes(numbers)
    numbers[35_000] = -129
    with pytest.raises(InvalidRequestError, match=r"int_contents\[35000\] is -129"):
        pack("INT8", int_contents=numbers)


def test_what_no_field_is_does_not_come_back():
    source = build("INT8", int_contents=[1])
    source.contents.MergeFromString(b"\x23" * 97 + b"\x24" * 97)
    answer: InferMessage = find_class("ModelInferResponse")()
    tensor = answer.outputs.add()
    fill_contents(tensor, source, TensorView(DataType.I8, (1,), None, memoryview(b"\1")))
    assert tensor.contents.SerializeToString() == b"\x12\x01\x01"
