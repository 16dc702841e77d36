"""Arrays that are read."""

import os
import threading
from pathlib import Path

import click
import numpy as np
import pytest

from tensor_reshape.cli.sources import open_bytes, open_source, read_array

SIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_file_is_mapped_and_not_writable(tmp_path: Path):
    np.save(tmp_path / "six.npy", SIX)
    with open_source(str(tmp_path / "six.npy")) as source:
        np.testing.assert_array_equal(source.array, SIX, strict=True)
        assert not source.array.flags.writeable


def test_a_fifo_is_read_to_its_end(tmp_path: Path):
    np.save(tmp_path / "six.npy", SIX)
    os.mkfifo(tmp_path / "fifo.npy")
    raw = (tmp_path / "six.npy").read_bytes()
    writer = threading.Thread(target=(tmp_path / "fifo.npy").write_bytes, args=(raw,))
    writer.start()
    with open_source(str(tmp_path / "fifo.npy")) as source:
        np.testing.assert_array_equal(source.array, SIX, strict=True)
    writer.join()


def test_an_archive_is_no_fifo(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo.npz")
    writer = threading.Thread(target=(tmp_path / "fifo.npz").write_bytes, args=(b"",))
    writer.start()
    with pytest.raises(click.ClickException, match="it takes a file"), open_source(str(tmp_path / "fifo.npz")):
        pass
    writer.join()


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
@pytest.mark.parametrize("raw", [b"", b"x", b"PK\x05\x06", b"\x93NUMPY", bytes(100), b"\xff" * 100], ids=repr)
def test_a_damaged_file_is_named(tmp_path: Path, ending: str, raw: bytes):
    path = tmp_path / f"file.{ending}"
    path.write_bytes(raw)
    with pytest.raises(click.ClickException, match=rf"file\.{ending} is not a readable \.{ending} file"):
        read_array(str(path))


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
def test_a_file_that_is_cut_short_anywhere_is_refused(tmp_path: Path, ending: str):
    path = tmp_path / f"file.{ending}"
    if ending == "npy":
        np.save(path, SIX)
    elif ending == "npz":
        np.savez(path, SIX)
    else:
        path.write_bytes(
            b"\x38\0\0\0\0\0\0\0" + b'{"a":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}}'.ljust(56) + bytes(24)
        )
    whole = path.read_bytes()
    read_array(str(path))
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(click.ClickException):
            read_array(str(path))


@pytest.mark.parametrize("name", ["none.npy", "none.npz:x", "null\0.npy"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str):
    with pytest.raises(click.ClickException, match="cannot be read"):
        read_array(str(tmp_path / name))


def test_a_folder_is_no_file(tmp_path: Path):
    with pytest.raises(click.ClickException, match="Is a directory"), open_bytes("it", str(tmp_path)):
        pass


def test_a_file_that_changed_is_noticed(tmp_path: Path):
    path = tmp_path / "six.npy"
    np.save(path, SIX)
    with open_source(str(path)) as source:
        source.check_unchanged()
        with path.open("ab") as file:
            file.write(b"more")
        with pytest.raises(click.ClickException, match="was changed while it was read"):
            source.check_unchanged()


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': (",
        "  x\n y\n",
        "{'descr': '<,4', 'fortran_order': False, 'shape': (3, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -1), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2" + 30 * "0" + "), }",
    ],
)
def test_a_header_that_numpy_stumbles_over_is_an_error_that_names_the_file(tmp_path: Path, header: str):
    path, text = tmp_path / "file.npy", header.encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64))
    with pytest.raises(click.ClickException, match=r"file\.npy is not a readable \.npy file"):
        read_array(str(path))


def test_a_device_without_an_end_is_refused():
    with pytest.raises(click.ClickException, match="/dev/zero is not a readable"):
        read_array("/dev/zero")


@pytest.mark.parametrize("change", [b"", b"more"])
def test_of_a_pipe_nothing_is_read_but_an_array(tmp_path: Path, change: bytes):
    array = np.arange(100_000, dtype=np.float32)  # several times what is read for a header
    np.save(tmp_path / "array.npy", array)
    os.mkfifo(tmp_path / "fifo.npy")
    raw = (tmp_path / "array.npy").read_bytes() + change
    writer = threading.Thread(target=(tmp_path / "fifo.npy").write_bytes, args=(raw,))
    writer.start()
    np.testing.assert_array_equal(read_array(str(tmp_path / "fifo.npy")), array, strict=True)
    writer.join()


def test_a_pipe_that_ends_too_early_is_refused(tmp_path: Path):
    np.save(tmp_path / "six.npy", SIX)
    os.mkfifo(tmp_path / "fifo.npy")
    raw = (tmp_path / "six.npy").read_bytes()[:-1]
    writer = threading.Thread(target=(tmp_path / "fifo.npy").write_bytes, args=(raw,))
    writer.start()
    with pytest.raises(click.ClickException, match="24 bytes of elements are to follow, and 23 do"):
        read_array(str(tmp_path / "fifo.npy"))
    writer.join()
