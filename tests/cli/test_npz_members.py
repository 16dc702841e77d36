"""Members of .npz, beside numpy's own reader and writer."""

import io
import zipfile
import zlib
from typing import Any

import numpy as np
import pytest

from tensor_reshape.cli.npy_headers import Placement
from tensor_reshape.cli.npz_members import choose_member, read_npz, write_npz

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def save(*, compressed: bool = False, **arrays: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer


def test_a_stored_member_is_found_where_it_lies():
    buffer = save(a=ARRAY[:1], b=ARRAY)
    placement = read_npz(buffer, "b")
    assert isinstance(placement, Placement)
    np.testing.assert_array_equal(placement.view(buffer.getbuffer()), ARRAY, strict=True)


@pytest.mark.parametrize("array", [ARRAY, np.asfortranarray(ARRAY), ARRAY[:0]], ids=["rows", "columns", "empty"])
def test_a_compressed_member_is_read(array: np.ndarray[Any, Any]):
    read = read_npz(save(compressed=True, a=array), "a")
    assert isinstance(read, np.ndarray)
    np.testing.assert_array_equal(read, array, strict=True)


def test_a_damaged_compressed_member_is_an_error():
    raw = bytearray(save(compressed=True, a=np.arange(1000)).getvalue())
    raw[400] ^= 0xFF
    with pytest.raises((zipfile.BadZipFile, zlib.error)):
        read_npz(io.BytesIO(bytes(raw)), "a")


def rewrite(header_of: tuple[int, ...], compression: int) -> io.BytesIO:
    """An archive whose member has a header of another shape than its elements."""
    header, buffer = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": header_of})
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("a.npy", header.getvalue() + ARRAY.tobytes())
    return buffer


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("dims", [(7,), (2**50,), (2**70,)], ids=str)
def test_a_header_that_tells_of_more_than_the_member_has_is_refused(dims: tuple[int, ...], compression: int):
    with pytest.raises(ValueError, match="its header tells of"):
        read_npz(rewrite(dims, compression), "a")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_numpy_would_not_write_so_is_refused(compression: int):
    with pytest.raises(ValueError, match="compressed as numpy does not do it"):
        read_npz(rewrite((6,), compression), "a")


def test_what_is_no_archive_is_refused():
    with pytest.raises(zipfile.BadZipFile):
        read_npz(io.BytesIO(b"PK\x03\x04 not a zip"), "")


@pytest.mark.parametrize(
    ("names", "member", "message"),
    [
        (["a", "b"], "", "name one of its members after a colon: a, b"),
        (["a"], "c", "it has no c: it has a"),
        ([], "", "name one of its members"),
        ([str(number) for number in range(25)], "", "18, 19 and 5 more"),
    ],
    ids=str,
)
def test_a_member_that_is_not_told_is_asked_for(names: list[str], member: str, message: str):
    with pytest.raises(ValueError, match=message):
        choose_member(names, member)


def test_the_only_member_needs_no_name():
    assert choose_member(["a"], "") == "a"


def test_numpy_reads_what_is_written():
    npy, archive = io.BytesIO(), io.BytesIO()
    np.save(npy, ARRAY)
    raw = npy.getvalue()
    write_npz(archive, "", [raw[:50], memoryview(raw)[50:]])
    archive.seek(0)
    np.testing.assert_array_equal(np.load(archive)["output"], ARRAY, strict=True)
