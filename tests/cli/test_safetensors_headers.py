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


def build(header: object) -> io.BytesIO:
    text = json.dumps(header).encode()
    return io.BytesIO(struct.pack("<Q", len(text)) + text + bytes(24))


@pytest.mark.parametrize("data_type", NAMES, ids=str)
def test_the_library_reads_what_is_written(data_type: DataType):
    raw = bytes(range(6 * DTYPES[data_type].itemsize))
    (name, tensor), *others = safetensors.deserialize(  # type: ignore[no-untyped-call]
        build_safetensors(data_type, [2, 3], "x") + raw
    )
    assert (name, tensor["dtype"], tensor["shape"], bytes(tensor["data"]), others) == (
        "x",
        NAMES[data_type],
        [2, 3],
        raw,
        [],
    )


@pytest.mark.parametrize("dims", [[], [0], [2, 3], [0, 4]], ids=str)
def test_what_the_library_writes_is_read(dims: list[int]):
    array = np.arange(np.prod(dims, dtype=int), dtype=np.int16).reshape(dims)
    raw = safetensors.numpy.save({"a": np.zeros(3), "b": array}, {"format": "np"})
    placement = read_safetensors(io.BytesIO(raw), "b")
    np.testing.assert_array_equal(placement.view(memoryview(raw)), array, strict=True)


def test_elements_begin_where_they_are_aligned():
    assert len(build_safetensors(DataType.F64, [3], "a name of some length")) % 8 == 0


def test_a_type_that_the_format_lacks_is_named():
    with pytest.raises(ValueError, match="has no i4"):
        build_safetensors(DataType.I4, [3], "")


RECORD = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


@pytest.mark.parametrize(
    "header",
    [
        [],
        {},
        {"__metadata__": {"a": "b"}},
        {"a": None},
        {"a": {}},
        {"a": {**RECORD, "dtype": "C64"}},
        {"a": {**RECORD, "dtype": ["F32"]}},
        {"a": {**RECORD, "shape": [2, 4]}},
        {"a": {**RECORD, "shape": [-2, -3]}},
        {"a": {**RECORD, "shape": [2, 3.0]}},
        {"a": {**RECORD, "shape": [True, 6]}},
        {"a": {**RECORD, "shape": "23"}},
        {"a": {**RECORD, "shape": 6}},
        {"a": {**RECORD, "data_offsets": [24, 0]}},
        {"a": {**RECORD, "data_offsets": [0]}},
        {"a": {**RECORD, "data_offsets": [-24, 0]}},
        {"a": {**RECORD, "shape": [2**70], "data_offsets": [0, 2**70]}},
    ],
    ids=json.dumps,
)
def test_a_header_that_lies_is_refused(header: object):
    with pytest.raises(ValueError, match=r"header|member|type|Expecting"):
        read_safetensors(build(header), "")


@pytest.mark.parametrize(
    "raw",
    [b"", b"\0" * 7, struct.pack("<Q", 2**40), struct.pack("<Q", 9) + b"{}", struct.pack("<Q", 2) + b"\xff\xfe"],
    ids=["empty", "cut in the length", "too long", "cut in the header", "no text"],
)
def test_what_is_no_header_is_refused(raw: bytes):
    with pytest.raises(ValueError, match=r"header|member|type|Expecting"):
        read_safetensors(io.BytesIO(raw), "")
