"""The names of types, rejected types, and elements as numbers: their fields, and rejected numbers."""

import struct

import numpy as np
import pytest

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.server.oip.datatypes import (
    DATATYPES,
    NAMES,
    decode_datatype,
    fill_contents,
    format_names,
    pack_contents,
)
from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.wire.tensors import TensorView

REQUEST = find_class("ModelInferRequest")


def test_inference_protocol_datatype_names_match_kind_and_bits():
    for name, data_type in DATATYPES.items():
        assert data_type.bits == int("".join(filter(str.isdigit, name.replace("BF16", "16"))) or 8)
        assert name[0] not in "UI" or np.dtype(data_type.numpy_name).name.upper() == name


def test_unsupported_inference_datatype_error_names_an_alternative_method():
    for name in ("", "FP8", "fp32", "INT4", "X" * 10000):
        with pytest.raises(InvalidRequestError, match=r"f8e4m3, .*, call .*ReshapeService/Reshape$") as caught:
            decode_datatype(name, "inputs[0].datatype")
        assert caught.value.reason is Reason.DATA_TYPE_UNSUPPORTED, name
    assert DataType.F8E4M3 not in NAMES


def test_datatype_bytes_is_rejected_because_its_size_varies():
    with pytest.raises(InvalidRequestError, match="no fixed size"):
        decode_datatype("BYTES", "inputs[0].datatype")


def test_datatypes_are_listed_in_inference_protocol_order():
    assert format_names(frozenset({DataType.F32, DataType.BF16, DataType.F16, DataType.F8E4M3})) == "FP16, BF16, FP32"


def build(datatype: str, **contents: object) -> InferMessage:
    return REQUEST(inputs=[{"datatype": datatype, "contents": contents}]).inputs[0]  # type: ignore[attr-defined] # a message class from a pool


def pack(datatype: str, **contents: object) -> bytes:
    return pack_contents(build(datatype, **contents), DATATYPES[datatype], "inputs[0]")


def test_inference_tensor_contents_are_packed_by_datatype():
    rows: list[tuple[str, str, list[float], str]] = [
        ("BOOL", "bool_contents", [True, False], "??"),
        ("INT8", "int_contents", [-128, 127], "bb"),
        ("INT16", "int_contents", [-32768, 1], "hh"),
        ("UINT8", "uint_contents", [255, 0], "BB"),
        ("UINT32", "uint_contents", [2**32 - 1, 0], "II"),
        ("UINT64", "uint64_contents", [2**64 - 1, 0], "QQ"),
        ("FP32", "fp32_contents", [0.1, -0.0], "ff"),
        ("FP64", "fp64_contents", [0.1, 2.0], "dd"),
        ("FP32", "fp32_contents", [], ""),
    ]
    for datatype, field, numbers, code in rows:
        assert pack(datatype, **{field: numbers}) == struct.pack(f"<{code}", *numbers), datatype


@pytest.mark.parametrize(
    ("datatype", "contents", "field", "text"),
    [
        ("INT8", {"int_contents": [1, 128]}, ".int_contents[1]", "is 128, which does not fit into INT8"),
        ("INT8", {"int_contents": [1] * 35_000 + [-129] + [1] * 5_000}, ".int_contents[35000]", "is -129"),
        ("UINT16", {"uint_contents": [65536]}, ".uint_contents[0]", "is 65536"),
        ("INT64", {"int_contents": [1]}, ".int_contents", "must be in int64_contents"),
        ("FP32", {"fp32_contents": [1], "fp64_contents": [1]}, ".fp64_contents", "in fp32_contents"),
        ("FP16", {"fp32_contents": [1]}, "", "raw_input_contents"),
        ("BF16", {}, "", "raw_input_contents"),
    ],
    ids=range(7),
)
def test_inference_tensor_contents_outside_their_datatype_are_rejected(
    datatype: str, contents: dict[str, object], field: str, text: str
):
    with pytest.raises(InvalidRequestError, match="contents") as caught:
        pack(datatype, **contents)
    assert (caught.value.reason, caught.value.field) == (Reason.INPUT_INVALID, f"inputs[0].contents{field}")
    assert text in caught.value.message


def test_response_contents_omit_unknown_request_fields():
    source = build("INT8", int_contents=[1])
    source.contents.MergeFromString(b"\x23" * 97 + b"\x24" * 97)
    tensor = find_class("ModelInferResponse")().outputs.add()  # type: ignore[attr-defined] # a message class from a pool
    fill_contents(tensor, source, TensorView(DataType.I8, (1,), None, memoryview(b"\1")))
    assert tensor.contents.SerializeToString() == b"\x12\x01\x01"
