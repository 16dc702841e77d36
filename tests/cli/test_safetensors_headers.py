"""Headers of .safetensors files. `test_files` has headers that the library writes."""

import io
import json
import struct
from pathlib import Path

import pytest
import safetensors
import safetensors.numpy

from tensor_reshape.cli.safetensors_headers import NAMES, build_safetensors, map_safetensors
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
"""Headers that are wrong for a file with 24 bytes of elements."""


def write_file(header: object) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(24)


BROKEN = (b"", b"\0" * 7, struct.pack("<Q", 2**40), struct.pack("<Q", 9) + b"{}", struct.pack("<Q", 2) + b"\xff\xfe")


def test_safetensors_library_reads_the_written_header_of_every_type(tmp_path: Path):
    for data_type, dtype in NAMES.items():
        raw = bytes(range(6 * DTYPES[data_type].itemsize))
        written = build_safetensors(data_type, [2, 3], "x") + raw
        ((name, tensor),) = safetensors.deserialize(written)  # type: ignore[no-untyped-call]
        told = (name, tensor["dtype"], tensor["shape"], bytes(tensor["data"]))
        assert told == ("x", dtype, [2, 3], raw)
        path = tmp_path / "file.safetensors"
        path.write_bytes(written)
        with path.open("rb") as file:
            array = map_safetensors(file, "")
        assert (array.dtype, array.tobytes()) == (DTYPES[data_type], raw), dtype
    assert len(build_safetensors(DataType.F64, [3], "a name of some length")) % 8 == 0  # elements are aligned
    with pytest.raises(ValueError, match="has no type i4"):
        build_safetensors(DataType.I4, [3], "")


@pytest.mark.parametrize("raw", [*map(write_file, HEADERS), *BROKEN], ids=repr)
def test_missing_or_invalid_safetensors_header_is_rejected(raw: bytes):
    with pytest.raises(ValueError, match=r"header|array|type"):
        map_safetensors(io.BytesIO(raw), "")
