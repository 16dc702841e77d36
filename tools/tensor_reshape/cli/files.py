"""Handles the input and output files of a command that reshapes an array.

The modules `sources` and `destinations` read and write the files.

Invariant: the output file is never the input file. If the input file changes while it is read, no output is written.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from tensor_reshape.cli.consoles import draw_progress
from tensor_reshape.cli.destinations import GiveBack, write_array, write_bytes
from tensor_reshape.cli.sources import Location, OpenArray, open_bytes, open_source, read_location
from tensor_reshape.client import CallTimeoutError, PackedTensor, Progress
from tensor_reshape.client.arguments import DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.client.requests import Arguments, plan_reshape
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.rules.sizes import round_size
from tensor_reshape.wire.arrays import DTYPES, Array, find_data_type

LEAST_BYTES_PER_SECOND = 4 * 1024 * 1024
"""Without --timeout, the timeout is the default timeout of a call plus the time of a transfer at this speed."""

_PACKED = [data_type for data_type in DataType if data_type.is_packed]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFiles:
    """The input file and the output file of a reshape.

    Attributes:
        source: the location of the input: a file, a member of a file, or "-" for standard input.
        output: the location of the output: a file, a member of a file, or "-" for standard output.
        data_type: the type of the elements, if the file format has no name for it, for example bfloat16 in `.npy`.
        as_json: whether to print a JSON description of the result.
        timeout: the timeout of the call in seconds, or None if the user has set none.
        progress: whether to show a progress bar on a terminal.
    """

    source: str
    output: str
    data_type: DataType | None
    as_json: bool
    timeout: float | None
    progress: bool

    def __post_init__(self) -> None:
        """Rejects options that would mix an array with JSON, print it on a terminal, or overwrite the input file."""
        if self._destination.is_pipe and self.as_json:
            raise click.UsageError("--json and the array cannot both use standard output: name a file with --output")
        if self._destination.is_pipe and sys.stdout.isatty():
            raise click.UsageError("an array cannot be printed on a terminal: name a file with --output, or use a pipe")
        if _are_same(read_location(self.source), self._destination):
            raise click.UsageError(f"{self.output} is the input file: name another file with --output")

    @property
    def _destination(self) -> Location:
        return read_location(self.output)

    def reshape(self, method: Callable[..., Array], shape: Sequence[int] | Array, **options: Any) -> None:
        """Reshapes the input array with `method`, which is a method of a client, and writes the output."""
        if self.data_type is not None and self.data_type not in DTYPES:
            message = f".npy files have no type {self.data_type}: pass a file of packed bytes, and its --dims"
            raise click.UsageError(message)
        with open_source(self.source) as source:
            array = source.array if self.data_type is None else _reinterpret(source.array, self.data_type)
            # The output shape is planned before the request is sent, so that disk space can be reserved before the
            # first byte arrives.
            plan = plan_reshape(Arguments(OPERATIONS[method.__name__], array, shape, **options))
            timeout = self.timeout or DEFAULT_TIMEOUT_SECONDS + plan.dense_bytes / LEAST_BYTES_PER_SECOND
            with draw_progress(plan.dense_bytes, wanted=self.progress) as advance:
                call = partial(method, array, shape, timeout=timeout, **options)
                write_array(self._destination, plan.data_type, plan.dims, partial(_fill, call, source, advance))
        self._describe(plan.dims, plan.data_type)

    def read_packed(self, dims: Sequence[int]) -> PackedTensor:
        """Returns a packed tensor whose bytes are the content of the whole input file."""
        if self.data_type is None or not self.data_type.is_packed:
            raise click.UsageError(f"--dims requires a --data-type below one byte: {', '.join(map(str, _PACKED))}")
        if self.output.endswith((".npy", ".npz", ".safetensors")):
            message = f"with --dims the output is packed bytes, not an array file: give {self.output} another extension"
            raise click.UsageError(message)
        with open_bytes(self.source, self.source) as file:
            return PackedTensor(self.data_type, dims, file.read())

    def write_packed(self, tensor: PackedTensor) -> None:
        """Writes the packed bytes of an output, and prints a description of the output if requested."""
        write_bytes(Location(self.output), tensor.data)
        self._describe(tensor.dims, tensor.data_type)

    def _describe(self, dims: Sequence[int], data_type: DataType) -> None:
        if self.as_json:
            click.echo(json.dumps({"shape": list(dims), "data_type": str(data_type), "output": self.output}))


def _fill(
    call: Callable[..., Array], source: OpenArray, advance: Progress | None, out: Array | None, give_back: GiveBack
) -> Array:
    """Makes the call and returns its output.

    During the transfer, the function releases the memory of sent elements and updates the progress bar.
    """
    progress = (0, 0)

    def follow(arrived: int, total: int) -> None:
        nonlocal progress
        progress = arrived, total
        source.give_back(arrived)
        give_back(arrived)
        if advance is not None:
            advance(arrived, total)

    try:
        output = call(out=out, progress=follow)
    except CallTimeoutError as error:
        if progress[0]:
            arrived, whole = map(round_size, progress)
            error.fault = f"{arrived} of {whole} had arrived"
        raise
    source.check_unchanged()
    return output


def _are_same(source: Location, output: Location) -> bool:
    if source.is_pipe or output.is_pipe:
        return False
    try:
        return Path(source.path).samefile(output.path)
    # a missing or invalid file is ignored here, because the command reports it when it opens the file
    except (OSError, ValueError):
        return False


def _reinterpret(array: Array, data_type: DataType) -> Array:
    """Returns an array of raw bytes as an array with elements of `data_type`.

    If the array already has `data_type`, it is returned unchanged. Any other type is rejected.
    """
    # The numpy kind "V" means raw bytes. A file has raw bytes if its elements have a type without a name in numpy.
    if array.dtype.kind != "V":
        if find_data_type(array.dtype, "data") != data_type:
            raise click.ClickException(f"the array is of numpy type {array.dtype}, not {data_type}: remove --data-type")
        return array
    dtype = DTYPES[data_type]
    if array.dtype.itemsize != dtype.itemsize:
        message = f"the items of the array have {array.dtype.itemsize} bytes, but {data_type} has {dtype.itemsize}"
        raise click.ClickException(message)
    return array.view(dtype)
