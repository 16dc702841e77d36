"""Headers of .safetensors, beside the library."""

import io
import json
import struct

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from tensor_reshape.cli.safetensors_headers import NAMES, build_safetensors, read_safetensors
from tensor_reshape.client import DataType
from tensor_reshape.wire.arrays import DTYPES

RECORD = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
HEADERS: list[object] = [
    [],
    {},
    {"__metadata__": {"a": "b"}},
    {"a": None},
    {"a": {}},
    {"a": {**RECORD, "dtype": "C64"}},
    {"a": {**RECORD, "dtype": ["F32"]}},
    {"a": {**RECORD, "shape": [2, 4]}},
    {"a": {**RECORD, "shape": [2, 2]}},
    {"a": {**RECORD, "shape": [-2, -3]}},
    {"a": {**RECORD, "shape": [2, 3.0]}},
    {"a": {**RECORD, "shape": [True, 6]}},
    {"a": {**RECORD, "shape": "23"}},
    {"a": {**RECORD, "shape": 6}},
    {"a": {**RECORD, "data_offsets": [24, 0]}},
    {"a": {**RECORD, "data_offsets": [0]}},
    {"a": {**RECORD, "data_offsets": [-24, 0]}},
    {"a": {**RECORD, "shape": [2**70], "data_offsets": [0, 2**70]}},
]
"""Headers that no file with 24 bytes of elements has."""

BROKEN = (b"", b"\0" * 7, struct.pack("<Q", 2**40), struct.pack("<Q", 9) + b"{}", struct.pack("<Q", 2) + b"\xff\xfe")


def test_library_reads_the_header_of_every_type():
    for data_type, dtype in NAMES.items():
        raw = bytes(range(6 * DTYPES[data_type].itemsize))
        ((name, tensor),) = safetensors.deserialize(  # type: ignore[no-untyped-call]
            build_safetensors(data_type, [2, 3], "x") + raw
        )
        told = (name, tensor["dtype"], tensor["shape"], bytes(tensor["data"]))
        assert told == ("x", dtype, [2, 3], raw)
    assert len(build_safetensors(DataType.F64, [3], "a name of some length")) % 8 == 0  # elements are aligned
    with pytest.raises(ValueError, match="has no i4"):
        build_safetensors(DataType.I4, [3], "")


def test_header_of_the_library_is_read():
    for dims in ([], [0], [2, 3], [0, 4]):
        array = np.arange(np.prod(dims, dtype=int), dtype=np.int16).reshape(dims)
        raw = safetensors.numpy.save({"a": np.zeros(3), "b": array}, {"format": "np"})
        placement = read_safetensors(io.BytesIO(raw), "b")
        np.testing.assert_array_equal(placement.view(memoryview(raw)), array, strict=True)


@pytest.mark.parametrize("header", HEADERS, ids=json.dumps)
def test_false_header_is_rejected(header: object):
    text = json.dumps(header).encode()
    with pytest.raises(ValueError, match=r"header|member|type|Expecting"):
        read_safetensors(io.BytesIO(struct.pack("<Q", len(text)) + text + bytes(24)), "")


@pytest.mark.parametrize("raw", BROKEN, ids=["empty", "cut length", "too long", "cut header", "no text"])
def test_file_without_a_header_is_rejected(raw: bytes):
    with pytest.raises(ValueError, match=r"header|member|type|Expecting"):
        read_safetensors(io.BytesIO(raw), "")
