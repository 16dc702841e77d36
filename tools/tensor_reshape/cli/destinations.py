"""Writes arrays to `.npy`, `.npz` and `.safetensors` files, and to pipes.

- The command writes a file while the response arrives, so the array does not have to fit into memory. While an `.npz`
  archive is written, it needs twice its size on the disk, because the checksum comes before the elements in the file.
  Output for a pipe or a device is kept in memory as a whole.
- An output file appears under its name only when it is complete.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from tensor_reshape.cli.locations import Location
from tensor_reshape.cli.mappings import WINDOW_BYTES, Mapping
from tensor_reshape.cli.npy_headers import FormatError, Placement, build_npy
from tensor_reshape.cli.npz_members import write_npz
from tensor_reshape.cli.outputs import create_file, is_replaceable, reserve
from tensor_reshape.cli.safetensors_headers import build_safetensors
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.wire.arrays import DTYPES, Array, view_bytes

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
        if location.is_pipe or not is_replaceable(location.path):
            array = fill(None, lambda _arrived: None)
            _write_stream(location, header, view_bytes(array).data)
        elif not location.path.endswith(f".{location.format}"):
            message = (
                f"{location.path} must end in .npy, .npz or .safetensors, because the extension selects the format"
            )
            raise click.BadParameter(message, param_hint="'--output' / '-o'")
        elif location.format == "npz":
            _write_archive(location, header, data_type, dims, fill)
        else:
            placement = Placement(len(header), DTYPES[data_type], tuple(dims))
            with create_file(location.path, len(header) + placement.nbytes) as file:
                _fill_mapped(file, header, placement, fill)


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


def _fill_mapped(file: IO[bytes], header: bytes, placement: Placement, fill: Fill) -> Mapping:
    file.write(header)
    file.flush()
    mapping = Mapping(file, writable=True)
    fill(placement.view(mapping.buffer), lambda arrived: mapping.give_back(placement.offset + arrived))
    return mapping


def _write_archive(location: Location, header: bytes, data_type: DataType, dims: Sequence[int], fill: Fill) -> None:
    placement = Placement(len(header), DTYPES[data_type], tuple(dims))
    size = len(header) + placement.nbytes
    # The temporary file is created in the output's directory, so that only this directory needs enough space.
    with tempfile.TemporaryFile(dir=Path(location.path).resolve().parent) as scratch:
        reserve(scratch, size)
        mapping = _fill_mapped(scratch, header, placement, fill)
        with create_file(location.path) as file:
            write_npz(file, location.member, _read_windows(mapping, size))


def _read_windows(mapping: Mapping, size: int) -> Iterator[memoryview]:
    for start in range(0, size, WINDOW_BYTES):
        mapping.give_back(start)
        yield mapping.buffer[start : min(start + WINDOW_BYTES, size)]


def _write_stream(location: Location, header: bytes, raw: memoryview) -> None:
    if location.format == "npz":
        message = "an archive cannot be written to standard output: name a file"
        raise FormatError(message)
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
