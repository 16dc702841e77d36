"""Writing arrays to files and pipes."""

from pathlib import Path

import click
import numpy as np
import pytest

from tensor_reshape.cli.destinations import GiveBack, write_array, write_bytes
from tensor_reshape.cli.locations import Location, read_location
from tensor_reshape.cli.mappings import WINDOW_BYTES
from tensor_reshape.cli.sources import read_array
from tensor_reshape.client import DataType, InvalidRequestError, Reason, UnavailableError
from tensor_reshape.wire.arrays import DTYPES, Array


def copy_into(array: Array, out: Array | None, give_back: GiveBack) -> Array:
    assert out is not None
    out[...] = array
    give_back(array.nbytes)
    return out


@pytest.mark.parametrize("name", ["file.npy", "file.npz", "file.npz:x", "file.safetensors:y"])
def test_array_written_to_each_file_format_is_read_back(tmp_path: Path, name: str):
    text = str(tmp_path / name)
    for dims in ((), (0,), (2, 3)):
        array: Array = np.arange(np.prod(dims, dtype=int), dtype=np.int32).reshape(dims)
        write_array(read_location(text), DataType.I32, dims, lambda out, give: copy_into(array, out, give))  # noqa: B023
        np.testing.assert_array_equal(read_array(text), array, strict=True)


def test_npz_file_larger_than_the_mapped_window_is_complete(tmp_path: Path):
    array: Array = np.arange(WINDOW_BYTES // 4 + 5, dtype=np.int32)
    text = str(tmp_path / "file.npz")
    write_array(read_location(text), DataType.I32, array.shape, lambda out, give_back: copy_into(array, out, give_back))
    np.testing.assert_array_equal(np.load(text)["output"], array, strict=True)


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequestError.of(Reason.NOT_DIVISIBLE, "no", "shape"),
        KeyboardInterrupt(),
        UnavailableError("gone", None),  # type: ignore[arg-type] # the code has no effect
    ],
    ids=lambda error: type(error).__name__,
)
def test_failed_array_write_leaves_no_file_and_raises_its_error(tmp_path: Path, error: BaseException):
    def fail(_out: Array | None, _give_back: GiveBack) -> Array:
        raise error

    for name in ("file.npy", "file.npz", "file.safetensors"):
        with pytest.raises(type(error)):
            write_array(read_location(str(tmp_path / name)), DataType.I32, (2,), fail)
        assert list(tmp_path.iterdir()) == []


def test_unsupported_output_file_raises_a_command_line_error(tmp_path: Path):
    def make(_out: Array | None, _give_back: GiveBack) -> Array:
        return np.zeros(2, DTYPES[DataType.I4])

    with pytest.raises(click.ClickException, match=r"has no type i4; use \.npy"):
        write_array(read_location(str(tmp_path / "file.safetensors")), DataType.I4, (2,), make)
    with pytest.raises(click.ClickException, match="an archive cannot be written"):
        write_array(Location("/dev/null", "npz"), DataType.U8, (2,), make)
    with pytest.raises(click.ClickException, match="No space left on device"):
        write_bytes(Location("/dev/full"), memoryview(bytes(100_000)))
