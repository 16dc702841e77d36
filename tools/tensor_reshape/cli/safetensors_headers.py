"""Reads and writes headers of .safetensors files.

A .safetensors file begins with a length of eight bytes and JSON of that length, followed by the elements of all
tensors.

The library `safetensors` copies the elements into numpy arrays and does not support 8-bit floats in numpy. This module
therefore reads the short header itself, and maps the elements. The tests compare reading and writing with
the library.
"""

import json
import struct
from collections.abc import Sequence
from math import prod
from typing import IO, Any

import numpy as np

from tensor_reshape.cli.locations import DEFAULT_MEMBER, FormatError, choose_member
from tensor_reshape.cli.mappings import map_array
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.arrays import DTYPES, Array

NAMES = {
    DataType.BOOLEAN: "BOOL",
    DataType.F8E4M3: "F8_E4M3",
    DataType.F8E5M2: "F8_E5M2",
    DataType.F8E8M0: "F8_E8M0",
    **{
        data_type: data_type.name
        for data_type in DataType
        if data_type.name in {"I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "F16", "BF16", "F32", "F64"}
    },
}
"""The format's name of each data type that numpy can represent."""

_DATA_TYPES = {name: data_type for data_type, name in NAMES.items()}
_LENGTH = struct.Struct("<Q")
_MAX_HEADER_BYTES = 100_000_000  # the library's limit
_METADATA = "__metadata__"


def map_safetensors(file: IO[bytes], member: str) -> Array:
    """Returns a tensor of a file, mapped read-only.

    Raises:
        FormatError: the file is not a .safetensors file, or does not have the tensor.
        ValueError: the file ends inside the tensor, or numpy does not support the dims.
    """
    (length,) = _LENGTH.unpack(_read(file, _LENGTH.size))
    if length > _MAX_HEADER_BYTES:
        message = f"the header has {length} bytes, more than the maximum {_MAX_HEADER_BYTES}"
        raise FormatError(message)
    try:
        header = json.loads(_read(file, length).decode())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        header = None
    if not isinstance(header, dict):
        message = "the header is not a JSON object"
        raise FormatError(message)
    record = header[choose_member([name for name in header if name != _METADATA], member)]
    dtype, dims, offset = _read_record(record)
    return map_array(file, dtype, _LENGTH.size + length + offset, dims)


def build_safetensors(data_type: DataType, dims: Sequence[int], member: str) -> bytes:
    """Returns the header of a file with one tensor.

    Raises:
        FormatError: the format does not support the data type.
    """
    if data_type not in NAMES:
        message = f".safetensors has no type {data_type}; use .npy, which stores the raw bytes"
        raise FormatError(message)
    size = prod(dims) * DTYPES[data_type].itemsize
    record = {"dtype": NAMES[data_type], "shape": list(dims), "data_offsets": [0, size]}
    text = json.dumps({member or DEFAULT_MEMBER: record}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # aligns the elements
    return _LENGTH.pack(len(text)) + text


def _read(file: IO[bytes], size: int) -> bytes:
    raw = file.read(size)
    if len(raw) != size:
        message = "the file ends inside its header"
        raise FormatError(message)
    return raw


def _read_record(record: Any) -> tuple[np.dtype[np.generic], tuple[int, ...], int]:  # noqa: ANN401 - untrusted JSON
    """Returns the type, the dims and the offset of a tensor."""
    try:
        name, dims, (first, last) = str(record["dtype"]), tuple(record["shape"]), record["data_offsets"]
    except (TypeError, KeyError, ValueError):
        message = "the header does not describe the tensor: dtype, shape and two data_offsets are needed"
        raise FormatError(message) from None
    if not all(type(number) is int and number >= 0 for number in (*dims, first, last)):
        message = "the header has an invalid dim or offset"
        raise FormatError(message)
    if name not in _DATA_TYPES:
        message = f"the type {name} is not one of {', '.join(_DATA_TYPES)}"
        raise FormatError(message)
    dtype = DTYPES[_DATA_TYPES[name]]
    if last - first != prod(dims) * dtype.itemsize:
        message = f"the header reserves {last - first} bytes for a tensor that needs {prod(dims) * dtype.itemsize}"
        raise FormatError(message)
    return dtype, dims, first
