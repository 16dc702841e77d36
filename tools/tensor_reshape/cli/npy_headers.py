"""Reads and writes headers of .npy files, which describe the type and shape of the elements.

Invariants: every value of a header is compared with the size of the file, and no header can create Python objects.
"""

import io
from collections.abc import Sequence
from math import prod
from typing import IO, NamedTuple

import numpy as np

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES, Array

_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class FormatError(ValueError):
    """A file is damaged, or has contents that this program does not read. The text of the error says why."""


class Placement(NamedTuple):
    """The position, type and shape of the elements of an array in a file.

    Attributes:
        offset: the position of the first element in bytes.
        dtype: the type of the elements.
        dims: the shape of the array.
        is_fortran: whether the first dim varies fastest.
    """

    offset: int
    dtype: np.dtype[np.generic]
    dims: tuple[int, ...]
    is_fortran: bool = False

    @property
    def nbytes(self) -> int:
        """The size of the elements in bytes."""
        return prod(self.dims) * self.dtype.itemsize

    def view(self, buffer: memoryview) -> Array:
        """Returns the array.

        Raises:
            FormatError: the buffer is too short.
            ValueError: numpy does not support the dims.
        """
        end = self.offset + self.nbytes
        if min(self.dims, default=0) < 0 or end > buffer.nbytes:
            message = (
                f"the header announces the shape {list(self.dims)} and {end - self.offset} bytes of elements, but "
                f"{buffer.nbytes - self.offset} follow"
            )
            raise FormatError(message)
        return np.ndarray(self.dims, self.dtype, buffer, self.offset, order="F" if self.is_fortran else "C")


def read_npy(file: IO[bytes]) -> Placement:
    """Reads the header of an array, and leaves the file position at the first element.

    Raises:
        FormatError: the array has Python objects or records, or the file has no header.
        ValueError: the header is invalid.
    """
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        message = "the array does not start with the signature of the .npy format"
        raise FormatError(message) from None
    reader = _READERS.get(version)
    if reader is None:
        message = f"the format version {version[0]}.{version[1]} contains records, which are not tensors"
        raise FormatError(message)
    dims, is_fortran, dtype = reader(file)
    if dtype.hasobject:
        message = "the array contains Python objects, which are not loaded for safety"
        raise FormatError(message)
    return Placement(file.tell(), dtype, dims, is_fortran)


def read_elements(placement: Placement, stream: IO[bytes], first: bytes = b"") -> Array:
    """Reads a whole array, but nothing after the array.

    Args:
        placement: the contents of the header.
        stream: the stream with the elements, except `first`.
        first: the bytes that were already read from the stream. These bytes may include bytes after the array.

    Raises:
        FormatError: the stream ends too early.
        MemoryError: there is not enough memory.
    """
    # The system provides memory for the buffer only when it is written. If a header claims too large a size, the buffer
    # therefore uses only as much memory as the data that follows.
    buffer = np.empty(placement.nbytes, np.uint8).data
    arrived = min(len(first), len(buffer))
    buffer[:arrived] = first[:arrived]
    while count := stream.readinto(buffer[arrived:]):  # type: ignore[attr-defined] # all byte streams have this method
        arrived += count
    return placement._replace(offset=0).view(buffer[:arrived])


def build_npy(data_type: DataType, dims: Sequence[int]) -> bytes:
    """Returns the .npy header of a row-major array."""
    dtype = DTYPES[data_type]
    # A type without a name in the .npy format is written as raw bytes. For f8e5m2, numpy itself would write a name that
    # it cannot read.
    name = f"|V{dtype.itemsize}" if data_type in UNNAMED_IN_FILES else np.lib.format.dtype_to_descr(dtype)
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": name, "fortran_order": False, "shape": tuple(dims)})
    return buffer.getvalue()
