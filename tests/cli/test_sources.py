"""Locations of arrays, mapped files, headers of .safetensors files, and arrays from files and pipes."""

import io
import json
import mmap
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import click
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from command_line import SIX
from tensor_reshape.cli.sources import (
    MAX_NPZ_BYTES,
    NAMES,
    WINDOW_BYTES,
    FormatError,
    Location,
    MappedMemory,
    build_safetensors,
    choose_member,
    map_safetensors,
    open_bytes,
    open_source,
    read_array,
    read_location,
)
from tensor_reshape.client import DataType
from tensor_reshape.wire.arrays import DTYPES

SIZE = 3 * WINDOW_BYTES
OFFSET = 128  # the size of a .npy header, which is not a multiple of a page

RECORD = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
HEADERS: list[object] = [
    [],
    {},
    {"__metadata__": {"a": "b"}},
    {"a": None},
    {"a": {}},
    {"a": {**RECORD, "dtype": "C64"}},
    {"a": {**RECORD, "dtype": ["F32"]}},
    {"a": {**RECORD, "shape": [2, 4]}},
    {"a": {**RECORD, "shape": [2, 2]}},
    {"a": {**RECORD, "shape": [-2, -3]}},
    {"a": {**RECORD, "shape": [2, 3.0]}},
    {"a": {**RECORD, "shape": [True, 6]}},
    {"a": {**RECORD, "shape": "23"}},
    {"a": {**RECORD, "shape": 6}},
    {"a": {**RECORD, "data_offsets": [24, 0]}},
    {"a": {**RECORD, "data_offsets": [0]}},
    {"a": {**RECORD, "data_offsets": [-24, 0]}},
    {"a": {**RECORD, "shape": [2**70], "data_offsets": [0, 2**70]}},
]
"""Headers that are wrong for a file with 24 bytes of elements."""


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
    message = "it is damaged"
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
        with pytest.raises(click.ClickException, match=rf"file\.{ending} cannot be read") as caught:
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


def test_f8e5m2_file_of_ml_dtypes_is_refused_with_advice(tmp_path: Path):
    array = np.zeros(3, ml_dtypes.float8_e5m2)
    np.save(tmp_path / "file.npy", array)
    np.savez(tmp_path / "file.npz", array)
    for name in ("file.npy", "file.npz"):
        with pytest.raises(click.ClickException, match=r"type <f1, which is f8e5m2 .* --data-type f8e5m2"):
            read_array(str(tmp_path / name))
    with (
        feed(tmp_path / "pipe.npy", (tmp_path / "file.npy").read_bytes()) as name,
        pytest.raises(click.ClickException, match="type <f1"),
    ):
        read_array(name)


def test_python_objects_are_never_loaded(tmp_path: Path):
    array = np.array([{}], dtype=object)
    np.save(tmp_path / "file.npy", array)
    np.savez(tmp_path / "file.npz", array)
    (tmp_path / "pickle.npy").write_bytes(pickle.dumps([1]))
    for name in ("file.npy", "file.npz", "pickle.npy"):
        with pytest.raises(click.ClickException, match="does not contain an array of numbers"):
            read_array(str(tmp_path / name))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_member_of_each_layout_is_read(tmp_path: Path, save: Callable[..., None]):
    for array in (SIX, np.asfortranarray(SIX), SIX[:0]):
        save(tmp_path / "file.npz", a=array[:1], b=array)
        np.testing.assert_array_equal(read_array(f"{tmp_path}/file.npz:b"), array, strict=True)


def write_member(path: Path, raw: bytes, compression: int) -> str:
    with zipfile.ZipFile(path, "w", compression) as archive, archive.open("a.npy", "w", force_zip64=True) as stream:
        stream.write(raw)
    return str(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("shape", ["(17,)", "(2**30,)", f"({2**50},)", f"({2**70},)", "(-1,)"])
def test_npz_header_with_more_elements_than_the_member_is_rejected(tmp_path: Path, shape: str, compression: int):
    raw = write_npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n")
    name = write_member(tmp_path / "file.npz", raw, compression)
    with pytest.raises(click.ClickException, match=r"file\.npz cannot be read"):
        read_array(name)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_npz_compression_other_than_deflate_is_rejected(tmp_path: Path, raw: bytes, compression: int):
    name = write_member(tmp_path / "file.npz", raw, compression)
    with pytest.raises(click.ClickException, match="a compression that numpy does not use"):
        read_array(name)


def test_damaged_npz_archive_is_rejected(tmp_path: Path):
    path = tmp_path / "file.npz"
    np.savez(path, a=np.arange(1000))
    raw = bytearray(path.read_bytes())
    raw[400] ^= 0xFF  # a wrong checksum
    path.write_bytes(raw)
    with pytest.raises(click.ClickException, match="it is damaged"):
        read_array(str(path))


def test_npz_member_above_the_limit_is_refused_with_advice(tmp_path: Path):
    path = tmp_path / "file.npz"
    np.savez_compressed(path, a=SIX)
    raw = bytearray(path.read_bytes())
    size = raw.rindex(b"PK\x01\x02") + 24  # the position of the size after decompression
    raw[size : size + 4] = (MAX_NPZ_BYTES + 1).to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(click.ClickException, match=r"may have 1 GiB, but this one has 1073741825 bytes: use \.npy"):
        read_array(str(path))


def test_unreadable_file_name_raises_a_command_line_error(tmp_path: Path):
    for name in ("none.npy", "none.npz:x", "null\0.npy"):
        with pytest.raises(click.ClickException, match="cannot be read"):
            read_array(str(tmp_path / name))
    with pytest.raises(click.ClickException, match="Is a directory"), open_bytes("it", str(tmp_path)):
        pass
    with pytest.raises(click.ClickException, match="/dev/zero cannot be read: it is damaged"):
        read_array("/dev/zero")


def test_file_argument_is_split_into_path_format_and_member():
    locations = {
        "-": Location("-"),
        "a.npy": Location("a.npy"),
        "a:b.npy": Location("a:b.npy"),
        "plain": Location("plain"),
        "a.npz": Location("a.npz", "npz"),
        "a.npz:": Location("a.npz", "npz"),
        "a.npz:x": Location("a.npz", "npz", "x"),
        "d:e/a.npz:x:y": Location("d:e/a.npz", "npz", "x:y"),
        "m.safetensors:layer.0.weight": Location("m.safetensors", "safetensors", "layer.0.weight"),
        "m.safetensors": Location("m.safetensors", "safetensors"),
        ".npz:x": Location(".npz:x"),
    }
    assert {text: read_location(text) for text in locations} == locations
    assert [text for text in locations if read_location(text).is_pipe] == ["-"]


def test_npz_member_name_is_optional_for_a_single_array():
    assert choose_member(["a"], "") == "a"
    for names, member, message in (
        (["a", "b"], "", "has several arrays: add a colon and one of the names a, b"),
        (["a"], "c", "has no array 'c'; it has a"),
        ([], "", "contains no array"),
        ([str(number) for number in range(25)], "", "18, 19 and 5 more"),
    ):
        with pytest.raises(ValueError, match=message):
            choose_member(names, member)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(bytes(SIZE))
    return tmp_path / "file"


def read_resident(path: Path) -> int:
    """Returns the KiB of a mapped file in this process's memory."""
    _, _, rest = Path("/proc/self/smaps").read_text().partition(str(path))
    found = re.search(r"^Rss: +(\d+) kB", rest, re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_released_part_of_a_mapped_file_leaves_memory(path: Path, mode: Literal["r", "r+"]):
    array: np.memmap[Any, Any] = np.memmap(path, np.uint8, mode, offset=OFFSET)
    mapping = MappedMemory(array)
    assert not array.any()
    before = read_resident(path)
    mapping.give_back(2 * WINDOW_BYTES)
    assert read_resident(path) <= (WINDOW_BYTES + mmap.PAGESIZE) // 1024 < before


def test_released_part_of_a_mapped_file_keeps_written_bytes(path: Path):
    array: np.memmap[Any, Any] = np.memmap(path, np.uint8, "r+", offset=OFFSET)
    array[:3] = 7
    MappedMemory(array).give_back(array.nbytes)
    assert array[:4].tolist() == [7, 7, 7, 0]
    assert path.read_bytes()[OFFSET : OFFSET + 4] == b"\7\7\7\0"


def test_mapped_file_can_be_released_again_after_a_restart(path: Path):
    array: np.memmap[Any, Any] = np.memmap(path, np.uint8, "r", offset=OFFSET)
    mapping = MappedMemory(array)
    mapping.give_back(array.nbytes)
    mapping.give_back(0)
    assert not array.any()
    mapping.give_back(array.nbytes)
    assert read_resident(path) == 0


CUT = """
import os, sys
from tensor_reshape.cli.sources import open_source
with open_source(sys.argv[1]) as source:
    os.truncate(sys.argv[1], 0)
    source.array.tobytes()
"""


def test_reading_a_truncated_mapped_file_raises_sigbus(tmp_path: Path):
    """No program that maps files can prevent this, as the documentation says."""
    path = tmp_path / "file.npy"
    np.save(path, np.zeros(10_000))
    assert subprocess.run([sys.executable, "-c", CUT, path], check=False).returncode == -signal.SIGBUS


def write_file(header: object) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(24)


BROKEN = (b"", b"\0" * 7, struct.pack("<Q", 2**40), struct.pack("<Q", 9) + b"{}", struct.pack("<Q", 2) + b"\xff\xfe")


def test_safetensors_library_reads_the_written_header_of_every_type(tmp_path: Path):
    for data_type, dtype in NAMES.items():
        raw = bytes(range(6 * DTYPES[data_type].itemsize))
        written = build_safetensors(data_type, [2, 3], "x") + raw
        ((name, tensor),) = safetensors.deserialize(written)  # type: ignore[no-untyped-call]
        told = (name, tensor["dtype"], tensor["shape"], bytes(tensor["data"]))
        assert told == ("x", dtype, [2, 3], raw)
        path = tmp_path / "file.safetensors"
        path.write_bytes(written)
        with path.open("rb") as file:
            array = map_safetensors(file, "")
        assert (array.dtype, array.tobytes()) == (DTYPES[data_type], raw), dtype
    assert len(build_safetensors(DataType.F64, [3], "a name of some length")) % 8 == 0  # elements are aligned
    with pytest.raises(ValueError, match="has no type i4"):
        build_safetensors(DataType.I4, [3], "")


@pytest.mark.parametrize("raw", [*map(write_file, HEADERS), *BROKEN], ids=repr)
def test_missing_or_invalid_safetensors_header_is_rejected(raw: bytes):
    with pytest.raises(ValueError, match=r"header|array|type"):
        map_safetensors(io.BytesIO(raw), "")
