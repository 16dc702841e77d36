"""Headers of .npy: where the elements of an array lie in a file, and what stands before them.

Law: nothing that a header says is believed before it is held against the size of the file; and no header makes Python
objects.
"""

import io
from collections.abc import Sequence
from math import prod
from typing import IO, NamedTuple

import numpy as np

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES, Array

_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Placement(NamedTuple):
    """Where the elements of an array lie.

    Attributes:
        offset: of the first, in bytes.
        dtype: of each.
        dims: of the array.
        is_fortran: whether the first dim is the one that runs fastest.
    """

    offset: int
    dtype: np.dtype[np.generic]
    dims: tuple[int, ...]
    is_fortran: bool = False

    @property
    def nbytes(self) -> int:
        """How many bytes they take."""
        return prod(self.dims) * self.dtype.itemsize

    def view(self, buffer: memoryview) -> Array:
        """Returns the array.

        Raises:
            ValueError: the buffer is too short, or numpy cannot hold the dims.
        """
        end = self.offset + self.nbytes
        if min(self.dims, default=0) < 0 or end > buffer.nbytes:
            message = f"{end - self.offset} bytes of elements should follow, but {buffer.nbytes - self.offset} do"
            raise ValueError(message)
        return np.ndarray(self.dims, self.dtype, buffer, self.offset, order="F" if self.is_fortran else "C")


def read_npy(file: IO[bytes]) -> Placement:
    """Reads a header; the file is then at the first element.

    Raises:
        ValueError: it is none, or one of Python objects or of records.
    """
    version = np.lib.format.read_magic(file)
    reader = _READERS.get(version)
    if reader is None:
        message = f"its format {version[0]}.{version[1]} contains records, which are not tensors"
        raise ValueError(message)
    dims, is_fortran, dtype = reader(file)
    if dtype.hasobject:
        message = "it contains Python objects, which are not loaded for safety"
        raise ValueError(message)
    return Placement(file.tell(), dtype, dims, is_fortran)


def read_elements(placement: Placement, stream: IO[bytes], first: bytes = b"") -> Array:
    """Reads an array whole; of what follows it, nothing.

    Args:
        placement: what its header says.
        stream: where its elements are, but for the first.
        first: bytes of them that have been read already, or more than there are.

    Raises:
        ValueError: the stream ends before they do.
        MemoryError: there is no room for them.
    """
    # Memory is taken as it is filled: a header that tells of too much costs what follows it, and no more.
    buffer = np.empty(placement.nbytes, np.uint8).data
    arrived = min(len(first), len(buffer))
    buffer[:arrived] = first[:arrived]
    while count := stream.readinto(buffer[arrived:]):  # type: ignore[attr-defined] # as all streams of bytes have it
        arrived += count
    return placement._replace(offset=0).view(buffer[:arrived])


def build_npy(data_type: DataType, dims: Sequence[int]) -> bytes:
    """Returns the header of an array that follows in row-major order."""
    dtype = DTYPES[data_type]
    # Bare bytes, for what the format has no name for: of an f8e5m2 numpy writes one that it cannot read again.
    name = f"|V{dtype.itemsize}" if data_type in UNNAMED_IN_FILES else np.lib.format.dtype_to_descr(dtype)
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": name, "fortran_order": False, "shape": tuple(dims)})
    return buffer.getvalue()
