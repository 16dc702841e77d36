"""Reading arrays from files and pipes."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import numpy as np
import pytest

from command_line import SIX
from tensor_reshape.cli.npy_headers import FormatError
from tensor_reshape.cli.sources import open_bytes, open_source, read_array


@pytest.fixture
def raw(file: Path) -> bytes:
    """The file of `SIX`."""
    return file.read_bytes()


@contextmanager
def feed(path: Path, raw: bytes) -> Iterator[str]:
    """Returns the name of a pipe into which a thread writes."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(raw,))
    writer.start()
    yield str(path)
    writer.join()


def test_input_file_is_memory_mapped_read_only(file: Path):
    with open_source(str(file)) as source:
        np.testing.assert_array_equal(source.array, SIX, strict=True)
        assert not source.array.flags.writeable


def test_reading_a_pipe_returns_one_array_and_ignores_the_rest(tmp_path: Path, raw: bytes):
    with feed(tmp_path / "whole.npy", raw) as name, open_source(name) as source:
        np.testing.assert_array_equal(source.array, SIX, strict=True)
    array = np.arange(100_000, dtype=np.float32)  # several times the bytes that are read for a header
    np.save(tmp_path / "array.npy", array)
    with feed(tmp_path / "more.npy", (tmp_path / "array.npy").read_bytes() + b"more") as name:
        np.testing.assert_array_equal(read_array(name), array, strict=True)


def test_truncated_array_or_archive_in_a_pipe_is_rejected(tmp_path: Path, raw: bytes):
    message = "24 bytes of elements, but 23 follow"
    with feed(tmp_path / "fifo.npy", raw[:-1]) as name, pytest.raises(click.ClickException, match=message):
        read_array(name)
    with feed(tmp_path / "fifo.npz", b"") as name, pytest.raises(click.ClickException, match="must be a file"):
        open_source(name).__enter__()


def write_npy(header: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)


DAMAGED = (b"", b"x", b"PK\x05\x06", b"\x93NUMPY", bytes(100), b"\xff" * 100)
BREAKS_NUMPY = (
    "{'descr': (\n",
    "  x\n y\n\n",
    "{'descr': '<,4', 'fortran_order': False, 'shape': (3, 4), }\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 2), }\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -1), }\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': print(1), }\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2" + 30 * "0" + "), }\n",
)
"""Headers that break numpy's reader."""


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
def test_error_names_the_damaged_array_file(tmp_path: Path, ending: str):
    path = tmp_path / f"file.{ending}"
    for raw in (*DAMAGED, *map(write_npy, BREAKS_NUMPY)):
        path.write_bytes(raw)
        with pytest.raises(click.ClickException, match=rf"file\.{ending} is not a readable \.{ending} file") as caught:
            read_array(str(path))
        cause = caught.value.__cause__
        assert isinstance(cause, FormatError) or str(cause) not in caught.value.message, raw


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
def test_array_file_truncated_at_any_byte_is_rejected(tmp_path: Path, ending: str):
    path = tmp_path / f"file.{ending}"
    if ending == "npy":
        np.save(path, SIX)
    elif ending == "npz":
        np.savez(path, SIX)
    else:
        header = b'{"a":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}}'.ljust(56)
        path.write_bytes(b"\x38\0\0\0\0\0\0\0" + header + bytes(24))
    whole = path.read_bytes()
    read_array(str(path))
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(click.ClickException):
            read_array(str(path))


def test_unreadable_file_name_raises_a_command_line_error(tmp_path: Path):
    for name in ("none.npy", "none.npz:x", "null\0.npy"):
        with pytest.raises(click.ClickException, match="cannot be read"):
            read_array(str(tmp_path / name))
    with pytest.raises(click.ClickException, match="Is a directory"), open_bytes("it", str(tmp_path)):
        pass
    with pytest.raises(click.ClickException, match="/dev/zero is not a readable"):
        read_array("/dev/zero")


def test_change_of_an_open_input_file_is_detected(file: Path):
    with open_source(str(file)) as source:
        source.check_unchanged()
        with file.open("ab") as writer:
            writer.write(b"more")
        with pytest.raises(click.ClickException, match="changed while it was read"):
            source.check_unchanged()
