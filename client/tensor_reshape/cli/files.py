"""`.npy` files, files of packed bytes, and pipes."""

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from tensor_reshape.client import PackedTensor
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES, Array, find_data_type

_PIPE = "-"
_PACKED = [data_type for data_type in DataType if data_type.is_packed]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFiles:
    """Where an array comes from and where its result goes.

    Attributes:
        source: a path, or "-" for standard input.
        output: a path, or "-" for standard output.
        data_type: what the elements are where the format cannot say: it names no bfloat16 and writes raw bytes.
        as_json: whether a description of the result is printed too.
    """

    source: str
    output: str
    data_type: DataType | None
    as_json: bool

    def __post_init__(self) -> None:
        """Refuses two things on one standard output."""
        if self.output == _PIPE and self.as_json:
            message = "--json and the array cannot share standard output: name a file with --output"
            raise click.UsageError(message)
        if self.output == _PIPE and sys.stdout.isatty():
            message = "an array is not for a terminal: name a file with --output, or pipe it"
            raise click.UsageError(message)

    def read(self) -> Array:
        """Returns the array.

        Raises:
            click.ClickException: it cannot be read, is not `.npy`, or its items are not of the size of `data_type`.
            click.UsageError: no array holds `data_type`.
        """
        if self.data_type is not None and self.data_type not in DTYPES:
            message = f"no array holds {self.data_type}: give its packed bytes, and its shape with reshape --dims"
            raise click.UsageError(message)
        array = read_array(self.source)
        return array if self.data_type is None else _reinterpret(array, self.data_type)

    def read_packed(self, dims: Sequence[int]) -> PackedTensor:
        """Returns the tensor of this shape whose packed bytes, and nothing else, the source holds.

        Raises:
            click.ClickException: it cannot be read.
            click.UsageError: `data_type` is none that is packed.
        """
        if self.data_type is None or not self.data_type.is_packed:
            message = f"--dims goes with a --data-type below one byte: {', '.join(map(str, _PACKED))}"
            raise click.UsageError(message)
        try:
            return PackedTensor(self.data_type, dims, _read_bytes(self.source))
        except OSError as error:
            message = f"{self.source} cannot be read: {error}"
            raise click.ClickException(message) from error

    def write(self, array: Array) -> None:
        """Writes the result, and its description where that is asked for.

        Raises:
            click.ClickException: it cannot be written.
        """
        data_type = find_data_type(array.dtype, "output")
        buffer = io.BytesIO()
        np.save(buffer, _bare(array) if data_type in UNNAMED_IN_FILES else array, allow_pickle=False)
        self._write(buffer.getbuffer(), array.shape, data_type)

    def write_packed(self, tensor: PackedTensor) -> None:
        """Writes the packed bytes of a result, and its description where that is asked for.

        Raises:
            click.ClickException: they cannot be written.
        """
        self._write(tensor.data, tensor.dims, tensor.data_type)

    def _write(self, raw: memoryview, shape: Sequence[int], data_type: DataType) -> None:
        try:
            if self.output == _PIPE:
                sys.stdout.buffer.write(raw)
            else:
                Path(self.output).write_bytes(raw)
        except OSError as error:
            message = f"{self.output} cannot be written: {error}"
            raise click.ClickException(message) from error
        if self.as_json:
            click.echo(json.dumps({"shape": shape, "data_type": str(data_type), "output": self.output}))


def read_array(source: str) -> Array:
    """Reads one array from a file, or from standard input ("-").

    Raises:
        click.ClickException: it cannot be read or is not `.npy`.
    """
    try:
        # Whole, and then parsed: a pipe cannot be read twice, nor its position asked for, as numpy's reader would.
        array: Array = np.lib.format.read_array(io.BytesIO(_read_bytes(source)), allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, OverflowError) as error:
        message = f"{source} is not a readable .npy file: {' '.join(str(error).split())}"
        raise click.ClickException(message) from error
    return array


def _read_bytes(source: str) -> bytes:
    return sys.stdin.buffer.read() if source == _PIPE else Path(source).read_bytes()


def _bare(array: Array) -> Array:
    """Returns the items as bare bytes: of an f8e5m2 numpy writes a name that it cannot read again."""
    return array if array.dtype.kind == "V" else array.view(f"V{array.itemsize}")


def _reinterpret(array: Array, data_type: DataType) -> Array:
    """Gives raw items their type; items that have one must have this one."""
    if array.dtype.kind != "V":  # "V": bare bytes, which is all that a file says of types that numpy has no name for
        if find_data_type(array.dtype, "data") != data_type:
            message = f"the array is of numpy type {array.dtype}, not {data_type}"
            raise click.ClickException(message)
        return array
    dtype = DTYPES[data_type]
    if array.dtype.itemsize != dtype.itemsize:
        message = f"the items have {array.dtype.itemsize} bytes; {data_type} takes {dtype.itemsize}"
        raise click.ClickException(message)
    return array.view(dtype)
