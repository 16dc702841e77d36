"""Writing arrays to files and pipes, and files that are written completely or not at all."""

import io
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from tensor_reshape.cli.destinations import (
    GiveBack,
    build_npy,
    create_file,
    is_replaceable,
    write_array,
    write_bytes,
    write_file,
)
from tensor_reshape.cli.sources import MAX_NPZ_BYTES, Location, read_array, read_location
from tensor_reshape.client import DataType, InvalidRequestError, Reason, UnavailableError
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES, Array

# nohup, under which the tests may run, ignores SIGHUP.
WAIT = """
import signal, sys, time
from tensor_reshape.cli.destinations import create_file
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with create_file(sys.argv[1], 100):
    print("writing", flush=True)
    time.sleep(60)
"""


def fail_to_fill(_out: Array | None, _give_back: GiveBack) -> Array:
    pytest.fail("the call was made")


def copy_into(array: Array, out: Array | None, give_back: GiveBack) -> Array:
    if out is None:
        return array
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


def test_numpy_reads_the_written_npy_header_of_every_data_type():
    for data_type, dtype in DTYPES.items():
        array = np.arange(6).astype(dtype).reshape(2, 3)
        read = np.load(io.BytesIO(build_npy(data_type, [2, 3]) + array.tobytes()))
        assert (read.shape, read.tobytes()) == ((2, 3), array.tobytes()), data_type
        assert read.dtype.kind == "V" if data_type in UNNAMED_IN_FILES else read.dtype == array.dtype
    assert len(build_npy(DataType.F64, [3, 5])) % 64 == 0  # elements are aligned


def test_npz_output_above_the_limit_is_refused_before_the_call(tmp_path: Path):
    with pytest.raises(click.ClickException, match=r"may have 1 GiB, but this one has 2147483776 bytes: use \.npy"):
        write_array(Location(str(tmp_path / "file.npz"), "npz"), DataType.U8, (2 * MAX_NPZ_BYTES,), fail_to_fill)
    assert list(tmp_path.iterdir()) == []


def test_npz_output_takes_only_the_space_of_the_archive(tmp_path: Path):
    text = str(tmp_path / "file.npz")
    array: Array = np.arange(5000, dtype=np.int32)
    write_array(read_location(text), DataType.I32, array.shape, lambda _out, _give: array)
    np.testing.assert_array_equal(np.load(text)["output"], array, strict=True)
    assert array.nbytes < os.stat(text).st_size < array.nbytes + 1000  # noqa: PTH116 - a text


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
def test_array_without_disk_space_is_refused_before_the_call(tmp_path: Path, ending: str):
    location = read_location(str(tmp_path / f"file.{ending}"))
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, largest[1]))
    try:
        with pytest.raises(click.ClickException, match="cannot be written: File too large"):
            write_array(location, DataType.U8, (10_000,), fail_to_fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, largest)
    assert list(tmp_path.iterdir()) == []


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


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_output_file_appears_only_when_it_is_complete(tmp_path: Path):
    path = tmp_path / "file"
    with create_file(str(path), 3) as file:
        file.write(b"abc")
        assert not path.exists()
    assert (path.read_bytes(), list_names(tmp_path)) == (b"abc", ["file"])
    with pytest.raises(ZeroDivisionError), create_file(str(path), 3) as file:
        file.write(b"new" * (1 // 0))
    assert (path.read_bytes(), list_names(tmp_path)) == (b"abc", ["file"])


def test_replacing_a_file_keeps_its_symbolic_link_and_mode(tmp_path: Path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.touch(mode=0o640)
    link.symlink_to(path)
    with create_file(str(link)) as file:
        file.write(b"new")
    assert (link.is_symlink(), path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (True, b"new", 0o640)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_during_a_write_leaves_no_file(tmp_path: Path, number: signal.Signals):
    with subprocess.Popen([sys.executable, "-c", WAIT, tmp_path / "file"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len(list_names(tmp_path)) == 1
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert list_names(tmp_path) == []


def test_signal_handlers_are_restored_after_a_write(tmp_path: Path):
    terminated, before = (
        signal.getsignal(signal.SIGTERM),
        signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # the state under nohup
    try:
        with create_file(str(tmp_path / "file")):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) != terminated
        assert signal.getsignal(signal.SIGTERM) == terminated
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_regular_or_missing_files_are_replaced(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    names = ("fifo", "file", "new")
    assert [is_replaceable(str(tmp_path / name)) for name in names] == [False, True, True]
    with pytest.raises(IsADirectoryError):
        is_replaceable(str(tmp_path))


def test_write_file_replaces_a_file_atomically(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as old:
        write_file(path, b"new")
        assert (old.read(), path.read_bytes(), list_names(tmp_path)) == (b"old", b"new", ["file"])
    write_file(Path(os.devnull), b"new")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    with pytest.raises(click.FileError, match="No such file or directory") as caught:
        write_file(tmp_path / "none" / "file", b"new")
    assert caught.value.filename == str(tmp_path / "none" / "file")
