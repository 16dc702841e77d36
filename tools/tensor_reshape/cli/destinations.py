"""Writes arrays to `.npy`, `.npz` and `.safetensors` files, and to pipes.

- The command writes a `.npy` or `.safetensors` file while the response arrives, so the array does not have to fit into
  memory. Output for an `.npz` archive, a pipe or a device is kept in memory as a whole.
- An output file appears under its name only when it is complete.
"""

import io
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import click
import numpy as np

from tensor_reshape.cli.locations import DEFAULT_MEMBER, FormatError, Location
from tensor_reshape.cli.mappings import Mapping
from tensor_reshape.cli.outputs import create_file, is_replaceable
from tensor_reshape.cli.safetensors_headers import build_safetensors
from tensor_reshape.cli.sources import check_npz_size
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES, Array, view_bytes

_ARCHIVE_BYTES = 256 * 1024  # the archive has the name of the member twice, of at most 64 KiB each, and some headers

GiveBack = Callable[[int], None]
Fill = Callable[[Array | None, GiveBack], Array]
"""A function that fills the given array, or creates an array if the argument is None.

Its second argument is a function to which it passes the number of bytes that have arrived.
"""


def write_array(location: Location, data_type: DataType, dims: Sequence[int], fill: Fill) -> None:
    """Writes an array whose elements `fill` fills or creates.

    Args:
        location: the file or pipe.
        data_type: the type of the elements.
        dims: the shape of the array.
        fill: the function that fills or creates the array.

    Raises:
        click.BadParameter: the extension of the file does not name a format.
        click.ClickException: the array cannot be written.
        TensorReshapeError: `fill` raised this error. In this case, the file is not written.
    """
    with _report_faults(location):
        header = _build_header(location, data_type, dims)
        size = prod(dims) * DTYPES[data_type].itemsize
        if location.is_pipe or not is_replaceable(location.path):
            if location.format == "npz":
                message = "an archive cannot be written to a pipe or a device: name a file"
                raise FormatError(message)
            array = fill(None, lambda _arrived: None)
            _write_stream(location, header, view_bytes(array).data)
        elif not location.path.endswith(f".{location.format}"):
            message = (
                f"{location.path} must end in .npy, .npz or .safetensors, because the extension selects the format"
            )
            raise click.BadParameter(message, param_hint="'--output' / '-o'")
        elif location.format == "npz":
            _write_archive(location, header, size, fill)
        else:
            with create_file(location.path, len(header) + size) as file:
                file.write(header)
                file.flush()
                mapped: np.memmap[Any, Any] = np.memmap(file, DTYPES[data_type], "r+", len(header), tuple(dims))
                fill(mapped, Mapping(mapped).give_back)


def write_bytes(location: Location, raw: memoryview) -> None:
    """Writes the bytes without a header.

    Raises:
        click.ClickException: the bytes cannot be written.
    """
    with _report_faults(location):
        if location.is_pipe or not is_replaceable(location.path):
            _write_stream(location, b"", raw)
        else:
            with create_file(location.path) as file:
                file.write(raw)


def _build_header(location: Location, data_type: DataType, dims: Sequence[int]) -> bytes:
    if location.format == "safetensors":
        return build_safetensors(data_type, dims, location.member)
    return build_npy(data_type, dims)


def build_npy(data_type: DataType, dims: Sequence[int]) -> bytes:
    """Returns the .npy header of a row-major array."""
    dtype = DTYPES[data_type]
    # A type without a name in the .npy format is written as raw bytes. For f8e5m2, numpy itself would write a name that
    # it cannot read.
    name = f"|V{dtype.itemsize}" if data_type in UNNAMED_IN_FILES else np.lib.format.dtype_to_descr(dtype)
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": name, "fortran_order": False, "shape": tuple(dims)})
    return buffer.getvalue()


def _write_archive(location: Location, header: bytes, size: int, fill: Fill) -> None:
    check_npz_size(len(header) + size)
    with create_file(location.path, size + _ARCHIVE_BYTES) as file:
        array = fill(None, lambda _arrived: None)
        with (
            zipfile.ZipFile(file, "w") as archive,
            archive.open(f"{location.member or DEFAULT_MEMBER}.npy", "w", force_zip64=True) as stream,
        ):
            stream.write(header)
            stream.write(view_bytes(array).data)
        file.truncate(file.tell())


def _write_stream(location: Location, header: bytes, raw: memoryview) -> None:
    if location.is_pipe:
        sys.stdout.buffer.write(header)
        sys.stdout.buffer.write(raw)
        return
    with Path(location.path).open("wb") as stream:
        stream.write(header)
        stream.write(raw)


@contextmanager
def _report_faults(location: Location) -> Iterator[None]:
    try:
        yield
    except TensorReshapeError:  # some of these errors are also OSErrors, for example the error of a lost connection
        raise
    except (OSError, ValueError) as error:
        reason = str(error) if isinstance(error, FormatError) else "its name is invalid"
        if isinstance(error, OSError) and error.errno:
            reason = os.strerror(error.errno)
        message = f"{location.path} cannot be written: {reason}"
        raise click.ClickException(message) from error
