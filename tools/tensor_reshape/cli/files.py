"""What a command that moves an array does with its files: see `sources` and `destinations` for how.

Law: the file that is read is never the one that is written, and of one that changed while it was read nothing is
written.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from tensor_reshape.cli.destinations import GiveBack, write_array, write_bytes
from tensor_reshape.cli.locations import Location, read_location
from tensor_reshape.cli.progress_bars import Advance, draw_progress
from tensor_reshape.cli.sources import Source, open_bytes, open_source
from tensor_reshape.client import PackedTensor
from tensor_reshape.client.requests import Arguments, plan_reshape
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.wire.arrays import DTYPES, Array, find_data_type

_PACKED = [data_type for data_type in DataType if data_type.is_packed]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFiles:
    """Where an array comes from and where its result goes.

    Attributes:
        source: a file, a member of one, or "-" for standard input.
        output: the same, "-" for standard output.
        data_type: what the elements are where the format cannot say: `.npy` names no bfloat16 and writes raw bytes.
        as_json: whether a description of the result is printed too.
        progress: whether a bar shows how far a long transfer is, where there is a terminal.
    """

    source: str
    output: str
    data_type: DataType | None
    as_json: bool
    progress: bool

    def __post_init__(self) -> None:
        """Refuses two things on one standard output, and a file that is read and written."""
        if self._destination.is_pipe and self.as_json:
            message = "--json and the array cannot both use standard output: name a file with --output"
            raise click.UsageError(message)
        if self._destination.is_pipe and sys.stdout.isatty():
            message = "an array cannot be printed on a terminal: name a file with --output, or use a pipe"
            raise click.UsageError(message)
        if _are_same(read_location(self.source), self._destination):
            message = f"{self.output} is the input file: name another one with --output"
            raise click.UsageError(message)

    @property
    def _destination(self) -> Location:
        return read_location(self.output)

    def reshape(self, method: Callable[..., Array], shape: Sequence[int] | Array, **options: Any) -> None:
        """Has a method of a client reshape the array of the source, and writes what comes back.

        Args:
            method: `static_reshape`, `dynamic_reshape` or `reshape`.
            shape: the target.
            **options: `special_zero` and `expected_shape`.

        Raises:
            click.ClickException: the source cannot be read, or the output cannot be written.
            click.UsageError: no array holds `data_type`.
        """
        if self.data_type is not None and self.data_type not in DTYPES:
            message = f".npy has no type {self.data_type}: pass packed bytes, and their shape with reshape --dims"
            raise click.UsageError(message)
        with open_source(self.source) as source:
            array = source.array if self.data_type is None else _reinterpret(source.array, self.data_type)
            # Before anything is sent: the output has its place on the disk when the first byte of it comes.
            plan = plan_reshape(Arguments(OPERATIONS[method.__name__], array, shape, **options))
            with draw_progress(plan.dense_bytes, wanted=self.progress) as advance:
                call = partial(method, array, shape, **options)
                write_array(self._destination, plan.data_type, plan.dims, partial(_fill, call, source, advance))
        self._describe(plan.dims, plan.data_type)

    def read_packed(self, dims: Sequence[int]) -> PackedTensor:
        """Returns the tensor of this shape whose packed bytes, and nothing else, the source holds.

        Raises:
            click.ClickException: it cannot be read.
            click.UsageError: `data_type` is none that is packed.
        """
        if self.data_type is None or not self.data_type.is_packed:
            message = f"--dims needs a --data-type below one byte: {', '.join(map(str, _PACKED))}"
            raise click.UsageError(message)
        with open_bytes(self.source, self.source) as file:
            return PackedTensor(self.data_type, dims, file.read())

    def write_packed(self, tensor: PackedTensor) -> None:
        """Writes the packed bytes of a result, and its description where that is asked for.

        Raises:
            click.ClickException: they cannot be written.
        """
        write_bytes(Location(self.output), tensor.data)
        self._describe(tensor.dims, tensor.data_type)

    def _describe(self, dims: Sequence[int], data_type: DataType) -> None:
        if self.as_json:
            click.echo(json.dumps({"shape": list(dims), "data_type": str(data_type), "output": self.output}))


def _fill(
    call: Callable[..., Array], source: Source, advance: Advance | None, out: Array | None, give_back: GiveBack
) -> Array:
    """Makes the call; as its answer comes, gives back the memory of what has travelled, and moves the bar."""

    def follow(arrived: int, total: int) -> None:
        source.give_back(arrived)
        give_back(arrived)
        if advance is not None:
            advance(arrived, total)

    output = call(out=out, progress=follow)
    source.check_unchanged()
    return output


def _are_same(source: Location, output: Location) -> bool:
    if source.is_pipe or output.is_pipe:
        return False
    try:
        return Path(source.path).samefile(output.path)
    except (OSError, ValueError):  # one of them is not there, or cannot be: whoever opens it says so
        return False


def _reinterpret(array: Array, data_type: DataType) -> Array:
    """Gives raw items their type; items that have one must have this one."""
    if array.dtype.kind != "V":  # "V": bare bytes, which is all that a file says of types that numpy has no name for
        if find_data_type(array.dtype, "data") != data_type:
            message = f"the array is of numpy type {array.dtype}, not {data_type}"
            raise click.ClickException(message)
        return array
    dtype = DTYPES[data_type]
    if array.dtype.itemsize != dtype.itemsize:
        message = f"the items have {array.dtype.itemsize} bytes; {data_type} has {dtype.itemsize}"
        raise click.ClickException(message)
    return array.view(dtype)
